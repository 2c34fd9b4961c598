"""A run from its directory to its summary."""
