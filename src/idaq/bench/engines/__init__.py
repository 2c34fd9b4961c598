"""Where cells are run: on this machine, or on Ray."""
