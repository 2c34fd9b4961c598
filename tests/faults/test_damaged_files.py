"""Damaged and foreign files of runs: one clear sentence, and only what they belong to is lost."""

import json
import os
import signal
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from idaq.behaviour.ladder import ladder_rows, load_ladder
from idaq.behaviour.quality import WEIGHTS
from idaq.envs import get_family
from idaq.errors import IdaqError
from idaq.report.page import page_payload, write_page
from idaq.runs.directory import RunDir
from idaq.runs.results import load_results
from idaq.runs.run import Run
from idaq.runs.summary import summarise
from idaq.storage import checkpoint
from idaq.storage.checked import read_arrays, read_json
from idaq.storage.metrics import MetricsLog
from tests.faults.test_signals import at_update
from tests.program import METHODS, RUN, Program
from tests.report.test_figures import make_run

NAME = METHODS[0]


def rewritten(file: Path, **changes: Any) -> None:
    """Change arrays of an `.npz` file; None removes one."""
    with np.load(file) as arrays:
        content = dict(arrays) | changes
    np.savez(file, **{name: each for name, each in content.items() if each is not None})


def bomb(file: Path) -> None:
    """A small archive of a gigabyte of zeros."""
    header = {"descr": "<f8", "fortran_order": False, "shape": (1 << 14, 1 << 13)}
    with (
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("returns.npy", "w", force_zip64=True) as stream,
    ):
        np.lib.format.write_array_header_1_0(stream, header)
        for _ in range(1 << 10):
            stream.write(bytes(1 << 20))


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def endless(file: Path) -> None:
    file.unlink()
    file.symlink_to("/dev/zero")


DAMAGES: dict[str, Callable[[Path], object]] = {
    "no archive": lambda file: file.write_bytes(b"x"),
    "cut off": lambda file: file.write_bytes(file.read_bytes()[:300]),
    "a bomb": bomb,
    "objects": lambda file: rewritten(file, returns=np.array([[{}]], object)),
    "texts": lambda file: rewritten(file, returns=np.array([["x"]])),
    "NaN": lambda file: rewritten(file, returns=np.full((20, 4), np.nan)),
    "huge": lambda file: rewritten(file, returns=np.full((20, 4), 1e300)),
    "empty": lambda file: rewritten(file, returns=np.zeros((0, 4))),
    "kept of others": lambda file: rewritten(file, kept=np.zeros((20, 3), bool)),
    "tasks of others": lambda file: rewritten(file, tasks=np.arange(3)),
    "negative tasks": lambda file: rewritten(file, tasks=-np.arange(20)),
    "thresholds of others": lambda file: rewritten(file, thresholds=np.zeros(20)),
    "steps of others": lambda file: rewritten(file, valid=np.zeros((20, 4, 9), bool)),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_results(idaq: Program, run: Path, tmp_path: Path, damage: str) -> None:
    """The file is named; the page lists the run and shows the others."""
    file = RunDir(run).result_file(NAME, 0)
    (run / "summary.json").unlink()
    DAMAGES[damage](file)
    with pytest.raises(IdaqError, match=str(file)):
        load_results(run, NAME, 0)
    outcome = idaq("report", run)
    assert outcome.code == 2
    assert str(file) in outcome.err
    assert "Traceback" not in outcome.err
    other = make_run(tmp_path / "other", methods=("posterior",), with_data=False)
    page = idaq("report", run, other.path, "--html", tmp_path / "page.html")
    assert page.code == 0, page.err
    content = page_payload([run, other.path])
    assert [shown["name"] for shown in content["runs"]] == ["other"]
    (left_out,) = content["unreadable"]
    assert left_out["name"] == "run"
    assert str(file) in left_out["problem"]


@pytest.mark.parametrize("make", [pipe, endless])
@pytest.mark.parametrize("name", ["seed-000.npz", "config.json"])
def test_what_is_no_regular_file(
    idaq: Program, run: Path, tmp_path: Path, name: str, make: Callable[[Path], None]
) -> None:
    """Nothing waits for it, and nothing takes in what has no end."""
    file = RunDir(run).adapt(NAME) / name
    make(file)
    for read in (read_json, read_arrays):
        with pytest.raises(IdaqError, match=f"'{file}' is no regular file"):
            read(file)
    outcome = idaq("report", run)
    assert outcome.code in (0, 2)
    assert str(file) in outcome.err or NAME in outcome.err
    assert idaq("report", run, "--html", tmp_path / "page.html").code == 0


def test_an_archive_of_a_gigabyte_is_not_unpacked(tmp_path: Path) -> None:
    file = tmp_path / "x.npz"
    bomb(file)
    assert file.stat().st_size < 2 << 20
    with pytest.raises(IdaqError, match="it would unpack to 1024 MiB"):
        read_arrays(file)


def test_returns_of_seeds_that_differ_in_shape(run: Path, tmp_path: Path) -> None:
    every = {"returns": np.zeros((20, 5)), "kept": np.zeros((20, 5), bool)}
    file = RunDir(run).result_file(NAME, 1)
    with np.load(file) as arrays:
        others = set(arrays.files) - {*every, "tasks"}
    rewritten(file, **every, **dict.fromkeys(others))
    (run / "summary.json").unlink()
    (left_out,) = page_payload([run])["unreadable"]
    assert "differ in shape between seeds" in left_out["problem"]


WRONG: tuple[Any, ...] = (None, [], {}, [[]], "x", -1, 1.5, True, [None])
CONTENTS = (
    *("", "{", "[" * 100_000, "3", "null", '"x"', "[]", "{}", "[1]", '{"a": NaN}', "1e999"),
    *("9" * 5_000, "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")),
)


