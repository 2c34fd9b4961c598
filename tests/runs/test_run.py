"""A run is opened once: its family, one manifest, one algorithm, one look at the data."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from idaq.algos import entries
from idaq.behaviour.collect import collect
from idaq.cli import main
from idaq.config import override
from idaq.engine import train
from idaq.envs import FAMILIES
from idaq.errors import IdaqError
from idaq.learners.base import LEARNERS
from idaq.learners.td3_bc import Td3BcConfig
from idaq.report.figures import write_figures
from idaq.runs import adapt_stage, recipe, train_stage
from idaq.runs import run as run_module
from idaq.runs.api import adapt_all, run_all, train_all
from idaq.runs.directory import RunDir
from idaq.runs.identity import identities
from idaq.runs.job import Finished, Job, run_jobs
from idaq.runs.resolve import resolve
from idaq.runs.results import load_results
from idaq.runs.run import Run
from idaq.runs.summary import summarise
from idaq.runs.train_stage import Seeds
from idaq.settings import RunConfig
from idaq.storage import checked
from idaq.storage import dataset as dataset_module
from tests.fakes import Targets
from tests.program import NETWORKS, RUN, results

ANGLES = np.linspace(0.0, 2.0 * np.pi, 10, endpoint=False)
MINE = Targets(tuple((float(np.cos(a)), float(np.sin(a))) for a in ANGLES), name="mine")
METHODS = ("idaq-return", "idaq-prediction-error", "posterior", "expert-context")
QUIET: dict[str, Any] = {"quiet": True, "seeds": Seeds(count=1)}


@pytest.fixture(autouse=True)
def no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("idaq.engine.provenance.git_state", lambda: None)


def small() -> RunConfig:
    """Tiny networks and a few updates, for any family."""
    config = resolve("default", "point-robot")
    settings = [word for word in NETWORKS if "=" in word]
    settings += ["train.num_updates=4", "train.checkpoint_every_updates=1"]
    settings += ["adapt.num_reference_episodes=2", "adapt.num_iterative_episodes=2"]
    for setting in settings:
        config = override(config, setting)
    return config


# --- A family that is not registered --------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, compile_cache: Path) -> Path:
    """A whole run on such a family; tests must not change it."""
    place = tmp_path_factory.mktemp("mine") / "run"
    summary = run_all(place, MINE, config=small(), methods=METHODS, trajectories=2, **QUIET)
    assert [row["method"] for row in summary["rows"]] == list(METHODS)
    assert summary["family"] == "mine"
    return place


def test_a_family_of_ones_own_is_nowhere_registered(whole: Path) -> None:
    assert MINE.name not in FAMILIES
    with pytest.raises(IdaqError, match="no task family 'mine'"):
        adapt_all(whole, "posterior", resume=True)
    with pytest.raises(IdaqError, match="no task family 'mine'"):
        _ = Run.open(whole).algorithm


def test_its_job_is_resumed(whole: Path, tmp_path: Path) -> None:
    """After a stop in the middle of training, and another during adaptation."""
    run = RunDir(tmp_path / "run")
    job: dict[str, Any] = {"config": small(), "methods": METHODS, "trajectories": 2, **QUIET}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(train_stage, "train_group", _stopped_after(2))
        with pytest.raises(KeyboardInterrupt):
            run_all(run, MINE, **job)
    assert run.checkpoint_file([0]).is_file()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adapt_stage, "evaluate", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            run_all(run, MINE, **job, resume=True)
    assert run.agent_file(0).is_file()
    run_all(run, MINE, **job, resume=True)
    assert results(run.path) == results(whole)


def _interrupted(*arguments: Any, **options: Any) -> Any:
    raise KeyboardInterrupt


def _stopped_after(updates: int) -> Callable[..., Any]:
    """Training that is interrupted after that many updates."""
    original: Callable[..., Any] = train.train_group

    def stopping(*arguments: Any) -> Any:
        *before, on_progress, on_agents, every = arguments

        def progress(done: int) -> None:
            on_progress(done)
            if done == updates:
                raise KeyboardInterrupt

        return original(*before, progress, on_agents, every)

    return stopping


def test_its_stages_one_by_one(whole: Path, tmp_path: Path) -> None:
    collect(MINE, tmp_path / "logs", trajectories=2)
    run = train_all(str(tmp_path / "run"), tmp_path / "logs", family=MINE, config=small(), **QUIET)
    assert run.family is MINE
    adapt_all(run, METHODS[0])  # this object knows its family
    for method in METHODS[1:]:
        summary = adapt_all(str(tmp_path / "run"), method, family=MINE)
    assert [row["method"] for row in summary["rows"]] == list(METHODS)
    for method in METHODS:
        ours, theirs = (load_results(p, method, 0) for p in (run, whole))
        for name in theirs:
            np.testing.assert_array_equal(ours[name], theirs[name])


def test_it_is_read_and_reported_without_its_family(whole: Path) -> None:
    run = Run.open(str(whole))
    assert summarise(run) == json.loads((whole / "summary.json").read_text())
    assert run.find_data() is not None
    assert load_results(RunDir(whole), "posterior", 0)["returns"].shape == (2, 4)
    figures = [file.stem for file in write_figures(whole)]
    assert figures == ["uncertainty", "adaptation", "anytime"]


def test_several_jobs_with_such_families(whole: Path, tmp_path: Path) -> None:
    jobs = [
        Job(
            run=tmp_path / name,
            family=Targets(MINE.targets, name=name),
            config=small(),
            methods=METHODS,
            seeds=Seeds(count=1),
            trajectories=2,
        )
        for name in ("mine", "yours")
    ]
    outcomes = run_jobs(jobs, quiet=True)
    assert all(isinstance(outcome, Finished) for outcome in outcomes)
    assert results(tmp_path / "mine") == results(whole)


def test_another_family_is_refused(whole: Path) -> None:
    with pytest.raises(IdaqError, match="the family that is given is 'yours'"):
        Run.open(whole, Targets(MINE.targets, name="yours"))
    newer = Targets(MINE.targets, name="mine", version=2)
    with pytest.raises(IdaqError, match="of version 1 of 'mine'; this idaq has version 2"):
        adapt_all(whole, "posterior", family=newer, resume=True)


def test_the_held_family_comes_before_a_registered_one(
    whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    impostor = Targets(MINE.targets[:4], name="mine")
    monkeypatch.setitem(FAMILIES.added, "mine", impostor)
    assert Run.open(whole).family is impostor
    assert Run.open(whole, MINE).family is MINE
    adapt_all(whole, "posterior", family=MINE, resume=True)


def test_it_is_said_what_a_run_was_trained_with(whole: Path, tmp_path: Path) -> None:
    learner: Any = replace(LEARNERS["td3-bc"], name="mine", version=None, config=MyLearner)

    def run_of(name: str, components: dict[str, Any]) -> Path:
        def change(manifest: dict[str, Any]) -> None:
            manifest["identity"]["config"]["algorithm"]["learner"]["kind"] = "mine"
            manifest["identity"]["components"] = components

        return _changed(whole, tmp_path / name, change)

    other = (
        r"was trained with other source code of 'learner mine'\. Train again in another directory"
    )
    with LEARNERS.registered(learner):
        (now,) = identities({"learner mine": learner}).values()
        assert Run.open(run_of("same", {"learner mine": now}), MINE).config
        for name, components, message in (
            ("source", {"learner mine": "source ff61"}, f"{other}, or restore the file that"),
            ("version", {"learner mine": 1}, other),
            ("none", {}, "was trained with another 'learner mine'"),
            ("more", {"learner mine": now, "judge x": 1}, "was trained with another 'judge x'"),
        ):
            with pytest.raises(IdaqError, match=message):
                _ = Run.open(run_of(name, components), MINE).config


@dataclass(frozen=True, kw_only=True)
class MyLearner(Td3BcConfig):
    kind: str = "mine"  # type: ignore[assignment]


# --- Once -----------------------------------------------------------------------------------


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a manifest is parsed, an algorithm built, and an array of a dataset verified."""
    seen: Counter[str] = Counter()
    read_bytes, file_hash = checked.read_bytes, dataset_module._file_hash
    make_algorithm = entries.make_algorithm

    def reading(file: Path, *arguments: Any) -> bytes:
        seen["manifests"] += file.name == "run.json"
        return read_bytes(file, *arguments)

    def verifying(file: Path) -> str:
        if ".tmp-" not in str(file):  # else it is being written, and hashed for the first time
            seen[f"verified {file.name}"] += 1
        return file_hash(file)

    def making(*arguments: Any) -> Any:
        seen["algorithms"] += 1
        return make_algorithm(*arguments)

    monkeypatch.setattr(checked, "read_bytes", reading)
    monkeypatch.setattr(dataset_module, "_file_hash", verifying)
    for module in (recipe, run_module):
        monkeypatch.setattr(module, "make_algorithm", making)
    return seen


