"""The program, and a scale that is tiny."""

from tests.bench.small import tiny
from tests.program import compile_cache, idaq, no_figures, refused

__all__ = ["compile_cache", "idaq", "no_figures", "refused", "tiny"]
