"""Files that users name: nothing but idaq's own files of the same kind is replaced."""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from idaq.errors import IdaqError
from idaq.report.style import drawing
from idaq.report.video import write_gif
from idaq.runs.run import Run
from idaq.storage.outputs import PAGE, PICTURE, SPEED, VIDEO, Kind, check_output, output_file
from tests.program import Program, tree


def page(run: Path, out: object) -> tuple[object, ...]:
    return "report", run, "--html", out


def speed(run: Path, out: object) -> tuple[object, ...]:
    return "bench", "speed", "--out", out


@pytest.fixture(autouse=True)
def no_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is measured has tests of its own."""
    monkeypatch.setattr("idaq.bench.speed.measure.measure", lambda num: {"device": "none"})
    monkeypatch.setattr("idaq.bench.speed.tables.speed_tables", lambda result: [])


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is refused is refused before it."""
    monkeypatch.setattr("idaq.bench.speed.measure.measure", lambda num: pytest.fail("measured"))
    monkeypatch.setattr("idaq.report.page.page_payload", lambda places: pytest.fail("rendered"))


COMMANDS = pytest.mark.parametrize("command", [page, speed])


@COMMANDS
@pytest.mark.usefixtures("unmeasured")
@pytest.mark.parametrize("name", ["", ".", "/", "..", "sub/.."])
def test_paths_that_name_no_file(
    refused: Program, run: Path, monkeypatch: pytest.MonkeyPatch, command: Any, name: str
) -> None:
    monkeypatch.chdir(run.parent)
    refused(*command(run, name), names=("names no file", "Name a new file"))


@COMMANDS
@pytest.mark.usefixtures("unmeasured")
@pytest.mark.parametrize(
    "name",
    [
        *("run.json", "summary.json", "seeds.json", "timing.json"),
        *("adapt/expert-context/config.json", "adapt/expert-context/seed-000.npz"),
        *("seeds/seed-000/agent.safetensors", "seeds/seed-000/metrics.jsonl"),
        *("data/metadata.json", "data/rewards.npy", "ladder.json", "page", "page.txt"),
    ],
)
def test_files_of_a_run(refused: Program, run: Path, command: Any, name: str) -> None:
    """Those that are there, and those that would be something to it."""
    refused(*command(run, run / name), names=(run / name,))


@COMMANDS
@pytest.mark.usefixtures("unmeasured")
def test_other_files(refused: Program, run: Path, data: Path, tmp_path: Path, command: Any) -> None:
    """Texts, pages and JSON of somebody else; directories, links, pipes and devices."""
    texts = {"notes.txt": "mine", "a.html": "<!doctype html>\n<title>mine</title>", "a.json": "{}"}
    texts |= {"b.json": '{"generator": "mine"}', "c.json": "[]", "empty": "", "broken": '{"a": '}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        refused(*command(run, tmp_path / name), names=(name, "exists already", "remove that"))
    refused(*command(run, data), names=(data, "is a directory"))
    (tmp_path / "link").symlink_to(tmp_path / "notes.txt")
    refused(*command(run, tmp_path / "link"), names=("link", "is a link"))
    assert (tmp_path / "link").is_symlink()
    for device in ("/dev/null", "/dev/full"):
        refused(*command(run, device), names=(device, "no regular file"))
    assert Path("/dev/null").is_char_device()
    below = tmp_path / "notes.txt" / "page.html"
    with pytest.raises(IdaqError, match="cannot be written"), output_file(below, PAGE):
        pass


def test_a_pipe_and_links_to_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for kind in (PAGE, PICTURE, SPEED, VIDEO):
        for name in ("pipe", "dangling", "loop", "loop/below"):
            with pytest.raises(IdaqError):
                check_output(tmp_path / name, kind)


def test_behind_a_link_lies_a_run(refused: Program, run: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(run / "seeds")
    out = tmp_path / "link" / "seed-000" / "new.txt"
    refused(*page(run, out), names=(out, "among the results"))


def test_pages_replace_pages(idaq: Program, run: Path, tmp_path: Path) -> None:
    for out in (tmp_path / "deep" / "page", tmp_path / "page.html", run / "page.html"):
        for _ in range(2):
            outcome = idaq(*page(run, out))
            assert outcome.code == 0, outcome.err
        assert "idaq report" in out.read_text()


def test_measurements_replace_measurements(idaq: Program, run: Path, tmp_path: Path) -> None:
    for out in (tmp_path / "deep" / "speed", tmp_path / "speed.json", run / "speed.json"):
        for _ in range(2):
            outcome = idaq(*speed(run, out), "--json")
            assert outcome.code == 0, outcome.err
        assert json.loads(out.read_text()) == json.loads(outcome.out)
    outcome = idaq(*page(run, tmp_path / "speed.json"))
    assert outcome.code == 2, "another kind"


def draw(path: Path) -> None:
    with drawing(path, 1.0, 1.0):
        pass


def film(path: Path) -> None:
    from PIL import Image

    write_gif(path, [Image.new("RGB", (20, 20), colour) for colour in ("red", "blue")])


@pytest.mark.parametrize(
    ("make", "kind", "place"), [(draw, PICTURE, "figures"), (film, VIDEO, "videos")]
)
def test_pictures(
    run: Path, tmp_path: Path, make: Callable[[Path], None], kind: Kind, place: str
) -> None:
    """Ours by a mark in them; those that a run keeps by where they are."""
    own, foreign = tmp_path / f"own{kind.ending}", tmp_path / f"foreign{kind.ending}"
    make(own)
    make(own)
    assert kind.is_ours(own)
    foreign.write_bytes(own.read_bytes().replace(b"idaq", b"else"))
    before = tree(tmp_path)
    for path in (foreign, run / "data" / "rewards.npy", run / f"{place}-mine", tmp_path):
        with pytest.raises(IdaqError):
            make(path)
    assert tree(tmp_path) == before
    kept = run / place / f"x{kind.ending}"
    kept.parent.mkdir(exist_ok=True)
    kept.write_bytes(foreign.read_bytes())
    make(kept)
    kept.unlink()
    kept.symlink_to(foreign)
    with pytest.raises(IdaqError, match="is a link"):
        make(kept)


def test_figures_of_the_theory(
    refused: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them or none, and before anything is checked."""
    monkeypatch.setattr("idaq.cli.theory.run_checks", lambda *_, **__: pytest.fail("checked"))
    (tmp_path / "adaptation.png").write_bytes(b"\x89PNG\r\n\x1a\nmine")
    names = (tmp_path / "adaptation.png", "no figure of idaq's")
    refused("theory", "--figure", tmp_path, names=names)
    (tmp_path / "adaptation.png").unlink()
    (tmp_path / "mine.png").write_bytes(b"mine")
    (tmp_path / "gap.png").symlink_to(tmp_path / "mine.png")
    refused("theory", "--figure", tmp_path, names=(tmp_path / "gap.png", "is a link"))


def test_what_fails_leaves_what_was_there(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    out.write_text('<meta name="generator" content="idaq">')
    before = tree(tmp_path)
    with suppress(ZeroDivisionError), output_file(out, PAGE) as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError
    assert tree(tmp_path) == before
    assert Run.open(run).manifest