def test_one_command_looks_at_everything_once(tmp_path: Path, counts: Counter[str]) -> None:
    """Starting from nothing, and again when everything is there."""
    command = [*RUN, "--seeds", "2", "--out", str(tmp_path / "run")]
    for options in ([], ["--resume"]):
        counts.clear()
        assert main([*command, *options]) == 0
        assert counts["manifests"] == bool(options), "what is written need not be read"
        assert counts["algorithms"] == 1
        verified = {name: n for name, n in counts.items() if name.startswith("verified")}
        assert len(verified) == 8
        assert set(verified.values()) == {1}


def test_adapting_and_reporting_open_a_run_once(
    tmp_path: Path, counts: Counter[str], whole: Path
) -> None:
    run = ["run", "point-robot", *RUN[2:], "--seeds", "1", "--out", str(tmp_path / "run")]
    assert main(run) == 0
    for command, algorithms, verified in (
        (["adapt", str(tmp_path / "run"), "--method", "expert-context", "--name", "again"], 1, 1),
        (["report", str(tmp_path / "run")], 0, 1),
    ):
        counts.clear()
        assert main(command) == 0
        assert counts["manifests"] == 1
        assert counts["algorithms"] == algorithms
        assert counts["verified rewards.npy"] == verified


# --- The manifest ---------------------------------------------------------------------------


