"""The release plan: its model, its file, its schedule."""
