"""What the library says about arguments, in the words of the command line.

Errors of the library name arguments and settings in backticks, as in Python: `resume=True`,
`seeds.count`. Whoever typed a command knows them as options: --resume, --seeds.
"""

import json
import re
from ast import literal_eval
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_args

from tyro.conf import Positional

from idaq.cli.adapt import ADAPT_SETTINGS, Adapt, Adaptation
from idaq.cli.behaviour import Behaviour
from idaq.cli.collect import Collect
from idaq.cli.train import Train
from idaq.settings import RunConfig

ARGUMENT = re.compile(r"`([a-z]\w*(?:\.\w+)*)(?:=([^`]*))?`")
POSITIONAL = get_args(Positional[str])[1]
ELSEWHERE = (Train, Adapt, Collect, Behaviour)  # a remedy may name an option of another command
SETTINGS = tuple(f"{field.name}." for field in fields(RunConfig))
RENAMED = {  # arguments and settings under other names; the first that the command has counts
    "directory": ("out", "run_directory", "results"),
    "task": ("video_task",),
    "seeds.count": ("seeds",),
    "seeds.first": ("first_seed",),
    "seeds.at_once": ("seeds_at_once",),
    "train.num_updates": ("updates",),
    "algorithm.ensemble.size": ("ensemble_size",),
    **{
        f"adapt.{ADAPT_SETTINGS.get(each.name, each.name)}": (each.name,)
        for each in fields(Adaptation)
    },
}


def in_flags(text: str, command: Any = None) -> str:
    """A text of the library, for the user of that command."""
    given = [] if command is None else [getattr(command, "command", command)]  # of `idaq bench`
    options = [dict(_options(each)) for each in (*given, *ELSEWHERE)]

    def translated(match: re.Match[str]) -> str:
        name, value = match.groups()
        for known in options:
            for option in RENAMED.get(name, (name,)):
                if option in known:
                    return _typed(known[option], value)
        if name.startswith(SETTINGS):
            return f"--set {name}={'...' if value is None else _as_json(value)}"
        return match[0]

    return ARGUMENT.sub(translated, text)


def _options(command: Any) -> Iterator[tuple[str, str]]:
    """Names of a command's options, and how they are typed: --first-seed, or FAMILY."""
    for field in fields(command):
        kind, *notes = get_args(field.type) or (field.type,)
        if is_dataclass(kind):
            yield from _options(kind)
        elif POSITIONAL in notes:
            metavar = next(note.metavar for note in notes if hasattr(note, "metavar"))
            yield field.name, metavar.split()[0]
        else:
            yield field.name, f"--{field.name.replace('_', '-')}"


def _typed(option: str, value: str | None) -> str:
    return option if value in (None, "True") else f"{option} {_as_json(value)}"


def _as_json(value: str) -> str:
    """A Python literal as JSON, which is how settings are given; other text as it is."""
    try:
        return json.dumps(literal_eval(value))
    except (SyntaxError, ValueError):
        return value
