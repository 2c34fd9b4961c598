"""Files and directories, and nothing of reinforcement learning."""
