"""Training behaviour policies: rounds, resuming, what goes into the replay."""

import json
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from idaq.behaviour import training as module
from idaq.behaviour.config import behaviour_config
from idaq.behaviour.training import (
    STATE_FILE,
    Training,
    block_of_rows,
    policies_to_train,
    train_policies,
)
from idaq.cli import main
from idaq.envs import CHEETAH_VEL, POINT_FAMILIES
from idaq.errors import IdaqError
from idaq.storage import checkpoint
from idaq.storage.metrics import read_metrics
from idaq.types import Traits
from tests import tiny
from tests.behaviour.setting import CONFIG, FAMILY, SETTINGS, Mine, train
from tests.faults.injection import Death, injector
from tests.host_fakes import InlinePool, Walk
from tests.program import finish, start, tree

VOLATILE = (".lock", "run.json", "tensorboard")


def contents(path: Path) -> dict[str, str]:
    """What two equal trainings share."""
    found = {name: text for name, (_, text) in tree(path).items()}
    return {name: text for name, text in found.items() if not name.startswith(VOLATILE)}


@pytest.fixture(scope="module", autouse=True)
def _no_git() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("idaq.engine.provenance.git_state", lambda: None)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training in one go."""
    return train(tmp_path_factory.mktemp("training") / "whole").path


def test_rungs_are_evaluated_and_kept(whole: Path) -> None:
    ladder = train(whole, resume=True)
    assert [rung.number for rung in ladder.rungs] == [0, 1, 2, 3]
    assert [rung.updates for rung in ladder.rungs] == [0, 4, 12, 20]
    assert [rung.steps for rung in ladder.rungs] == [0, 120, 240, 360]
    assert len({rung.mean_return for rung in ladder.rungs}) == 4
    assert all((whole / rung.file_name).is_file() for rung in ladder.rungs)
    assert ladder.expert_return == pytest.approx(-5.77, abs=0.3)
    assert ladder.provenance["versions"]["jax"] == jax.__version__
    assert not (whole / STATE_FILE).exists(), "a finished training needs none"
    rows = read_metrics(whole / "metrics.jsonl")
    assert [row["update"] for row in rows] == [4, 8, 12, 16, 20]
    assert {"q_loss", "temperature", "entropy", "episode_return"} <= set(rows[-1])


def test_a_finished_training_is_left_alone(whole: Path) -> None:
    before = tree(whole)
    train(whole, resume=True)
    assert {n: c for n, c in tree(whole).items() if n != ".lock"} == {
        n: c for n, c in before.items() if n != ".lock"
    }
    with pytest.raises(IdaqError, match="`resume=True`"):
        train(whole)
    with pytest.raises(IdaqError, match="another configuration"):
        train(whole, resume=True, config=replace(CONFIG, num_rounds=7))


def test_out_of_time_and_on_again(whole: Path, tmp_path: Path) -> None:
    """One round at a time, each in a job of its own."""
    place = tmp_path / "pieces"
    for number in range(1, CONFIG.num_rounds):
        train(place, resume=True, minutes=0.0)
        _, header = checkpoint.load(place / STATE_FILE, _shapes())
        assert header["round"] == number
    train(place, resume=True, minutes=0.0)
    assert contents(place) == contents(whole)


@pytest.mark.parametrize("number", [10**9, -1, "1", None])
def test_a_state_of_rounds_that_were_never_done(
    tmp_path: Path, number: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(tmp_path, minutes=0.0)
    state, header = checkpoint.load(tmp_path / STATE_FILE, _shapes())
    checkpoint.save(tmp_path / STATE_FILE, state, header | {"round": number})
    with pytest.raises(IdaqError, match="no usable 'round'"):
        train(tmp_path, resume=True)


def _shapes() -> Any:
    return Training(FAMILY, CONFIG, 0, InlinePool()).start()


def test_killed_at_every_change_to_the_disk(whole: Path, tmp_path: Path) -> None:
    """Dead before the first change, before the second, ..., until it gets through."""
    for moment in range(1, 1000):
        place = tmp_path / f"killed-{moment}"
        try:
            with injector.failing(place, "death", at=moment):
                train(place)
            break
        except Death:
            train(place, resume=True)
            assert contents(place) == contents(whole), f"killed before change {moment}"
    assert moment > 20, "there were changes to be killed at"


def test_killed_for_real(tmp_path: Path) -> None:
    """The state that a killed process left is the state that is gone on from."""
    command = ("behaviour", "point-robot", *SETTINGS, "--resume", "--out")
    assert main([*command, str(tmp_path / "whole")]) == 0
    process = start(*command, tmp_path / "killed")
    while process.poll() is None and not (tmp_path / "killed" / "rung-001.safetensors").exists():
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    assert finish(process).code in (-signal.SIGKILL, 0)
    assert main([*command, str(tmp_path / "killed")]) == 0
    found, expected = contents(tmp_path / "killed"), contents(tmp_path / "whole")
    del found["ladder.json"], expected["ladder.json"]  # who trained it, and with what source
    assert found == expected
    killed, never = (train_rungs(tmp_path / name) for name in ("killed", "whole"))
    assert killed == never


def train_rungs(path: Path) -> Any:
    return json.loads((path / "ladder.json").read_text())["rungs"]


def test_the_last_round_is_evaluated_too(tmp_path: Path) -> None:
    ladder = train(tmp_path / "odd", config=replace(CONFIG, num_rounds=5))
    assert [(rung.number, rung.updates) for rung in ladder.rungs] == [
        (0, 0),
        (1, 4),
        (2, 12),
        (3, 16),
    ]


def test_seeds_differ(whole: Path, tmp_path: Path) -> None:
    other = contents(train(tmp_path / "other", seed=1).path)
    same = contents(whole)
    assert other.keys() == same.keys()
    assert all(other[name] != same[name] for name in same if name.startswith("rung"))


def test_simulators_and_demonstrations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever simulates: the same policies; agents that are done with are not kept."""
    pools: list[InlinePool] = []

    def make_pool(workers: int) -> InlinePool:
        pools.append(InlinePool())
        return pools[-1]

    monkeypatch.setattr(module, "WorkerPool", make_pool)
    config = replace(CONFIG, demonstration_rounds=1, episodes_per_round=7)
    ladder = train_policies(Walk(), tmp_path / "walk", config, quiet=True)
    assert ladder.rungs[-1].success is not None
    assert ladder.expert_return is not None
    experts = [unit for unit in pools[0].units if hasattr(unit, "seeds")]
    assert len(experts) == Walk().num_tasks + 7
    assert not list(pools[0]._scratch.path.glob("*")), "shared agents are removed"
    with pytest.raises(IdaqError, match="scripted expert"):
        train_policies(CHEETAH_VEL, tmp_path / "cheetah", config)


