"""Judges: what uncertainties read, learned beside an algorithm on the same batches."""
