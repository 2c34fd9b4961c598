"""Offline meta-reinforcement learning with in-distribution online adaptation.

The public names load when they are first used, so importing idaq is fast and has no side effect.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from idaq.adapt.config import AdaptConfig
    from idaq.config import override
    from idaq.data.collect import collect
    from idaq.data.store import open_dataset
    from idaq.envs import get_family
    from idaq.errors import IdaqError
    from idaq.pipeline import adapt_all, run_all, train_all
    from idaq.presets import resolve
    from idaq.run_dir import RunDir
    from idaq.summary import load_results
    from idaq.training import Seeds

_PLACES = {
    "AdaptConfig": "idaq.adapt.config",
    "IdaqError": "idaq.errors",
    "RunDir": "idaq.run_dir",
    "Seeds": "idaq.training",
    "adapt_all": "idaq.pipeline",
    "collect": "idaq.data.collect",
    "get_family": "idaq.envs",
    "load_results": "idaq.summary",
    "open_dataset": "idaq.data.store",
    "override": "idaq.config",
    "resolve": "idaq.presets",
    "run_all": "idaq.pipeline",
    "train_all": "idaq.pipeline",
}
__all__ = [
    "AdaptConfig",
    "IdaqError",
    "RunDir",
    "Seeds",
    "adapt_all",
    "collect",
    "get_family",
    "load_results",
    "open_dataset",
    "override",
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
