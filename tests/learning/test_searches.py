"""The Bayesian search needs fewer episodes than trying the nearest untried hypothesis."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from idaq.runs.statistics import episodes_to
from idaq.settings import AdaptConfig
from idaq.storage.dataset import Dataset
from tests.learning.setting import ADAPT, DEFAULT_LIKE, adapt, train

SEEDS = (0, 1)
UNTRIED = replace(ADAPT, iterate="untried")
BAYESIAN = replace(ADAPT, reference="bayesian", iterate="bayesian")


def curves(
    dataset: Dataset, num_updates: int, place: Path
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Each seed's score by budget with both searches, [seeds, budgets], and expert context's."""
    config = replace(DEFAULT_LIKE, logged_rows=256)
    found: dict[str, list[np.ndarray]] = {"untried": [], "bayesian": []}
    experts = []
    for seed in SEEDS:
        agent = train(dataset, config, num_updates, seed, place)
        for name, options in (("untried", UNTRIED), ("bayesian", BAYESIAN)):
            results = adapt(dataset, config, agent, "idaq-return", seed, options)
            found[name].append(results["anytime_returns"][0].mean(axis=0))
        expert = adapt(dataset, config, agent, "expert-context", seed, AdaptConfig())
        experts.append(float(expert["returns"].mean()))
    return {name: np.stack(each) for name, each in found.items()}, np.array(experts)


@pytest.mark.parametrize(
    ("family", "num_updates", "most", "saved"),
    [
        ("point-robot", 400, 9, 4),
        pytest.param("point-robot-sparse", 1000, 16, 2, marks=pytest.mark.slow),
    ],
)
def test_fewer_episodes_to_expert_context(
    family: str,
    num_updates: int,
    most: int,
    saved: int,
    datasets: dict[str, Dataset],
    tmp_path: Path,
) -> None:
    """95% of the way from the first try to what a logged expert episode gives."""
    found, experts = curves(datasets[family], num_updates, tmp_path)
    needed = {}
    for name, curve in found.items():
        reached = episodes_to(curve, experts, 0.95)
        needed[name] = curve.shape[1] + 1 if reached is None else reached
    print(family, needed, {name: curve.mean(axis=0).round(2) for name, curve in found.items()})
    assert needed["bayesian"] <= most
    assert needed["bayesian"] <= needed["untried"] - saved
    assert found["bayesian"][:, -1].mean() >= experts.mean()
