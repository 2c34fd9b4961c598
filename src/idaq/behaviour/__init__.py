"""Behaviour policies: who logs the data of a family, at which quality, and how they are trained."""