def test_the_manifest_is_written_as_ever(whole: Path) -> None:
    """Every key, in order: a benchmark names its directories by a hash of the identity."""
    manifest = json.loads((whole / "run.json").read_text())
    assert list(manifest) == ["format_version", "identity", "provenance"]
    assert list(manifest["identity"]) == [
        *("family", "family_version", "algo", "algo_version"),
        *("preset", "split", "data", "config"),
    ]
    assert list(manifest["provenance"]) == ["versions", "git", "device", "dataset"]
    assert manifest["identity"] == Run.open(whole).identity.to_json()
    assert manifest["identity"]["data"] == {"trajectories": 2, "seed": 0, "quality": "expert"}


def _changed(run: Path, place: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    manifest = json.loads((run / "run.json").read_text())
    change(manifest)
    place.mkdir()
    (place / "run.json").write_text(json.dumps(manifest))
    return place


def test_a_manifest_from_before_there_were_several_algorithms(whole: Path, tmp_path: Path) -> None:
    old = _changed(
        whole, tmp_path / "old", lambda m: m["identity"]["config"]["algorithm"].pop("kind")
    )
    assert Run.open(old, MINE).config == Run.open(whole, MINE).config


def test_provenance_may_be_missing_and_says_what_it_says(whole: Path, tmp_path: Path) -> None:
    provenance = Run.open(whole).manifest.provenance
    assert provenance.versions["numpy"] == np.__version__
    assert provenance.dataset is None
    bare = Run.open(_changed(whole, tmp_path / "bare", lambda m: m["provenance"].clear()))
    assert bare.manifest.provenance.git is None
    assert bare.manifest.provenance.device is None
    assert bare.data_place == tmp_path / "bare" / "data"
    git = {"commit": "c0ffee", "modified": True}
    said = _changed(whole, tmp_path / "said", lambda m: m["provenance"].update(git=git))
    found = Run.open(said).manifest.provenance.git
    assert found is not None
    assert (found.commit, found.modified) == ("c0ffee", True)


@pytest.mark.parametrize("key", ["family", "algo_version", "config", "data"])
def test_a_manifest_without_its_identity_is_damaged(whole: Path, tmp_path: Path, key: str) -> None:
    bad = _changed(whole, tmp_path / "bad", lambda m: m["identity"].pop(key))
    with pytest.raises(IdaqError, match=f"no usable '{key}'"):
        Run.open(bad)


def test_a_run_that_is_held_is_held_once(whole: Path) -> None:
    run = Run.open(whole)
    with run.held():
        with run.held():
            pass
        with pytest.raises(IdaqError, match="Another process is working"), Run.open(whole).held():
            pass
    with Run.open(whole).held():
        pass
