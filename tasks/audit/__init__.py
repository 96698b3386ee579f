"""Verify ledger, approvals, releases and MLflow against each other."""
