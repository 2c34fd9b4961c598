"""Numbers, names and streams that nobody expects, and texts of files on a terminal."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from idaq.errors import MAX_PROBLEM, MAX_REMEDY, IdaqError, printable
from idaq.runs.directory import RunDir
from idaq.runs.summary import summarise
from tests.program import METHODS, RUN, Program, change_json

EVIL = "\x1b]0;evil\x07\x1b[31m[/]\u202e\x9b2J:smile:"
EVIL_NAME = EVIL.replace("/", "")
LONG = 700_000
MAIN = "import sys; from idaq.cli import main; sys.exit(main())"


# --- Numbers --------------------------------------------------------------------------------------

HUGE = [str(10**18), str(10**400), "9" * 5_000, "-" + "9" * 30]


@pytest.mark.parametrize("number", HUGE)
@pytest.mark.parametrize(
    "option",
    [
        *("--n-r", "--n-i", "--n-e", "--candidates", "--expert-episodes", "--updates", "--seeds"),
        *("--first-seed", "--trajectories", "--data-seed", "--ensemble-size", "--workers"),
    ],
)
def test_numbers_without_bound(idaq: Program, tmp_path: Path, option: str, number: str) -> None:
    outcome = idaq("run", "point-robot", "--out", tmp_path / "new", f"{option}={number}")
    assert outcome.code == 2
    assert "Traceback" not in outcome.err
    assert len(outcome.err) < 20_000
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "setting",
    [
        "algorithm.encoder_hidden=" + "[" * 100_000,
        *(f"train.num_updates={number}" for number in (*HUGE, "1e999", "NaN", "[" * 5)),
        *(f"algorithm.latent_dim={number}" for number in HUGE),
        *(f"algorithm.learner.discount={value}" for value in ("NaN", "1e999", "-Infinity")),
    ],
    ids=lambda setting: setting[:40],
)
def test_settings_without_bound(refused: Program, tmp_path: Path, setting: str) -> None:
    outcome = refused("run", "point-robot", "--out", tmp_path / "new", "--set", setting)
    assert len(outcome.err) < MAX_PROBLEM + MAX_REMEDY + 100


@pytest.mark.parametrize("share", ["nan", "inf", "-1", "1e300"])
@pytest.mark.parametrize("option", ["--cpus-per-cell", "--gpus-per-cell"])
def test_shares_of_a_machine(
    idaq: Program, tmp_path: Path, option: str, share: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("idaq.bench.engines.ray._connect", lambda address: pytest.fail("asked"))
    bench = ("bench", "run", "mujoco", "--scale", "smoke", "--engine", "ray", "--only", "focal")
    outcome = idaq(*bench, "--results", tmp_path / "results", f"{option}={share}")
    assert outcome.code == 2
    assert f"{option} is" in outcome.err


@pytest.mark.parametrize("v", ["9" * 5_000, "3.." + "9" * 5_000, "\u0663..\u0665", "[/]"])
def test_ranges_of_doors(refused: Program, v: str) -> None:
    refused("theory", "--v", v, names=("--v",))


@pytest.mark.parametrize("number", [str(10**18), "0"])
def test_updates_to_time(refused: Program, number: str) -> None:
    refused("bench", "speed", "--updates", number, names=("--updates",))


# --- Names and streams ----------------------------------------------------------------------------


def test_names_with_markup(idaq: Program, tmp_path: Path) -> None:
    outcome = idaq("theory", "--check", "bamdp-value", "--v", "3", "--figure", tmp_path / "[/]")
    assert "Traceback" not in outcome.err
    assert "[/]" in outcome.err


def closed(*arguments: object, streams: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a shell that redirects its streams."""
    words = " ".join(f"'{word}'" for word in (sys.executable, "-c", MAIN, *arguments))
    return subprocess.run(["bash", "-c", f"{words} {streams}"], capture_output=True)


@pytest.mark.parametrize("streams", [">&-", "2>&-", "<&- >&- 2>&-", "| head -c 1"])
def test_closed_streams(streams: str) -> None:
    outcome = closed("list", "--json", streams=streams)
    assert outcome.returncode == 0, outcome
    assert outcome.stderr == b""


def test_a_full_stdout() -> None:
    outcome = closed("list", "--json", streams="> /dev/full")
    assert outcome.returncode == 2
    assert b"No space left on device" in outcome.stderr
    assert b"Exception ignored" not in outcome.stderr
    assert b"Traceback" not in outcome.stderr


def test_names_that_are_not_utf8(run: Path, tmp_path: Path) -> None:
    place = tmp_path / os.fsdecode(b"\xff\xfe")
    shutil.copytree(run, place)
    for command in (
        ("report", place),
        ("report", place, "--html", place / "page.html"),
        ("adapt", place, "--method", METHODS[0], "--name", "again"),
        ("report", place / "none"),
        ("train", "--data", place),
    ):
        words = [sys.executable, "-c", MAIN, *map(str, command)]
        outcome = subprocess.run(words, capture_output=True)
        assert outcome.returncode in (0, 2)
        assert b"Traceback" not in outcome.stderr, outcome.stderr.decode()
    assert (place / "page.html").is_file()
    assert RunDir(place).result_file("again", 0).is_file()


# --- Texts of files -------------------------------------------------------------------------------


def test_what_is_printable() -> None:
    assert printable("plain ± ünïcödé") == "plain ± ünïcödé"
    assert printable("\x1b[31m\n\x9b") == "\\x1b[31m\\n\\x9b"
    assert printable("a\nb", keep="\n") == "a\nb"
    assert len(printable("x" * LONG)) < MAX_PROBLEM + 10
    error = IdaqError("p" * LONG, "remedy.")
    assert len(str(error)) < MAX_PROBLEM + MAX_REMEDY
    assert str(error).endswith("remedy."), "which stays"


def is_plain(texts: Sequence[str]) -> bool:
    return all(c.isprintable() or c == "\n" for text in texts for c in text)


def test_texts_of_files_command_no_terminal(idaq: Program, run: Path) -> None:
    """Neither names of files nor what they hold."""
    for name in ("whole", "half"):
        shutil.copytree(run / "adapt" / METHODS[0], run / "adapt" / f"{name} {EVIL_NAME}")
    (run / "adapt" / f"half {EVIL_NAME}" / "seed-001.npz").unlink()
    change_json(run / "dataset.json", "quality", to=EVIL)
    summarise(run)
    outcome = idaq("report", run)
    assert outcome.code == 0, outcome.err
    assert "whole" in outcome.out
    assert "half" in outcome.err
    assert is_plain(outcome[1:])
    assert json.loads(idaq("report", run, "--json").out)["quality"] == EVIL


@pytest.mark.parametrize("text", [EVIL, EVIL * 50_000])
def test_errors_command_no_terminal(idaq: Program, run: Path, text: str) -> None:
    config = run / "adapt" / METHODS[0] / "config.json"
    for keys, command in (
        (("config", "accept"), ("report", run)),
        (("config",), ("report", run)),
        (("method",), (*RUN, "--seeds", "2", "--resume", "--out", run)),
    ):
        before = config.read_text()
        change_json(config, *keys, to=text)
        outcome = idaq(*command)
        config.write_text(before)
        assert outcome.code in (0, 2)
        assert len(outcome.err) < 10_000
        assert is_plain(outcome[1:])
    change_json(run / "run.json", "identity", "family", to=text)
    outcome = idaq("adapt", run)
    assert outcome.code == 2
    assert is_plain(outcome[1:])
    assert len(outcome.err) < 10_000
