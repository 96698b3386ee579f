"""Measure disclosure risk and utility of a candidate; control what may be disclosed of the figures."""
