"""Where tables beyond memory lie, encrypted, and what carries out tasks on them."""
