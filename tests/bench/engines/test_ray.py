"""The same cells on a real Ray cluster of several nodes, one of which is lost on the way."""

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from idaq.bench.cells import Cell, make_cells
from idaq.bench.experiments import SCALES, get_experiment
from idaq.bench.runner import run_cells
from idaq.bench.tables import make_table, render
from idaq.errors import IdaqError
from tests.bench.small import TINY, leftovers, numbers

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed", exc_type=ImportError)
EXPERIMENT = get_experiment("mujoco-expert-context")
LONGER = replace(
    TINY, run=(*TINY.run, "train.num_updates=400", "train.checkpoint_every_updates=20")
)


def cells() -> list[Cell]:
    return make_cells(EXPERIMENT, "smoke", only="focal")


@pytest.fixture
def scale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SCALES, "smoke", LONGER)


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A head that runs nothing, and one node."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    yield cluster
    cluster.shutdown()  # type: ignore[no-untyped-call]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_node_is_lost_and_the_table_is_that_of_the_local_engine(
    cluster: Any, scale: None, tmp_path: Path, compile_cache: Path
) -> None:
    lost = cluster.add_node(num_cpus=2)
    outcome: dict[str, Any] = {}

    def work() -> None:
        outcome.update(
            statuses=run_cells(
                tmp_path / "ray", cells(), engine="ray", address=cluster.address, quiet=True
            )
        )

    runner = threading.Thread(target=work)
    runner.start()
    begun = time.monotonic()
    while not list((tmp_path / "ray").glob("cells/*/train/*.safetensors")):
        assert runner.is_alive()
        assert time.monotonic() - begun < 240
        time.sleep(0.01)
    cluster.add_node(num_cpus=2)
    cluster.remove_node(lost, allow_graceful=False)
    assert not list((tmp_path / "ray").rglob("expert-context/seed-001.npz")), "it was in the middle"
    runner.join()
    assert [status.state for status in outcome["statuses"].values()] == ["done", "done"]

    run_cells(tmp_path / "local", cells(), quiet=True)
    on_ray, local = (make_table(EXPERIMENT, tmp_path / name, cells()) for name in ("ray", "local"))
    assert render(on_ray, "csv") == render(local, "csv")
    assert numbers(tmp_path / "ray") == numbers(tmp_path / "local")
    assert not list(leftovers(tmp_path / "ray"))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_what_ray_cannot_do(cluster: Any, scale: None, tmp_path: Path) -> None:
    with pytest.raises(IdaqError, match="the whole cluster has"):
        run_cells(
            tmp_path, cells(), engine="ray", address=cluster.address, cpus_per_cell=64, quiet=True
        )
    with pytest.raises(IdaqError, match="Give 0 or more"):
        run_cells(tmp_path, cells(), engine="ray", cpus_per_cell=-1, quiet=True)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:x"])
def test_nothing_answers(scale: None, tmp_path: Path, address: str) -> None:
    with pytest.raises(IdaqError, match=f"Nothing answers at '{address}'"):
        run_cells(tmp_path, cells(), engine="ray", address=address, quiet=True)