def test_a_round_draws_every_task_before_one_comes_again() -> None:
    training = Training(Walk(), replace(CONFIG, episodes_per_round=12), 0, InlinePool())
    _, tasks = training.round_episodes(0, ())
    assert sorted(tasks[:5].tolist()) == sorted(tasks[5:10].tolist()) == list(range(5))


def test_rows_of_episodes_that_end_early() -> None:
    """Only what took place; where that is too little, it comes again."""
    training = Training(Walk(), CONFIG, 0, InlinePool())
    episodes, tasks = training.round_episodes(0, ())
    assert not episodes.valid.all()
    rows, row_tasks = block_of_rows(Walk().spec, episodes, tasks)
    assert len(rows.reward) == len(row_tasks) == 3 * Walk().spec.horizon
    took_place = {
        (float(r), int(t))
        for r, t, v in zip(
            episodes.reward.ravel(),
            np.repeat(tasks, Walk().spec.horizon),
            episodes.valid.ravel(),
            strict=True,
        )
        if v
    }
    assert {(float(r), int(t)) for r, t in zip(rows.reward, row_tasks, strict=True)} == took_place
    assert np.abs(np.asarray(rows.action)).max() <= 1.0


def test_a_family_says_how_its_policies_are_trained() -> None:
    config = behaviour_config(Mine(traits=Traits(behaviour=("num_rounds=7", "sac.discount=0.5"))))
    plain = behaviour_config(Mine())
    assert (config.num_rounds, config.sac.discount) == (7, 0.5)
    assert replace(config, num_rounds=plain.num_rounds, sac=plain.sac) == plain
    with pytest.raises(IdaqError, match="num_rounds"):
        behaviour_config(Mine(traits=Traits(behaviour=("num_round=7",))))


def test_what_can_be_retrained() -> None:
    for name, quality, family in (
        ("point-robot-sparse", "replay", FAMILY),
        ("cheetah-vel", "expert", CHEETAH_VEL),
    ):
        found = policies_to_train(name, quality)
        assert found is not None
        assert found[0] is family
    for name, quality in (("point-robot", "expert"), ("cheetah-vel", "random")):
        assert policies_to_train(name, quality) is None
    assert tiny.same_structure(_shapes(), _shapes())
    assert POINT_FAMILIES["point-robot"] is FAMILY
