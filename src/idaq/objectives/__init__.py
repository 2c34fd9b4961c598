"""Objectives: what trains the context encoder of an algorithm."""
