"""The options of `idaq theory`; the heavy imports are in `idaq.cli.theory`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from idaq.cli.options import Flag, unset


@dataclass(frozen=True, kw_only=True)
class Theory:
    """Check the paper's theory on finite task families, exactly, statement by statement."""

    check: Annotated[str | None, unset("NAME", "all checks")] = None
    """One check by its name, with its notes."""
    v: Annotated[str, arg(metavar="FIRST..LAST")] = "3..10"
    """How many doors (tasks) the paper's example has."""
    figure: Annotated[Path | None, unset("DIR", "no figures")] = None
    """Also draw the figures into this directory."""
    json: Flag = False
    """Print JSON for machines."""

    def run(self) -> int:
        from idaq.cli.theory import theory

        return theory(check=self.check, v=self.v, json=self.json, figure=self.figure)
