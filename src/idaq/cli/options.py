"""Types of options that commands share: how they are read, and how the help shows them."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_args

from tyro.conf import Positional, UseAppendAction, arg

from idaq.settings import Accept, Final


def unset(metavar: str, default: str) -> Any:
    """How the help shows an option whose default is decided later."""
    return arg(metavar=metavar, help_behavior_hint=f"(default: {default})")


def unset_choice(choices: Any, default: str) -> Any:
    """The same for an option with choices."""
    return unset(f"{{{','.join(get_args(choices))}}}", default)


def hinted(metavar: str, hint: Callable[[], str]) -> Any:
    """The same with a hint that names entries of a registry; only the help loads them."""
    return arg(metavar=metavar, help_behavior_hint=lambda _: f"({hint()})")


def _default_algorithm() -> str:
    from idaq.algos.entries import default_algorithm

    return f"default: {default_algorithm()}"


def _searches(stage: str) -> Callable[[], str]:
    """A hint that names the searches for a stage, `first` or `next`."""

    def names() -> str:
        from idaq.adapt.search import SEARCHES

        able = [each.name for each in SEARCHES.values() if getattr(each, stage) is not None]
        return f"one of {', '.join(able)}; default: {AS_SET_UP}"

    return names


DEFAULT_GRACE = 5.0  # between the SIGTERM and the SIGKILL of containers are ten seconds
AS_SET_UP = "as the run is set up"
Flag = Annotated[bool, arg(help_behavior_hint="")]
Family = Annotated[Positional[str], arg(metavar="FAMILY")]
Families = Annotated[
    Positional[tuple[str, ...]], arg(metavar="FAMILY [FAMILY ...]", help_behavior_hint="")
]
Grace = Annotated[float, arg(metavar="SECONDS")]
Workers = Annotated[int, unset("INT", "one per core")]
Policies = Annotated[Path | None, unset("DIR", "the family's own")]
Directories = Annotated[
    Positional[tuple[Path, ...]], arg(metavar="RUN [RUN ...]", help_behavior_hint="")
]
RunDirectory = Annotated[Positional[Path], arg(metavar="RUN")]
Out = Annotated[Path | None, unset("DIR", "runs/FAMILY-[ALGORITHM-]PRESET")]
Algorithm = Annotated[str, hinted("NAME", _default_algorithm)]
PresetInt = Annotated[int | None, unset("INT", "the preset's")]
RunInt = Annotated[int | None, unset("INT", AS_SET_UP)]
FirstSearch = Annotated[str | None, hinted("SEARCH", _searches("first"))]
NextSearch = Annotated[str | None, hinted("SEARCH", _searches("next"))]
RunAccept = Annotated[Accept | None, unset_choice(Accept, AS_SET_UP)]
RunFinal = Annotated[Final | None, unset_choice(Final, AS_SET_UP)]
Settings = Annotated[
    UseAppendAction[tuple[tuple[str, ...], ...]],
    arg(metavar="NAME=VALUE [NAME=VALUE ...]", help_behavior_hint=""),
]
Methods = Annotated[
    UseAppendAction[tuple[tuple[str, ...], ...]],
    arg(
        metavar="METHOD [METHOD ...]",
        help_behavior_hint="(default: the algorithm's own comparison)",
    ),
]
