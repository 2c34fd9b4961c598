"""Benchmarks: the paper's numbers, statistics over seeds, and speed."""
