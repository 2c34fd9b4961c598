"""Datasets by quality: who logs them, what is written down of it, and what is refused."""

import json
import shutil
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from idaq.behaviour import quality as module
from idaq.behaviour.collect import collect
from idaq.behaviour.config import BehaviourConfig, behaviour_config
from idaq.behaviour.ladder import load_ladder
from idaq.behaviour.quality import (
    QUALITIES,
    find_loggers,
    qualities_of,
    shipped_fingerprint,
    shipped_policies,
)
from idaq.cli.collect import Collect
from idaq.cli.run import Run
from idaq.config import from_dict
from idaq.envs import CHEETAH_VEL, FAMILIES, ML1_FAMILIES, POINT_FAMILIES, get_family
from idaq.envs.family import TaskFamily
from idaq.errors import IdaqError
from idaq.settings import Quality
from idaq.storage.dataset import Dataset, open_dataset
from idaq.storage.describe import describe
from tests.behaviour.setting import FAMILY, SAC, train
from tests.host_fakes import MAX_ACTION, InlinePool, Walk

RESULTS = Path(__file__).parents[2] / "results"
SHIPPED = [name for name in FAMILIES if (module.WEIGHTS / name).is_dir()]


@pytest.fixture(scope="module")
def policies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ladder of four rungs whose returns are made up, so that all qualities are there."""
    path = train(tmp_path_factory.mktemp("quality") / "policies").path
    content = json.loads((path / "ladder.json").read_text())
    for rung, value in zip(content["rungs"], (-20.0, -12.0, -10.0, -5.0), strict=True):
        rung["mean_return"] = value
    content["expert_return"] = -5.0
    (path / "ladder.json").write_text(json.dumps(content))
    return path


def logged(place: Path, quality: Quality, family: TaskFamily = FAMILY, **options: Any) -> Dataset:
    path = place / f"{quality}-{len(list(place.iterdir()))}"
    collect(family, path, quality=quality, quiet=True, **options)
    return open_dataset(path, family.spec)


def test_names() -> None:
    assert get_args(Quality) == QUALITIES
    assert {get_args(each.__annotations__["quality"]) for each in (Collect, Run)} == {QUALITIES}


def test_random_actions_fill_their_bounds(tmp_path: Path) -> None:
    data = logged(tmp_path, "random", trajectories=3)
    actions = np.asarray(data.arrays["actions"]) / 0.1
    assert np.abs(actions).max() <= 1.0 + 1e-6
    np.testing.assert_allclose(
        np.quantile(actions, [0.1, 0.5, 0.9], axis=0), [[-0.8] * 2, [0.0] * 2, [0.8] * 2], atol=0.05
    )
    assert data.metadata["quality"] == "random"
    assert data.metadata["behaviour"] == {"kind": "uniform"}
    assert data.metadata["generator"] == {"trajectories": 3, "seed": 0}


@pytest.mark.parametrize(
    ("quality", "rungs"), [("expert", [3]), ("medium", [1, 2]), ("replay", [0, 1, 2, 3])]
)
def test_every_rung_logs_its_share(
    policies: Path, tmp_path: Path, quality: Quality, rungs: list[int]
) -> None:
    """Each task, and within a task each rung, has episodes of its own; they can be repeated."""
    data = logged(tmp_path, quality, trajectories=4, seed=3, policies=policies)
    behaviour = data.metadata["behaviour"]
    assert data.metadata["quality"] == quality
    assert [rung["number"] for rung in behaviour["rungs"]] == rungs
    assert behaviour["trained"]["seed"] == 0
    assert data.metadata["generator"]["policies"] == behaviour["fingerprint"]
    np.testing.assert_array_equal(data.arrays["episode_task"], np.repeat(np.arange(100), 4))
    loggers = find_loggers(FAMILY, quality, policies)
    assert loggers is not None
    assert (
        loggers.agent_of(4).tolist() == np.repeat(np.arange(len(rungs)), 4 // len(rungs)).tolist()
    )
    actions = np.asarray(data.arrays["actions"]).reshape(400, -1)
    assert len(np.unique(actions, axis=0)) == 400
    again = logged(tmp_path, quality, trajectories=4, seed=3, policies=policies)
    assert again.fingerprint == data.fingerprint
    other = logged(tmp_path, quality, trajectories=4, seed=4, policies=policies)
    assert other.fingerprint != data.fingerprint


def test_fewer_episodes_than_rungs(policies: Path) -> None:
    """From all along the ladder, then."""
    loggers = find_loggers(FAMILY, "replay", policies)
    assert loggers is not None
    assert loggers.agent_of(2).tolist() == [0, 2]
    assert loggers.agent_of(6).tolist() == [0, 0, 1, 2, 2, 3]


def test_nothing_that_was_logged_is_what_the_policy_was_told(
    policies: Path, tmp_path: Path
) -> None:
    """The rows have the simulator's observations and nothing else."""
    data = logged(tmp_path, "medium", trajectories=2, policies=policies)
    moved = data.arrays["observations"] + data.arrays["actions"]
    np.testing.assert_allclose(data.arrays["next_observations"], moved, atol=1e-6)
    first = np.asarray(data.arrays["observations"])[data.arrays["episode_offsets"][:-1]]
    np.testing.assert_array_equal(first, 0.0)


