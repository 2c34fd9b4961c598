"""The training loop: chunks, checkpoints and groups of seeds do not change the results."""

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idaq.algos.context_based import ContextBased, State
from idaq.algos.data import TrainData
from idaq.algos.entries import make_algorithm
from idaq.engine.train import one_seed, train_data, train_group
from idaq.envs import POINT_FAMILIES
from idaq.envs.family import split_tasks
from idaq.settings import TrainConfig
from idaq.storage import checkpoint
from idaq.storage.dataset import Dataset
from idaq.types import Key, PyTree
from tests import tiny

NUM_UPDATES = 8


@dataclass(frozen=True)
class Traced(ContextBased):
    """FOCAL that counts how often its update was traced, by name."""

    counted_as: str = ""
    traces: ClassVar[dict[str, int]] = {}

    @classmethod
    def of(cls, algorithm: ContextBased, counted_as: str) -> "Traced":
        parts = {each.name: getattr(algorithm, each.name) for each in fields(ContextBased)}
        return cls(**parts, counted_as=counted_as)

    def update(self, state: State, data: TrainData, key: Key) -> tuple[State, dict[str, Any]]:
        self.traces[self.counted_as] = self.traces.get(self.counted_as, 0) + 1
        return super().update(state, data, key)


SMALL = tiny.ALGORITHMS["td3-bc"]
ALGORITHM = Traced.of(SMALL, "td3-bc")


def group_data(num_seeds: int) -> TrainData:
    """The tiny data for a group; every seed has other training tasks."""
    data = tiny.data()
    tasks = [(0, 1, 3, 4), (2, 3, 4, 5), (0, 2, 3, 5)][:num_seeds]
    return data.replaced(
        train_tasks=jnp.asarray(tasks, jnp.int32),
        normaliser=jax.tree.map(lambda x: jnp.stack([x] * num_seeds), data.normaliser),
        start_std=jnp.stack([data.start_std] * num_seeds),
        unrelated=jnp.stack([data.unrelated] * num_seeds),
        mean_return=jnp.stack([data.mean_return] * num_seeds),
    )


def train(
    place: Path,
    *seeds: int,
    log_every: int = 3,
    checkpoint_every: int = 100,
    stop_at: int | None = None,
    data: TrainData | None = None,
    algorithm: ContextBased = ALGORITHM,
) -> list[PyTree]:
    """Train a group in a directory; `stop_at` is the update after which it is interrupted."""

    def on_progress(done: int) -> None:
        if stop_at is not None and done >= stop_at:
            raise KeyboardInterrupt

    config = TrainConfig(
        num_updates=NUM_UPDATES,
        log_every_updates=log_every,
        checkpoint_every_updates=checkpoint_every,
    )
    return train_group(
        algorithm,
        config,
        data or group_data(len(seeds)),
        list(seeds),
        place / "checkpoint.safetensors",
        [place / f"seed-{seed}" for seed in seeds],
        on_progress,
    )


