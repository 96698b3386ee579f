"""Server processes, the settings and addresses they share, and the HTTP middleware in front of them."""
