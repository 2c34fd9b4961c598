"""From disk to training data: units, and statistics of the training tasks alone."""

from pathlib import Path

import numpy as np
import pytest

from idaq.algos.data import scale_action
from idaq.engine.loading import fit_normaliser, load_rows
from idaq.envs import POINT_FAMILIES
from idaq.storage.dataset import Dataset, open_dataset, write_dataset
from tests.storage.test_dataset import METADATA, arrays

LENGTHS, TASKS = [4, 1, 3, 2, 5], [0, 0, 1, 2, 2]


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    write_dataset(tmp_path / "dataset", arrays(LENGTHS, TASKS), METADATA)
    return open_dataset(tmp_path / "dataset")


def test_rows_are_all_rows_with_scaled_actions(datasets: dict[str, Dataset]) -> None:
    dataset, spec = datasets["point-robot"], POINT_FAMILIES["point-robot"].spec
    rows, starts, counts = load_rows(dataset, spec)
    np.testing.assert_array_equal(rows.obs, dataset.arrays["observations"])
    np.testing.assert_array_equal(rows.next_obs, dataset.arrays["next_observations"])
    np.testing.assert_array_equal(rows.reward, dataset.arrays["rewards"])
    np.testing.assert_allclose(rows.action, dataset.arrays["actions"] / 0.1, atol=1e-5)
    np.testing.assert_array_equal(rows.action, scale_action(spec, dataset.arrays["actions"]))
    np.testing.assert_array_equal(starts, np.arange(100) * 900)
    np.testing.assert_array_equal(counts, 900)


def test_truncation_is_not_termination(dataset: Dataset) -> None:
    rows, _, _ = load_rows(dataset, POINT_FAMILIES["point-robot"].spec)
    np.testing.assert_array_equal(rows.terminated, dataset.arrays["terminated"])
    assert rows.terminated.sum() == 2.0  # of five ends of episodes


def test_normaliser_is_of_the_training_tasks(dataset: Dataset) -> None:
    normaliser = fit_normaliser(dataset, np.array([0, 2]), std_floor=0.05)
    own = np.r_[0:5, 8:15]
    obs = dataset.arrays["observations"][own].astype(np.float64)
    reward = dataset.arrays["rewards"][own].astype(np.float64)
    np.testing.assert_allclose(normaliser.obs_mean, obs.mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(normaliser.obs_std, obs.std(axis=0), rtol=1e-5)
    assert float(normaliser.reward_mean) == pytest.approx(reward.mean(), rel=1e-5)
    assert float(normaliser.reward_std) == pytest.approx(reward.std(), rel=1e-5)


def test_a_dimension_that_hardly_varies_is_not_blown_up(tmp_path: Path) -> None:
    still = arrays(LENGTHS, TASKS)
    still["observations"][:, 1] = 7.0 + 1e-4 * still["observations"][:, 1]
    write_dataset(tmp_path / "dataset", still, METADATA)
    normaliser = fit_normaliser(open_dataset(tmp_path / "dataset"), np.arange(3), std_floor=0.05)
    assert float(normaliser.obs_std[1]) == pytest.approx(0.05)
    assert float(normaliser.obs_std[0]) > 0.5
