"""What `idaq bench speed` shows."""

from typing import Any

import jax
import pytest

from idaq.behaviour.config import behaviour_config
from idaq.behaviour.sac import Sac
from idaq.bench.speed.cases import cases
from idaq.bench.speed.measure import ONLINE, random_replay
from idaq.bench.speed.profile import KINDS
from idaq.bench.speed.tables import speed_tables
from idaq.envs import get_family
from tests.products import products_in

CASES = [case.name for case in cases()]


@pytest.mark.parametrize("name", ONLINE)
def test_the_online_learner_computes_no_more_than_is_counted(name: str) -> None:
    spec = get_family(name).spec
    sac, key = Sac(behaviour_config(get_family(name)).sac, spec, 1), jax.random.key(0)
    replay, state = random_replay(spec), jax.eval_shape(sac.init, key)
    found = products_in(jax.jit(sac.update).lower(state, replay, key).compile())
    # products with the critics' single output are done elsewhere, element by element
    assert 0.995 * sac.operations() <= found <= 1.001 * sac.operations()


def measured(learners: list[dict[str, Any]]) -> dict[str, Any]:
    """As `measure` returns it."""
    row = {
        "seconds_per_update": 0.25,
        "updates_per_second": 4.0,
        "gflop_per_update": 40.0,
        "gflop_s": 160.0,
        "matmul_gflop_s": 200.0,
        "share_of_matmul": 0.8,
        "authors_seconds_per_update": 0.58,
        "profile": None,
    }
    return {
        "device": "cpu: test",
        "learners": [row | learner for learner in learners],
        "models_alone": {"seconds_per_update": 0.1, "share_of_matmul": 0.7},
        "adaptation": [{"tasks": 1, "steps": 400, "microseconds_per_step": 20.0}],
        "stepping": [
            {
                "family": "ml1/push",
                "workers": 2,
                "steps_s": 7000.0,
                "one_worker_steps_s": 3600.0,
                "share_of_all_cores": 0.97,
            }
        ],
        "peak_memory_mb": {"process": 1000.0},
    }


def test_tables_show_every_case() -> None:
    result = measured([{"name": name} for name in CASES])
    learners, adaptation, stepping = speed_tables(result)
    assert stepping.row_count == 1
    assert speed_tables(result | {"stepping": []})[2].row_count == 0
    assert learners.row_count == len(CASES)
    assert adaptation.row_count == 1
    assert "200 GFLOP/s" in str(learners.caption)


def test_tables_show_where_the_time_goes_where_it_was_measured() -> None:
    shares = dict.fromkeys([*KINDS, "other"], 0.125) | {"products": 0.5}
    profile = {"shares": shares, "products_share_of_matmul": 0.75}
    result = measured([{"name": "one", "profile": profile}, {"name": "other"}])
    learners, profiles, _, _ = speed_tables(result)
    assert learners.row_count == 2
    cells = [list(column.cells) for column in profiles.columns]
    assert cells[:2] == [["one"], ["50%"]]
    assert cells[-1] == ["75%"]
