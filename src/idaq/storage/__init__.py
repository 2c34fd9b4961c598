"""Files and directories: no algorithms, agents or environments."""
