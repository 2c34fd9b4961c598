"""Experiments whose cells take seconds, in this process and in others."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from idaq.bench import experiments
from idaq.bench.experiments import Scale
from tests.program import NETWORKS, SMALL_NETWORKS

SETTINGS = tuple(word for word in NETWORKS if word.startswith("algorithm."))
TINY = Scale(
    preset="default",
    seeds=2,
    trajectories=2,
    run=(
        "train.num_updates=5",
        "train.log_every_updates=1",
        "train.checkpoint_every_updates=2",
        "adapt.num_reference_episodes=2",
        "adapt.num_iterative_episodes=2",
    ),
    algorithms={**SMALL_NETWORKS, "focal": SETTINGS, "op-cl": SETTINGS},
    only_smoke_rows=True,
)

# The program with the same tiny scale, for processes that are to be killed.
MAIN = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from tests.bench.small import TINY
from idaq.bench import experiments
experiments.SCALES["smoke"] = TINY
import idaq.engine.provenance
idaq.engine.provenance.git_state = lambda: None
from idaq.cli import main
sys.exit(main())
"""


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scale `smoke` is tiny."""
    monkeypatch.setitem(experiments.SCALES, "smoke", TINY)
    monkeypatch.setattr("idaq.engine.provenance.git_state", lambda: None)


def numbers(results: Path) -> dict[str, bytes]:
    """What two equal benchmarks share: raw results and agents, byte for byte."""
    kinds = ("*.npz", "*.safetensors", "summary.json")
    files = [file for kind in kinds for file in results.glob(f"cells/**/{kind}")]
    return {str(file.relative_to(results)): file.read_bytes() for file in sorted(files)}


def leftovers(results: Path) -> Iterator[Path]:
    """Temporary files."""
    return results.rglob(".*.tmp-*")
