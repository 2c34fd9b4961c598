"""Parts from outside in a run: what is refused, what is noticed, and what needs none of them."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from idaq.adapt.methods import METHODS
from idaq.adapt.posterior import Posterior
from idaq.adapt.search import SEARCHES, SearchEntry, Searches, Tried
from idaq.algos.resolve import resolve, without_judge
from idaq.bench.speed.cases import cases
from idaq.config import override
from idaq.errors import IdaqError
from idaq.judges import ensemble
from idaq.judges.base import JUDGES
from idaq.objectives import metric
from idaq.report.page import write_page
from idaq.runs.api import adapt_all, run_all
from idaq.runs.labels import label_of_method
from idaq.runs.results import load_results
from idaq.runs.train_stage import Seeds
from idaq.settings import AdaptConfig, RunConfig
from tests.fakes import Targets
from tests.runs.test_run import MINE, small

QUIET: dict[str, Any] = {"quiet": True, "seeds": Seeds(count=1)}
METHOD = "idaq-return"


def shifted(by: float) -> SearchEntry:
    """The prior's first embedding, moved."""

    def next_hypothesis(tried: Tried) -> Any:
        return tried.prior[0] + by

    return SearchEntry(name="mine", label="mine", next=next_hypothesis, version=None)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    run_all(tmp_path / "run", MINE, config=small(), methods=["posterior"], trajectories=2, **QUIET)
    return tmp_path / "run"


def options(**changes: Any) -> AdaptConfig:
    return replace(small().adapt, **changes)


# --- Searches and methods -----------------------------------------------------------------------


def test_another_search_of_the_same_name_is_another_program(run: Path) -> None:
    found = []
    for by in (0.25, -0.75):
        with SEARCHES.registered(shifted(by)):
            adapt_all(run, METHOD, family=MINE, config=options(iterate="mine"), name=f"by{by}")
        results = load_results(run, f"by{by}", 0)
        reference, iterative = results["hypotheses"][:, 0], results["hypotheses"][:, 2]
        assert not np.array_equal(reference, iterative)
        found.append(iterative)
    np.testing.assert_allclose(found[0] - found[1], 1.0, rtol=1e-5)


def test_results_are_read_without_their_search(run: Path, tmp_path: Path) -> None:
    with SEARCHES.registered(shifted(0.5)):
        adapt_all(run, METHOD, family=MINE, config=options(iterate="mine"))
    page = write_page([run], tmp_path / "page.html")
    assert "IDAQ, return" in page.read_text()
    with pytest.raises(IdaqError, match=r"`adapt\.iterate` is 'mine'.*Choose one of posterior"):
        adapt_all(run, METHOD, family=MINE, config=options(iterate="mine"), resume=True)


def test_an_unknown_search_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    config = replace(small(), adapt=options(reference="fartest"))
    with pytest.raises(IdaqError, match=r"'fartest'.*Did you mean 'farthest'"):
        run_all(tmp_path / "run", MINE, config=config, **QUIET)
    assert list(tmp_path.iterdir()) == []


class Silent(Posterior):
    """A method that keeps no record."""

    def record(self, state: Any) -> Any:
        return {}


def made(by: float, config: AdaptConfig, algorithm: Any) -> Silent:
    return Silent(config, algorithm, Searches.of(config))


def test_a_method_from_outside_is_part_of_its_results(run: Path, tmp_path: Path) -> None:
    entry = replace(METHODS["posterior"], name="mine", label="$Q_{RE}$", version=None)
    for by in (1.0, 2.0):
        with METHODS.registered(replace(entry, make=partial(made, by))):
            if by == 1.0:
                adapt_all(run, "mine", family=MINE)
                assert not load_results(run, "mine", 0)["kept"].any(), "it says nothing of it"
                page = write_page([run], tmp_path / "page.html")
                assert "$Q_{RE}$" in page.read_text()
                assert label_of_method("mine") == "$Q_{RE}$"
            else:
                with pytest.raises(IdaqError, match="made with other options"):
                    adapt_all(run, "mine", family=MINE, resume=True)


# --- Judges, learners, families -------------------------------------------------------------------


def test_the_default_methods_are_those_that_the_judge_can_serve(tmp_path: Path) -> None:
    mine = replace(ensemble.ENTRY, name="mine", label="mine", version=None, config=MyEnsemble)
    with JUDGES.registered(mine):
        config = override(small(), "algorithm.judge.kind=mine")
        summary = run_all(tmp_path / "run", MINE, config=config, trajectories=2, **QUIET)
        assert any(case.name == "FOCAL and mine (default), Point" for case in cases())
    methods = [row["method"] for row in summary["rows"]]
    assert methods == ["idaq-return", "posterior", "expert-context"]


@dataclass(frozen=True, kw_only=True)
class MyEnsemble(ensemble.EnsembleConfig):
    """The same under another name."""

    kind: Any = "mine"


def test_a_replaced_function_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any program is compiled with it, and after one was compiled without it."""

    def no_loss(*_: Any) -> Any:
        return jnp.zeros(())

    with monkeypatch.context() as patch:
        patch.setattr(metric, "metric_loss", no_loss)
        for name in ("before", "after"):
            with pytest.raises(IdaqError, match=r"metric\.metric_loss' was replaced .* instead"):
                run_all(tmp_path / name, MINE, config=quick(), methods=[METHOD], **QUIET)
            patch.undo()
            run_all(tmp_path / f"{name}-whole", MINE, config=quick(), methods=[METHOD], **QUIET)
            patch.setattr(metric, "metric_loss", no_loss)
    assert sorted(place.name for place in tmp_path.iterdir()) == ["after-whole", "before-whole"]


def quick() -> RunConfig:
    return without_judge(small())


def test_logs_of_long_episodes_are_not_taken_for_a_point_robots() -> None:
    long, short = (Logs(horizon=horizon) for horizon in (500, 20))
    assert resolve("default", long).algorithm.encoder_hidden == (256, 256)  # type: ignore[attr-defined]
    assert resolve("default", short).algorithm.encoder_hidden == (64, 64)  # type: ignore[attr-defined]
    paper: Any = resolve("paper", short).algorithm
    assert paper.learner.reward_scale == 1.0, "100 is Point-Robot's"
    points: Any = resolve("paper", "point-robot").algorithm
    assert points.learner.reward_scale == 100.0


class Logs:
    """A family that is known from logs alone."""

    name, version, num_tasks = "logs", 1, 10
    task_params = np.zeros((10, 1), np.float32)

    def __init__(self, horizon: int) -> None:
        self.spec = replace(Targets(((0.0, 0.0),)).spec, horizon=horizon)
