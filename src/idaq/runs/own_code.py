"""That what trains is idaq's own code, where it is not a component of the user's.

`run.json` names what comes with idaq by its version. A function of idaq's that was replaced in this
process (`idaq.objectives.metric.metric_loss = mine`) would train under that version, or not at all
where a program was compiled with the one before. So it is refused.
"""

import inspect
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from idaq.errors import IdaqError

ROOMS = ("nets", "learners", "judges", "objectives", "algos")  # whose code trains
AUTHORS = {"idaq", "jax", "jaxlib", "numpy", "optax", *sys.stdlib_module_names}


def check_own_code() -> None:
    """Refuse functions in the rooms that train and that neither idaq nor a library defines."""
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "idaq" and name.split(".")[1:2] in [[room] for room in ROOMS]:
            for place, thing in _functions(module):
                author = str(getattr(thing, "__module__", None) or "idaq")
                if author.partition(".")[0] not in AUTHORS:
                    raise IdaqError(
                        f"'{name}.{place}' was replaced by a function of '{author}', which the "
                        "run's versions would not say.",
                        "Register a component of your own instead: see docs/architecture.md.",
                    )


def _functions(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The functions and classes that a module names, and the functions of its own classes."""
    for name, thing in vars(module).items():
        if callable(thing):
            yield name, thing
        if inspect.isclass(thing) and thing.__module__ == module.__name__:
            for inner, function in vars(thing).items():
                if inspect.isfunction(function):
                    yield f"{name}.{inner}", function
