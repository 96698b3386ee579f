"""Household trees: the parameters, the rules of the source's households, and the drawing of whole households."""
