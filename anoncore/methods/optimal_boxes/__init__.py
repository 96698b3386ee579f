"""Optimal boxes: ranges that keep chosen statistics accurate, with guaranteed bounds."""
