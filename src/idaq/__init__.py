"""Offline meta-reinforcement learning with in-distribution online adaptation.

The public names load when they are first used, so importing idaq is fast and has no side effect.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from idaq.behaviour.collect import collect
    from idaq.config import override
    from idaq.envs import get_family
    from idaq.errors import IdaqError
    from idaq.registry import register
    from idaq.runs.api import adapt_all, run_all, train_all
    from idaq.runs.directory import RunDir
    from idaq.runs.resolve import resolve
    from idaq.runs.results import load_results
    from idaq.runs.run import Run
    from idaq.runs.train_stage import Seeds
    from idaq.settings import AdaptConfig
    from idaq.storage.dataset import open_dataset

_PLACES = {
    "AdaptConfig": "idaq.settings",
    "IdaqError": "idaq.errors",
    "Run": "idaq.runs.run",
    "RunDir": "idaq.runs.directory",
    "Seeds": "idaq.runs.train_stage",
    "adapt_all": "idaq.runs.api",
    "collect": "idaq.behaviour.collect",
    "get_family": "idaq.envs",
    "load_results": "idaq.runs.results",
    "open_dataset": "idaq.storage.dataset",
    "override": "idaq.config",
    "register": "idaq.registry",
    "resolve": "idaq.runs.resolve",
    "run_all": "idaq.runs.api",
    "train_all": "idaq.runs.api",
}
__all__ = [
    "AdaptConfig",
    "IdaqError",
    "Run",
    "RunDir",
    "Seeds",
    "adapt_all",
    "collect",
    "get_family",
    "load_results",
    "open_dataset",
    "override",
    "register",
    "resolve",
    "run_all",
    "train_all",
]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'idaq' has no attribute '{name}'")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES])
