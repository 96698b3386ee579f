"""Kernels of fuzzy c-means, its entropy and balanced forms."""