def places(value: Any) -> Iterator[tuple[Any, ...]]:
    """Where there is anything in JSON."""
    inner = value.items() if isinstance(value, dict) else list(enumerate(value))[:2]
    for key, each in inner:
        yield (key,)
        if isinstance(each, dict | list):
            yield from ((key, *rest) for rest in places(each))


def changed(text: str) -> Iterator[str]:
    """The JSON with another value at every place of it, of every type."""
    for place in places(json.loads(text)):
        for wrong in WRONG:
            value = json.loads(text)
            inner = value
            for key in place[:-1]:
                inner = inner[key]
            inner[place[-1]] = wrong
            yield json.dumps(value)


FILES = ("run.json", "seeds.json", "summary.json", "dataset.json", f"adapt/{NAME}/config.json")


@pytest.mark.parametrize("name", FILES)
def test_json_of_other_types(run: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever it holds, the run is read or refused, alone and on a page."""
    monkeypatch.setattr("idaq.runs.statistics.NUM_RESAMPLES", 10)
    file = run / name
    text = file.read_text()
    for content in (*CONTENTS, *changed(text)):
        file.write_text(content)
        for read in (summarise, Run.open, lambda place: page_payload([place])):
            with suppress(IdaqError):
                read(run)
        if name != "summary.json":
            (run / "summary.json").unlink(missing_ok=True)


def test_json_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("idaq.storage.checked.MAX_JSON_BYTES", 10)
    file = tmp_path / "x.json"
    file.write_text('"123456789"')
    with pytest.raises(IdaqError, match="larger than"):
        read_json(file)


def test_a_page_of_damaged_runs_alone(run: Path, tmp_path: Path) -> None:
    (run / "seeds.json").write_text("{}")
    write_page([run], tmp_path / "page.html")
    assert "does not list groups of seeds" in (tmp_path / "page.html").read_text()


# --- Headers, locks and policies ----------------------------------------------------------------


@pytest.mark.parametrize("done", [10**9, -1, 5, "2", 2.0, None])
def test_a_checkpoint_of_updates_that_were_never_done(
    idaq: Program, run: Path, tmp_path: Path, done: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checksum is right; it is refused, and never taken for a finished training."""
    save = checkpoint.save

    def forged(path: Path, tree: Any, metadata: dict[str, Any]) -> None:
        save(path, tree, metadata | ({"updates_done": done} if "updates_done" in metadata else {}))

    place = tmp_path / "new"
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "save", forged)
        at_update(3, lambda: signal.raise_signal(signal.SIGTERM), patch)
        assert idaq(*RUN, "--seeds", "1", "--out", place).code == 143
    outcome = idaq(*RUN, "--seeds", "1", "--out", place, "--resume")
    assert outcome.code == 2
    assert "train/seeds-000-000.safetensors' has no usable 'updates_done'" in outcome.err


@pytest.mark.parametrize("make", [pipe, endless])
def test_a_lock_that_is_no_file(idaq: Program, run: Path, make: Callable[[Path], None]) -> None:
    make(run / ".lock")
    outcome = idaq("adapt", run, "--resume", "--method", NAME)
    assert outcome.code == 2
    assert f"'{run / '.lock'}' is no regular file" in outcome.err


def test_a_pipe_among_the_events(idaq: Program, tmp_path: Path) -> None:
    place = tmp_path / "seeds/seed-000/tensorboard"
    place.mkdir(parents=True)
    os.mkfifo(place / "events.out.tfevents.0.idaq")
    with MetricsLog(tmp_path / "seeds/seed-000", 0) as log:
        log.write(1, {"loss": 1.0})
    assert (place / "events.out.tfevents.0.idaq").is_file()


def test_policies_of_other_types(tmp_path: Path) -> None:
    """ladder.json is read or refused, whatever it holds."""
    family = get_family("point-robot")
    own = WEIGHTS / "point-robot" / "ladder.json"
    text = own.read_text()
    for content in (*CONTENTS, *changed(text)):
        (tmp_path / "ladder.json").write_text(content)
        with suppress(IdaqError):
            ladder_rows(load_ladder(tmp_path, family))


@pytest.mark.parametrize("seeds", [0, 10_001, 10**6, 10**18])
def test_a_benchmark_of_too_many_seeds(refused: Program, tmp_path: Path, seeds: int) -> None:
    command = ("bench", "status", "ml1", "--results", tmp_path, "--seeds", seeds)
    refused(*command, names=("--seeds", "10,000"))


def test_times_that_are_damaged(idaq: Program, run: Path) -> None:
    """They decide nothing: a finished adaptation is no failure for their sake."""
    (run / "timing.json").write_text("[")
    (run / "adapt" / NAME / "seed-000.npz").unlink()
    outcome = idaq(*RUN, "--seeds", "2", "--resume", "--out", run)
    assert outcome.code == 0, outcome.err
    assert json.loads((run / "timing.json").read_text()).keys() == {f"adapt_{NAME}_s"}
