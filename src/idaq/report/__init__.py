"""Tables and figures, computed from saved results alone."""
