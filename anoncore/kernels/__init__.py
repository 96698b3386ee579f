"""Numerical kernels: arrays in, arrays out, validation already done."""
