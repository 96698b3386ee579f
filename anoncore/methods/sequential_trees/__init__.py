"""Sequential trees: the parameters, and the drawing of a table variable by variable."""
