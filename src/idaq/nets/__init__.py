"""Networks as plain pytrees of parameters and pure forward functions."""
