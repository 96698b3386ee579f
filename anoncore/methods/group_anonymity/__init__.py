"""Group anonymity: hide where a group of people is, and keep what its distribution shows."""
