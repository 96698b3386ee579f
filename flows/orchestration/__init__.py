"""Prefect: flows, tasks and their settings."""
