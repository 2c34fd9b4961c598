"""Check that a run uses idaq's own code, except for components that the user registered.

`run.json` names what comes with idaq by its version. A function of idaq's that was replaced in this
process (`idaq.objectives.metric.metric_loss = mine`) would run under that version, or not at all
where a program was compiled with the one before. So it is refused.
"""

import inspect
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from idaq.errors import IdaqError

# rooms whose code trains, and acts
ROOMS = {"nets", "learners", "judges", "objectives", "algos", "adapt", "engine"}
DESCRIBES = "idaq.engine.provenance"  # decides nothing
AUTHORS = {"idaq", "jax", "jaxlib", "numpy", "optax", "rich", *sys.stdlib_module_names}


def check_own_code() -> None:
    """Refuse what stands in a function's place in those rooms and is not idaq's own."""
    for name, module in list(sys.modules.items()):
        package, *rooms = name.split(".")
        if package == "idaq" and ROOMS.intersection(rooms[:1]) and name != DESCRIBES:
            for place, thing in _callables(module):
                if not _is_own(place, thing):
                    raise IdaqError(
                        f"'{name}.{place}' was replaced by {_described(thing)}, which the run's "
                        "versions would not say.",
                        "Register a component of your own instead: see docs/architecture.md.",
                    )


def _callables(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The functions and classes that a module names, and the functions of its own classes."""
    for name, thing in vars(module).items():
        if callable(thing):
            yield name, thing
        if inspect.isclass(thing) and thing.__module__ == module.__name__:
            for inner, function in vars(thing).items():
                if inspect.isfunction(function):
                    yield f"{name}.{inner}", function


def _is_own(place: str, thing: Any) -> bool:
    """Whether idaq or a library defines it, and functions under the name that they have here."""
    author = str(getattr(thing, "__module__", None) or "idaq")
    name = place.rpartition(".")[2]
    is_alias = not name.strip("_").islower()  # of a type; those have names of their own
    return author.partition(".")[0] in AUTHORS and (
        is_alias or "." in place or getattr(thing, "__name__", "") == name
    )


def _described(thing: Any) -> str:
    if inspect.isfunction(thing) or inspect.isclass(thing):
        return f"'{thing.__name__}' of '{thing.__module__}'"
    return f"a {type(thing).__name__}"
