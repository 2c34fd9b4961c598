"""What runs: training, episodes, worker processes, the meta-test loop."""
