"""`idaq theory`: run the checks, print them, draw the figures."""

import json as json_format
import re
from pathlib import Path

from rich.console import Console

from idaq.errors import IdaqError
from idaq.theory.checks import is_as_expected, run_checks
from idaq.theory.figures import check_figures, write_figures
from idaq.theory.table import print_table

SMALLEST_V, LARGEST_V = 3, 12


def parse_v(text: str) -> range:
    """Read "3..10", or a single number, as a range of doors."""
    match = re.fullmatch(r"\s*([0-9]{1,4})\s*(?:\.\.\s*([0-9]{1,4})\s*)?", text)
    if match is None:
        raise IdaqError(f"--v {text!r} is not a range of doors.", "Write it as 3..10.")
    first = int(match[1])
    last = int(match[2] or match[1])
    if last < first:
        raise IdaqError(
            f"--v {text!r} is empty.", f"Write the smaller number first: {last}..{first}."
        )
    if first < SMALLEST_V:
        raise IdaqError(
            f"--v {text!r} starts below {SMALLEST_V}: of two doors, excluding one names the other.",
            f"Start at {SMALLEST_V}.",
        )
    if last > LARGEST_V:
        raise IdaqError(
            f"--v {text!r} goes beyond {LARGEST_V}: the number of beliefs doubles with each door.",
            f"Stop at {LARGEST_V}.",
        )
    return range(first, last + 1)


def theory(
    check: str | None = None,
    v: str = "3..10",
    json: bool = False,
    figure: Path | None = None,
) -> int:
    """Check the paper's statements.

    Returns 0 when every check came out as it should, else 1: a statement that is false as printed
    fails, any other holds or is vacuous. A mistake in the arguments raises an IdaqError that says
    what to do.
    """
    v_range = parse_v(v)
    if figure is not None:
        check_figures(figure)
    progress = Console(stderr=True, markup=False, emoji=False)
    with progress.status("checking") as status:
        checks = run_checks(
            None if check is None else [check],
            v_range,
            on_start=lambda name: status.update(f"checking {name}"),
        )
        if figure is not None:
            status.update("drawing figures")
            for path in write_figures(figure, v_range):
                progress.print(f"wrote {path}", highlight=False, soft_wrap=True)
    if json:
        print(json_format.dumps({"checks": [each.as_dict() for each in checks]}, indent=2))
    else:
        print_table(checks, notes=check is not None)
        if check is None:
            Console().print("Notes and counterexamples: --check NAME, or --json.", style="dim")
    return 0 if all(is_as_expected(each) for each in checks) else 1
