"""BOReL: a belief over tasks that is updated every step, and a policy on it."""
