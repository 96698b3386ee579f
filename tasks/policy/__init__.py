"""The policy of a plan: its gates and the verdict on a candidate."""
