"""Tables beyond memory: columns in partitions, and what is computed over them by sums, counts and exchanges."""
