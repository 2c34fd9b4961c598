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
from idaq.algos.entries import OBJECTIVES
from idaq.algos.focal import FocalConfig
from idaq.bench.speed.cases import cases
from idaq.cli import main
from idaq.config import override
from idaq.envs import FAMILIES
from idaq.errors import IdaqError
from idaq.judges import ensemble
from idaq.judges.base import JUDGES
from idaq.learners.base import LEARNERS
from idaq.objectives import metric
from idaq.report.page import write_page
from idaq.runs.api import adapt_all, run_all
from idaq.runs.labels import label_of_method, subject_of
from idaq.runs.resolve import resolve, without_judge
from idaq.runs.results import load_results
from idaq.runs.run import Run
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


@pytest.mark.parametrize("base", ["posterior", METHOD])
def test_a_method_from_outside_is_part_of_its_results(run: Path, tmp_path: Path, base: str) -> None:
    """Also one that judges episodes, as those do that are made from uncertainties."""
    entry = replace(METHODS[base], name="mine", label="$Q_{RE}$", version=None)
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


def test_too_few_hypotheses_are_a_mistake_of_the_users(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = SearchEntry(name="few", label="few", first=lambda config, prior, key: prior[:1])
    command = ["adapt", str(run), "--method", METHOD, "--name", "few", "--reference", "few"]
    with SEARCHES.registered(few), FAMILIES.registered(MINE):
        assert main(command) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "The search 'few' returned an array of shape [1, " in message
    assert not (run / "adapt" / "few").exists()


# --- Judges, learners, families -------------------------------------------------------------------


def test_a_run_is_of_the_versions_of_its_parts(run: Path) -> None:
    """A built-in part is named from its second version on."""
    config = Run.open(run, MINE).config
    assert Run.open(run).identity.components == {}
    learner: Any = LEARNERS[config.algorithm.learner.kind]  # type: ignore[attr-defined]
    with LEARNERS.registered(replace(learner, version=2)):
        message = f"of version 1 of 'learner {learner.name}'; this idaq has version 2"
        with pytest.raises(IdaqError, match=message):
            adapt_all(run, METHOD, family=MINE)


def test_a_run_with_an_objective_from_outside_names_its_parts(tmp_path: Path) -> None:
    """No version of idaq's covers them; labels leave them out."""
    objective = replace(OBJECTIVES["focal"], name="mine", label="MINE", config=Mine, version=3)
    place = tmp_path / "run"
    with OBJECTIVES.registered(objective):
        config = replace(small(), algorithm=Mine(**vars(small().algorithm) | {"kind": "mine"}))
        options = {"methods": ["posterior"], "trajectories": 2, **QUIET}
        run_all(place, MINE, config=config, **options)
        identity = Run.open(place).identity
        assert identity.components == {"learner td3-bc": 1, "objective mine": 3}
        assert subject_of("mine", "expert", "mine", identity.components) == "mine, MINE"
        with LEARNERS.registered(replace(LEARNERS["td3-bc"], version=2)):
            with pytest.raises(IdaqError, match=r"version 1 of 'learner td3-bc'.* version 2"):
                _ = Run.open(place, MINE).config
            with pytest.raises(IdaqError, match="other"):
                run_all(place, MINE, config=config, resume=True, **options)


@dataclass(frozen=True, kw_only=True)
class Mine(FocalConfig):
    """FOCAL's own under another name."""

    kind: str = "mine"  # type: ignore[assignment]


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
