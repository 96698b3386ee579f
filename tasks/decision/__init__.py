"""Carry out what the policy or approvers decide, and record it."""
