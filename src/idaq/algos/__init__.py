"""Meta-training algorithms behind one contract (`idaq.algos.base`)."""
