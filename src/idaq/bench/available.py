"""What this version of idaq can run of what the experiments declare."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from idaq import presets
from idaq.adapt import method_names
from idaq.envs import FAMILIES, get_family
from idaq.presets import RunConfig

EXPERT = "expert"
FOCAL = "focal"
_QUALITY_MODULE = "idaq.behaviour"


def missing(
    family: str, quality: str, algorithm: str | None, methods: tuple[str, ...]
) -> str | None:
    """The first thing that a cell names and that is not there; `algorithm` is None for data."""
    if family not in FAMILIES:
        return f"no family '{family}' in this version"
    if quality not in _qualities(family):
        return f"no data of quality '{quality}' in this version"
    if algorithm is not None and algorithm not in getattr(presets, "ALGORITHMS", (FOCAL,)):
        return f"no algorithm '{algorithm}' in this version"
    unknown = [method for method in methods if method not in method_names()]
    return f"no method '{unknown[0]}' in this version" if unknown else None


def resolve(preset: str, family: str, algorithm: str) -> RunConfig:
    """The configuration of a preset on a family."""
    named = () if algorithm == FOCAL else (algorithm,)
    return presets.resolve(preset, family, *named)


def collect_options(quality: str) -> dict[str, Any]:
    """How `collect` is asked for data of a quality."""
    return {} if quality == EXPERT else {"quality": quality}


def _qualities(family: str) -> tuple[str, ...]:
    if find_spec(_QUALITY_MODULE) is None:
        return (EXPERT,)
    quality = import_module(f"{_QUALITY_MODULE}.quality")
    return tuple(quality.qualities_of(get_family(family)))
