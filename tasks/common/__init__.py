"""Foundations of every step: safe errors, the home, the workspace, keys and named secrets."""
