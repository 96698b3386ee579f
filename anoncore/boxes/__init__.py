"""Released ranges: read them, estimate statistics from them, keep edits on them."""
