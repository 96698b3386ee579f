"""Tasks on a cluster of Dask: what connects, what workers do, and how they get the key."""
