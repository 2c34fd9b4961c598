"""Ladders: which rungs log what, and files that are damaged or another's."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from idaq.behaviour.ladder import (
    MAX_RUNGS,
    conditions,
    ladder_policy,
    ladder_rows,
    load_ladder,
    ship,
)
from idaq.envs import POINT_FAMILIES, get_family
from idaq.errors import IdaqError
from idaq.storage.layout import LADDER_FILE
from idaq.types import Traits
from tests import tiny
from tests.behaviour.setting import FAMILY, Mine, made_up, train


def numbers(rungs: tuple[object, ...]) -> list[int]:
    return [rung.number for rung in rungs]  # type: ignore[attr-defined]


def test_progress_is_relative_to_the_best_or_to_the_expert() -> None:
    alone = made_up([-10.0, -6.0, -2.0, -3.0])
    assert [alone.progress(rung) for rung in alone.rungs] == [0.0, 0.5, 1.0, 0.875]
    beside = made_up([0.0, 1.0, 3.0], expert_return=4.0)
    assert [beside.progress(rung) for rung in beside.rungs] == [0.0, 0.25, 0.75]


def test_expert_is_the_best_rung() -> None:
    assert numbers(made_up([0.0, 5.0, 3.0]).chosen("expert")) == [1]


def test_medium_is_the_middle_of_the_way() -> None:
    ladder = made_up([0.0, 4.9, 5.0, 6.0, 8.0, 8.1, 10.0, 5.5])
    assert numbers(ladder.chosen("medium")) == [2, 3, 4], "nothing after the best rung"


def test_medium_is_two_thirds_of_the_way_on_average() -> None:
    ladder = made_up(np.linspace(-300.0, -30.0, 60).tolist())
    found = [ladder.progress(rung) for rung in ladder.chosen("medium")]
    assert 0.6 < float(np.mean(found)) < 0.7


def test_replay_is_all_the_way_evenly() -> None:
    slow_then_fast = [0.0] * 30 + np.linspace(0.0, 100.0, 50).tolist() + [100.0] * 5
    ladder = made_up(slow_then_fast)
    chosen = ladder.chosen("replay")
    assert len(chosen) == MAX_RUNGS
    found = np.array([ladder.progress(rung) for rung in chosen])
    np.testing.assert_allclose(found, np.linspace(0.0, 1.0, MAX_RUNGS), atol=0.02)


def test_a_ladder_without_a_middle_says_so() -> None:
    with pytest.raises(IdaqError, match="medium"):
        made_up([0.0, 1.0, 10.0]).chosen("medium")
    assert [row["logs"] for row in ladder_rows(made_up([0.0, 10.0]))] == [
        ["replay"],
        ["expert", "replay"],
    ]


def test_conditions_are_standardised_and_constants_left_out() -> None:
    told = conditions(get_family("cheetah-vel"))
    assert told.shape == (100, 1)
    np.testing.assert_allclose([told.mean(), told.std()], [0.0, 1.0], atol=1e-5)
    assert conditions(FAMILY).shape == (100, 2)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("ladder") / "policies").path


@pytest.fixture
def policies(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "policies"))


def test_what_is_shipped_logs_the_same(policies: Path, tmp_path: Path) -> None:
    whole = load_ladder(policies, FAMILY)
    shipped = ship(whole, tmp_path / "shipped")
    again = load_ladder(shipped.path, FAMILY)
    assert again.thinned() == again.rungs == whole.thinned()
    assert again.best == whole.best
    policy = ladder_policy(whole, FAMILY)
    for rung in again.rungs:
        assert tiny.same(again.load_policy(rung, policy), whole.load_policy(rung, policy))
    names = {file.name for file in shipped.path.iterdir()}
    assert names == {LADDER_FILE, *(rung.file_name for rung in again.rungs)}


def test_damaged_weights(policies: Path) -> None:
    ladder = load_ladder(policies, FAMILY)
    file = policies / ladder.rungs[1].file_name
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    policy = ladder_policy(ladder, FAMILY)
    with pytest.raises(IdaqError, match=f"{file.name}' is damaged"):
        ladder.load_policy(ladder.rungs[1], policy)
    file.write_bytes(content[:100])
    with pytest.raises(IdaqError, match=file.name):
        ladder.load_policy(ladder.rungs[1], policy)


def test_swapped_weights(policies: Path) -> None:
    ladder = load_ladder(policies, FAMILY)
    first, second = (policies / rung.file_name for rung in ladder.rungs[1:3])
    shutil.copyfile(second, first)
    with pytest.raises(IdaqError, match="is not the rung"):
        ladder.load_policy(ladder.rungs[1], ladder_policy(ladder, FAMILY))


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"format_version": 9}', '{"format_version": 1, "rungs": [{}]}']
)
def test_damaged_lists(policies: Path, content: str) -> None:
    (policies / LADDER_FILE).write_text(content)
    with pytest.raises(IdaqError, match=LADDER_FILE):
        load_ladder(policies, FAMILY)


def test_no_rungs(policies: Path) -> None:
    content = json.loads((policies / LADDER_FILE).read_text()) | {"rungs": []}
    (policies / LADDER_FILE).write_text(json.dumps(content))
    with pytest.raises(IdaqError, match="lists no policies"):
        load_ladder(policies, FAMILY)


@pytest.mark.parametrize("key", ["family_version", "algo_version"])
def test_policies_of_another_version(policies: Path, key: str) -> None:
    content = json.loads((policies / LADDER_FILE).read_text()) | {key: 7}
    (policies / LADDER_FILE).write_text(json.dumps(content))
    with pytest.raises(IdaqError, match="version 7"):
        load_ladder(policies, FAMILY)


def test_policies_of_another_family(policies: Path, tmp_path: Path) -> None:
    with pytest.raises(IdaqError, match="of 'point-robot', not of 'cheetah-vel'"):
        load_ladder(policies, get_family("cheetah-vel"))
    with pytest.raises(IdaqError, match="idaq behaviour"):
        load_ladder(tmp_path, FAMILY)
    sparse = load_ladder(policies, POINT_FAMILIES["point-robot-sparse"])
    assert sparse.family == "point-robot", "the tasks and their dynamics are the same"
    mine = load_ladder(policies, Mine(traits=Traits(policies_of=FAMILY.name)))
    assert mine.rungs == sparse.rungs
    with pytest.raises(IdaqError, match="not of 'mine'"):
        load_ladder(policies, Mine())
