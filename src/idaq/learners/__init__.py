"""Offline learners: the policy behind a task embedding."""
