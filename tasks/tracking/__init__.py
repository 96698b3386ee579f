"""Metrics in MLflow, aggregates only."""
