"""Offline multi-task datasets: collected, stored, read."""
