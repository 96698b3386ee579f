"""Prefect: releases as flows, its server application, and what depends on the internals of Prefect and MLflow."""