def read_metrics(place: Path) -> list[dict[str, Any]]:
    lines = (place / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> PyTree:
    """The agent of seed 0, trained in one go."""
    return train(tmp_path_factory.mktemp("reference"), 0)[0]


@pytest.mark.parametrize("log_every", [1, 7, 50])
def test_chunks_do_not_matter(reference: PyTree, tmp_path: Path, log_every: int) -> None:
    (agent,) = train(tmp_path, 0, log_every=log_every)
    assert tiny.same(agent, reference)
    updates = [row["update"] for row in read_metrics(tmp_path / "seed-0")]
    expected = [*range(log_every, NUM_UPDATES, log_every), NUM_UPDATES]
    assert updates == sorted(set(expected))


@pytest.mark.parametrize("stop_at", [2, 5, 6, 7])
def test_an_interrupted_run_ends_like_one_never_interrupted(
    reference: PyTree, tmp_path: Path, stop_at: int
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    (never,) = train(whole, 0, checkpoint_every=5)
    with pytest.raises(KeyboardInterrupt):
        train(broken, 0, checkpoint_every=5, stop_at=stop_at)
    (resumed,) = train(broken, 0, checkpoint_every=5)
    assert tiny.same(never, reference)
    assert tiny.same(resumed, reference)
    assert read_metrics(broken / "seed-0") == read_metrics(whole / "seed-0")


def test_resuming_starts_from_the_checkpoint(tmp_path: Path) -> None:
    """It continues after the update, and with the state, that the checkpoint has."""
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, 0, checkpoint_every=5, stop_at=5)
    file = tmp_path / "checkpoint.safetensors"
    shapes = jax.tree.map(lambda x: x[None], tiny.first_state(SMALL))
    state, header = checkpoint.load(file, shapes)
    assert header["updates_done"] == 5
    spoiled = state._replace(encoder=jax.tree.map(jnp.zeros_like, state.encoder))
    checkpoint.save(file, spoiled, {"updates_done": 7, "seeds": [0]})
    (agent,) = train(tmp_path, 0, checkpoint_every=5)
    first_layer = np.asarray(agent.encoder[0]["weight"])
    # one update moves it away from zero by about the learning rate at most
    assert np.abs(first_layer).max() < 10 * SMALL.config.encoder_learning_rate


def test_seeds_differ(reference: PyTree, tmp_path: Path) -> None:
    data = group_data(1)  # the same tasks, too
    (other,) = train(tmp_path, 1, data=data)
    for name in ("encoder", "policy", "prior"):
        assert not tiny.close(getattr(other, name), getattr(reference, name))


def test_a_group_is_its_seeds(reference: PyTree, tmp_path: Path) -> None:
    together = train(tmp_path / "together", 0, 1)
    alone = train(tmp_path / "alone", 1, data=_second())
    assert tiny.close(together[0], reference)
    assert tiny.close(together[1], alone[0])
    for seed in (0, 1):
        assert len(read_metrics(tmp_path / "together" / f"seed-{seed}")) == 3


def _second() -> TrainData:
    """The second seed's view, as a group of one."""
    data = group_data(2)
    mine = one_seed(data, 1)
    return data.replaced(
        train_tasks=mine.train_tasks[None],
        normaliser=jax.tree.map(lambda x: x[None], mine.normaliser),
        start_std=mine.start_std[None],
        unrelated=mine.unrelated[None],
        mean_return=mine.mean_return[None],
    )


def test_later_chunks_compile_nothing_new(tmp_path: Path) -> None:
    """Neither after the first chunk nor after a checkpoint is loaded."""
    algorithm = Traced.of(tiny.ALGORITHMS["sac-brac"], "sac-brac")
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, 0, log_every=1, checkpoint_every=2, stop_at=1, algorithm=algorithm)
    traced_once = Traced.traces["sac-brac"]
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path, 0, log_every=1, checkpoint_every=2, stop_at=4, algorithm=algorithm)
    train(tmp_path, 0, log_every=1, checkpoint_every=2, algorithm=algorithm)
    assert Traced.traces["sac-brac"] == traced_once


def test_metrics_are_means_over_their_chunk(tmp_path: Path) -> None:
    train(tmp_path / "fine", 0, log_every=1)
    train(tmp_path / "coarse", 0, log_every=4)
    fine, coarse = (read_metrics(tmp_path / name / "seed-0") for name in ("fine", "coarse"))
    assert len(fine) == NUM_UPDATES
    for index, row in enumerate(coarse):
        part = fine[4 * index : 4 * index + 4]
        for name in set(row) - {"update"}:
            mean = np.mean([each[name] for each in part])
            assert row[name] == pytest.approx(mean, rel=1e-4), name


def test_data_of_a_group_has_its_own_tasks_and_normalisers(datasets: dict[str, Dataset]) -> None:
    family = POINT_FAMILIES["point-robot"]
    algorithm = make_algorithm(SMALL.config, family.spec)
    splits = [split_tasks(100, seed).train for seed in (0, 1)]
    data = train_data(datasets["point-robot"], algorithm, splits)
    np.testing.assert_array_equal(data.train_tasks, splits)
    assert data.normaliser.obs_mean.shape == (2, 2)
    obs = datasets["point-robot"].arrays["observations"].reshape(100, -1, 2)
    for index, tasks in enumerate(splits):
        mine = one_seed(data, index)
        np.testing.assert_array_equal(mine.train_tasks, tasks)
        expected = obs[tasks].astype(np.float64).mean(axis=(0, 1))
        np.testing.assert_allclose(mine.normaliser.obs_mean, expected, rtol=1e-4, atol=1e-6)
