"""Ingest the source, validate its edits, split off the reference sample, prepare external releases."""