def test_simulators_log_the_same_whoever_runs_them(tmp_path: Path) -> None:
    """Units of up to five episodes, padded; the share of every task is the same."""
    family = Walk()
    first = logged(tmp_path, "random", family, trajectories=7, pool=InlinePool())
    again = logged(tmp_path, "random", family, trajectories=7, pool=InlinePool())
    assert first.fingerprint == again.fingerprint
    assert first.num_episodes == 7 * family.num_tasks
    assert np.abs(first.arrays["actions"]).max() <= MAX_ACTION
    lengths = np.diff(first.arrays["episode_offsets"]).reshape(family.num_tasks, 7)
    assert (lengths == lengths[:, :1]).all(), "a task of this family always ends alike"
    few = logged(tmp_path, "random", family, trajectories=2, pool=InlinePool())
    for task in range(family.num_tasks):
        np.testing.assert_array_equal(
            few.episode(2 * task + 1)["actions"],
            first.episode(7 * task + 1)["actions"],
            err_msg="an episode depends on its task and number alone",
        )


def test_scores_stay_relative_to_the_expert(tmp_path: Path) -> None:
    """Also where the expert did not log the data."""
    family = Walk()
    random = logged(tmp_path, "random", family, trajectories=2, pool=InlinePool())
    expert = logged(tmp_path, "expert", family, trajectories=2, pool=InlinePool())
    assert "expert" in random.metadata
    assert "expert" not in expert.metadata
    found, best = describe(random), describe(expert)
    assert found["quality"] == "random"
    assert found["mean_return"] < best["mean_return"]
    assert found["successes"] == random.metadata["expert"]["successes"]
    np.testing.assert_allclose(
        found["successful_returns"], best["successful_returns"], rtol=0.2, atol=0.2
    )


# --- What there is, and what is refused ---


def test_qualities_of_families() -> None:
    assert qualities_of(Walk()) == ["expert", "random"]
    assert qualities_of(CHEETAH_VEL) == list(QUALITIES)
    for point in POINT_FAMILIES.values():
        assert qualities_of(point) == list(QUALITIES)
    for ml1 in ML1_FAMILIES.values():
        assert {"expert", "random"} <= set(qualities_of(ml1))


def test_a_quality_that_a_family_has_not(tmp_path: Path) -> None:
    with pytest.raises(IdaqError, match=r"It has: expert, random\. .*idaq behaviour walk"):
        collect(Walk(), tmp_path / "data", quality="medium")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("bad", ["good", "", "Expert"])
def test_an_unknown_quality(tmp_path: Path, bad: Any) -> None:
    with pytest.raises(IdaqError, match="expert, medium, random, replay"):
        collect(FAMILY, tmp_path / "data", quality=bad)


def test_random_data_takes_no_policies(policies: Path, tmp_path: Path) -> None:
    with pytest.raises(IdaqError, match="Leave `policies` out"):
        collect(FAMILY, tmp_path / "data", quality="random", policies=policies)


def test_a_missing_rung(policies: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(policies, tmp_path / "policies"))
    (copy / "rung-002.safetensors").unlink()
    with pytest.raises(IdaqError, match=r"rung-002\.safetensors' is missing"):
        collect(FAMILY, tmp_path / "data", quality="replay", policies=copy)
    assert not (tmp_path / "data").exists()


# --- What is shipped ---


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_policies(name: str) -> None:
    """Small, whole, of today's family, and with all qualities."""
    family = get_family(name)
    place = shipped_policies(family)
    assert place is not None
    ladder = load_ladder(place, family)
    assert ladder.family_version == family.version
    assert ladder.thinned() == ladder.rungs
    for quality in ("expert", "medium", "replay"):
        assert find_loggers(family, quality, None) is not None or quality == "expert"
    assert all(file.stat().st_size < 2e6 for file in place.iterdir())
    provenance = ladder.provenance
    assert provenance["git"]["commit"]
    assert {"seed", "versions", "device", "config"} <= set(provenance)
    assert ladder.sac != SAC
    config = from_dict(BehaviourConfig, provenance["config"], name)
    assert config == behaviour_config(get_family(ladder.family)), "--retrain trains them so"


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_medium_data_is_two_thirds_of_the_way(name: str) -> None:
    loggers = find_loggers(get_family(name), "medium", None)
    assert loggers is not None
    progress = [rung["progress"] for rung in loggers.provenance["rungs"]]
    assert len(progress) > 1
    assert 0.6 < np.mean(progress) < 0.72


@pytest.mark.parametrize("name", ["sweep", "peg-insert-side"])
def test_committed_results_are_of_the_shipped_policies(name: str) -> None:
    run = RESULTS / "ml1" / "medium" / name / "run.json"
    identity = json.loads(run.read_text())["identity"]
    family = get_family(f"ml1/{name}")
    assert identity["family"] == family.name
    assert identity["data"]["policies"] == shipped_fingerprint(family, "medium")


def test_the_shipped_cheetah_runs(tmp_path: Path) -> None:
    """What the ladder says of its best policy is what that policy does today."""
    pytest.importorskip("mujoco")
    loggers = find_loggers(CHEETAH_VEL, "expert", None)
    assert loggers is not None
    (rung,) = loggers.provenance["rungs"]
    assert rung["mean_return"] > -118.0, "at least the paper's data, -138 +- 20"
    data = logged(tmp_path, "expert", CHEETAH_VEL, trajectories=1, pool=InlinePool())
    assert data.episode_returns().mean() == pytest.approx(rung["mean_return"], abs=3.0)
    assert data.arrays["observations"].shape == (20_000, 17)
