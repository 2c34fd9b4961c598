"""The program, its small job and what that leaves on disk."""

from tests.program import (
    _made,
    data,
    idaq,
    no_figures,
    refused,
    run,
)

__all__ = ["_made", "data", "idaq", "no_figures", "refused", "run"]
