"""The program, its small job, and the files that it leaves."""

from tests.program import (
    _made,
    data,
    idaq,
    no_figures,
    refused,
    run,
)

__all__ = ["_made", "data", "idaq", "no_figures", "refused", "run"]
