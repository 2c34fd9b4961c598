"""Every algorithm in the training loop: interrupted or not, alone or in a group."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from idaq.algos.base import Algorithm
from idaq.algos.data import TrainData
from idaq.engine.train import one_seed, train_group
from idaq.settings import TrainConfig
from tests import tiny

LOG_EVERY = {"op-cl": 1, "macaw": 1, "borel": 3}  # one length of a chunk compiles one program


def group_data(*tasks: tuple[int, ...]) -> TrainData:
    data, num = tiny.data(), len(tasks)
    return data.replaced(
        train_tasks=jnp.asarray(tasks, jnp.int32),
        normaliser=jax.tree.map(lambda x: jnp.stack([x] * num), data.normaliser),
        start_std=jnp.stack([data.start_std] * num),
        unrelated=jnp.stack([data.unrelated] * num),
        mean_return=jnp.stack([data.mean_return] * num),
    )


def train(
    algorithm: Algorithm, place: Path, seeds: list[int], data: TrainData, stop: int = 99
) -> Any:
    def on_progress(done: int) -> None:
        if done >= stop:
            raise KeyboardInterrupt

    logs = [place / f"seed-{seed}" for seed in seeds]
    config = TrainConfig(
        num_updates=4,
        log_every_updates=LOG_EVERY[algorithm.name],
        checkpoint_every_updates=2,
    )
    return train_group(algorithm, config, data, seeds, place / "checkpoint", logs, on_progress)


@pytest.mark.parametrize("name", LOG_EVERY)
def test_interrupted_or_in_a_group_it_ends_the_same(name: str, tmp_path: Path) -> None:
    """BOReL is stopped in its second phase, and its first ends between two log lines."""
    algorithm = tiny.EVERY[name]
    tasks = ((0, 1, 3, 4), (2, 3, 4, 5))
    (whole,) = train(algorithm, tmp_path / "whole", [7], group_data(tasks[1]))
    with pytest.raises(KeyboardInterrupt):
        train(algorithm, tmp_path / "broken", [7], group_data(tasks[1]), stop=3)
    (resumed,) = train(algorithm, tmp_path / "broken", [7], group_data(tasks[1]))
    assert tiny.same(resumed, whole)
    logs = [(tmp_path / each / "seed-7/metrics.jsonl").read_text() for each in ("whole", "broken")]
    assert logs[0] == logs[1]

    together = train(algorithm, tmp_path / "group", [6, 7], group_data(*tasks))
    assert tiny.close(together[1], whole, rtol=1e-3, atol=1e-4)
    assert not tiny.close(together[0], whole, rtol=1e-3, atol=1e-4)


def test_the_view_of_one_seed_keeps_what_seeds_share() -> None:
    data = group_data((0, 1, 3, 4), (2, 3, 4, 5))
    mine = one_seed(data, 1)
    assert mine.train_tasks.tolist() == [2, 3, 4, 5]
    assert tiny.same(mine.episodes, data.episodes)
    assert mine.return_to_go is data.return_to_go
