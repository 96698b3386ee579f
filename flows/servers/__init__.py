"""Server processes and the HTTP middleware in front of them."""
