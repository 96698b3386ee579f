"""The search for settings of a plan that pass every gate at the least loss."""
