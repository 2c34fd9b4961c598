"""Meta-World's ML1 sets, their experts, and simulators that step faster."""
