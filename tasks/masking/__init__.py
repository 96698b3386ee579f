"""Carry out the masking steps of a plan."""
