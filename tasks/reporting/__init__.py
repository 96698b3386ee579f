"""Reports, charts and tables of an assessment."""
