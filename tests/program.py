"""The program as its users run it, on very small jobs.

Tests call `idaq.cli.main` in this process if they can, so that compiled programs are shared. Tests
that need a process of their own (signals, locks, kills) share the compile cache on disk.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from idaq.cli import main
from idaq.storage.dataset import Dataset, open_dataset

NETWORKS = (
    *("--set", "algorithm.encoder_hidden=[8]", "algorithm.learner.hidden=[8]"),
    *("--set", "algorithm.ensemble.hidden=[8]", "algorithm.ensemble.size=2"),
    *("--set", "algorithm.latent_dim=2", "algorithm.batch_size=4", "algorithm.context_size=4"),
    *("--set", "algorithm.meta_batch_size=2"),
    *("--set", "train.log_every_updates=1", "train.checkpoint_every_updates=2"),
)
SMALL_NETWORKS = {  # of the baselines
    "op-cl": (
        *("algorithm.encoder_hidden=[8]", "algorithm.learner.hidden=[8]"),
        *("algorithm.ensemble.hidden=[8]", "algorithm.latent_dim=2", "algorithm.meta_batch_size=2"),
        *("algorithm.batch_size=4", "algorithm.context_size=4"),
    ),
    "macaw": (
        *("algorithm.hidden=[8]", "algorithm.code_dim=4", "algorithm.meta_batch_size=2"),
        *("algorithm.inner_batch_size=4", "algorithm.outer_batch_size=4"),
        *("adapt.fine_tuning_steps=2", "adapt.num_expert_episodes=1"),
    ),
    "borel": (
        *("algorithm.memory_dim=8", "algorithm.learner.hidden=[8]", "algorithm.vae_updates=2"),
        *("algorithm.meta_batch_size=2", "algorithm.batch_size=4", "algorithm.relabel=true"),
        *("algorithm.elbo_prefixes=3", "algorithm.decoded_steps=3"),
    ),
}
TRAINING = ("--updates", "5", *NETWORKS)
EPISODES = ("--n-r", "2", "--n-i", "2")
JOB = (*TRAINING, *EPISODES, "--trajectories", "2")
METHODS = ("idaq-prediction-error", "expert-context")
RUN = ("run", "point-robot", *JOB, "--methods", *METHODS)
UNSTABLE = ("timing.json", ".lock", "figures")  # may differ between two equal runs


class Outcome(NamedTuple):
    """A command's exit status and output."""

    code: int
    out: str
    err: str


Program = Callable[..., Outcome]
Tree = dict[str, tuple[int, str]]


@pytest.fixture(autouse=True)
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw no figures: they have tests of their own, and take longer than everything else here."""
    monkeypatch.setattr("idaq.report.figures.write_figures", lambda run: [])


@pytest.fixture
def idaq(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Program:
    """Run a command in this process."""
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments: object) -> Outcome:
        capsys.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as stop:  # how tyro ends after --help and after a mistake
            code = int(stop.code or 0)
        return Outcome(code, *capsys.readouterr())

    return call


@pytest.fixture
def refused(idaq: Program, tmp_path: Path) -> Program:
    """Run a command that must end with one clear message and change nothing on the disk."""

    def call(*arguments: object, names: tuple[object, ...] = ()) -> Outcome:
        before = tree(tmp_path)
        outcome = idaq(*arguments)
        assert outcome.code == 2, outcome
        assert outcome.out == ""
        assert "Traceback" not in outcome.err
        assert outcome.err.startswith("idaq: ")
        assert outcome.err.count("\n") == 1, "one message, and before anything was done"
        for name in names:
            assert str(name) in outcome.err
        assert tree(tmp_path) == before
        return outcome

    return call


# Ctrl-C must reach the program even if the tests run in the background of a shell, whose children
# ignore it.
MAIN = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from idaq.cli import main
sys.exit(main())
"""


def start(*arguments: object) -> subprocess.Popen[str]:
    """Run a command as a process of its own."""
    command = [sys.executable, "-c", MAIN, *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "100"}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def finish(process: subprocess.Popen[str]) -> Outcome:
    """Wait for a process to end."""
    try:
        out, err = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
    return Outcome(process.returncode, out, err)


def check_help(outcome: Outcome) -> None:
    """Every option is explained, and only real defaults are shown."""
    assert outcome.code == 0
    assert outcome.err == ""
    for noise in ("None", "STR", "TRUE", "False", "(default: )", "[default", "{}", "()"):
        assert noise not in outcome.out
    for block in re.split(r"\n[│| ]+(?=--[a-z])", outcome.out)[1:]:
        words = re.findall(r"\b[a-z]{3,}\b", re.sub(r"\{.*?\}|--\S+", "", block))
        assert len(words) >= 2, f"not explained: {block}"


def tree(root: Path) -> Tree:
    """Everything below a directory: the time when it was last written, and a hash of it."""
    found = {}
    for path in sorted(root.rglob("*")):
        contents = "" if path.is_dir() else hashlib.sha256(path.read_bytes()).hexdigest()
        found[str(path.relative_to(root))] = (path.stat().st_mtime_ns, contents)
    return found


def results(run: Path) -> dict[str, str]:
    """The contents of a run, without what may differ between two equal runs."""
    found = {
        name: contents for name, (_, contents) in tree(run).items() if not name.startswith(UNSTABLE)
    }
    if "run.json" in found:  # the state of the source may change between two runs
        found["run.json"] = json.dumps(json.loads((run / "run.json").read_text())["identity"])
    return found


@pytest.fixture(scope="session")
def _made(tmp_path_factory: pytest.TempPathFactory, compile_cache: Path) -> Path:
    """A dataset and two finished runs, made once."""
    place = tmp_path_factory.mktemp("made")
    data = ("collect", "point-robot", "--trajectories", "2", "--out", str(place / "data"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("idaq.report.figures.write_figures", lambda run: [])
        assert main([*data]) == 0
        assert main([*RUN, "--seeds", "2", "--out", str(place / "run")]) == 0
    return place


@pytest.fixture
def data(_made: Path, tmp_path: Path) -> Path:
    """A copy of a small dataset."""
    return Path(shutil.copytree(_made / "data", tmp_path / "data"))


@pytest.fixture
def run(_made: Path, tmp_path: Path) -> Path:
    """A copy of a finished run: `RUN` with two seeds."""
    return Path(shutil.copytree(_made / "run", tmp_path / "run"))


def change_arrays(data: Path, **changes: Any) -> None:
    """Replace arrays of a dataset and update its checksums."""
    for name, value in changes.items():
        np.save(data / f"{name}.npy", value)
        forge_checksum(data, name)


def forge_checksum(data: Path, name: str) -> None:
    """Make a dataset's checksum agree with an array file as it is now."""
    contents = (data / f"{name}.npy").read_bytes()
    change_json(data / "metadata.json", "sha256", name, to=hashlib.sha256(contents).hexdigest())


def change_json(file: Path, *keys: str, to: Any) -> None:
    """Set one value in a JSON file."""
    whole = json.loads(file.read_text())
    inner = whole
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = to
    whole.pop("metadata_sha256", None)  # as in older datasets
    file.write_text(json.dumps(whole))


def arrays_of(data: Path) -> dict[str, Any]:
    """The arrays of a dataset, in memory."""
    dataset: Dataset = open_dataset(data)
    return {name: np.array(value) for name, value in dataset.arrays.items()}
