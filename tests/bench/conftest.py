"""The program, and a scale that is tiny."""

from tests.bench.small import tiny
from tests.program import idaq, no_figures, refused

__all__ = ["idaq", "no_figures", "refused", "tiny"]
