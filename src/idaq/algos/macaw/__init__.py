"""MACAW: an outer loop over an inner one."""
