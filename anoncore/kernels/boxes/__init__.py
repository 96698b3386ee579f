"""Kernels of optimal boxes: partitions, shapes, weights, and certified ranges of statistics."""
