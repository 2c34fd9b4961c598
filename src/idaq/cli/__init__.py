"""The command line: parse, call, print."""

from idaq.cli.program import main

__all__ = ["main"]
