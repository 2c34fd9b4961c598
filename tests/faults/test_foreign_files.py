"""Files that are not idaq's stay, in and beside the directories that it works in."""

from pathlib import Path

import pytest

from idaq.errors import IdaqError
from idaq.runs.directory import RunDir
from idaq.storage import layout
from idaq.storage.atomic import atomic_directory, atomic_file
from idaq.storage.claim import claimed, held
from tests.program import RUN, TRAINING, Program, results, tree

DEAD = 999_999_999  # no process has that number


def make(root: Path, *names: str) -> None:
    """Make files with something in them; a name that ends with a slash is a directory."""
    for name in names:
        file = root / name
        if name.endswith("/"):
            file.mkdir(parents=True)
            (file / "thesis").write_text("years of work")
        else:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("years of work")


@pytest.mark.parametrize("name", [".bashrc", ".ssh/", ".git/", f".thesis.tmp-{DEAD}", ".lock"])
def test_hidden_files_are_files(refused: Program, tmp_path: Path, data: Path, name: str) -> None:
    """A directory with hidden files is not empty, and a lock with contents is not idaq's."""
    place = tmp_path / "home"
    make(place, name)
    names = (place, "no run directory", name.rstrip("/"), "--out")
    refused(*RUN, "--out", place, names=names)
    refused("train", "--data", data, "--out", place, *TRAINING, names=names)
    refused("behaviour", "point-robot", "--out", place, names=names)


@pytest.mark.parametrize("name", [".lock", f".run.json.tmp-{DEAD}"])
def test_a_link_is_nothing_that_a_start_left(refused: Program, tmp_path: Path, name: str) -> None:
    make(tmp_path, "empty")
    (tmp_path / "empty").write_text("")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).symlink_to(tmp_path / "empty")
    refused(*RUN, "--out", tmp_path / "run", names=("no run directory", name))


def test_what_an_interrupted_start_left(idaq: Program, run: Path, tmp_path: Path) -> None:
    place = tmp_path / "started"
    make(place, f".run.json.tmp-{DEAD}")
    (place / ".lock").touch()
    assert idaq(*RUN, "--seeds", "2", "--out", place).code == 0
    assert results(place) == results(run)


def test_only_what_a_run_writes_is_swept(run: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    make(elsewhere, f".config.json.tmp-{DEAD}")
    (run / "adapt" / "linked").symlink_to(elsewhere)
    (run / "notes").symlink_to(elsewhere)
    make(
        run,
        f".thesis.tmp-{DEAD}",  # nothing that a run writes
        f".thesis.tmp-{DEAD}0/",
        f"notes-of-mine/.run.json.tmp-{DEAD}",  # where a run writes nothing
        f"notes-of-mine/deep/.data.tmp-{DEAD}/",
        f"data/.metadata.json.tmp-{DEAD}",
        f"seeds/seed-000/.data.tmp-{DEAD}/",
        f".run.json.tmp-{DEAD}/",  # a directory where a run writes a file
        f".summary.json.tmp-{DEAD}-mine",
    )
    (run / f".timing.json.tmp-{DEAD}").symlink_to(elsewhere / f".config.json.tmp-{DEAD}")
    before = tree(tmp_path)
    with RunDir(run).locked():
        pass
    assert tree(tmp_path).keys() == before.keys()
    assert (run / f".timing.json.tmp-{DEAD}").is_symlink()


def test_all_that_a_run_writes_is_swept(run: Path) -> None:
    before = tree(run).keys()
    make(
        run,
        *(f".{name}.json.tmp-{DEAD}" for name in ("run", "dataset", "seeds", "summary", "timing")),
        *(f".{name}.npz.tmp-{DEAD}" for name in ("probe", "curve")),
        f"seeds/seed-000/.agent.safetensors.tmp-{DEAD}",
        f"seeds/seed-001/.agent-00000100.safetensors.tmp-{DEAD}",
        f"seeds/seed-000/.split.json.tmp-{DEAD}",
        f"seeds/seed-000/.metrics.jsonl.tmp-{DEAD}",
        f"adapt/expert-context/.config.json.tmp-{DEAD}",
        f"adapt/expert-context/.seed-001.npz.tmp-{DEAD}",
        f".data.tmp-{DEAD}/",
    )
    assert tree(run).keys() > before
    with RunDir(run).locked():
        pass
    assert tree(run).keys() == before


def test_all_that_a_training_of_policies_writes_is_swept(tmp_path: Path) -> None:
    names = ("run.json", "ladder.json", "metrics.jsonl", "rung-003.safetensors")
    make(tmp_path, "run.json", "notes", f".notes.tmp-{DEAD}")
    before = tree(tmp_path).keys()
    make(tmp_path, *(f".{name}.tmp-{DEAD}" for name in (*names, "state.safetensors")))
    with held(tmp_path, layout.POLICIES):
        pass
    assert tree(tmp_path).keys() - {".lock"} == before


def test_a_writer_clears_away_its_own_kind(tmp_path: Path) -> None:
    """A file's leftovers are files and a directory's are directories; links are neither."""
    make(tmp_path, "mine/", f".file.tmp-{DEAD}/", f".directory.tmp-{DEAD}", f".file.tmp-{DEAD}0")
    make(tmp_path, f".file.tmp-{DEAD - 1}", f".directory.tmp-{DEAD - 1}/")
    for name in ("file", "directory"):
        (tmp_path / f".{name}.tmp-{DEAD - 2}").symlink_to(tmp_path / "mine")
    with atomic_file(tmp_path / "file") as temporary:
        temporary.write_text("x")
    with atomic_directory(tmp_path / "directory") as temporary:
        (temporary / "x").write_text("x")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f".directory.tmp-{DEAD - 2}",
        f".directory.tmp-{DEAD}",
        f".file.tmp-{DEAD - 2}",
        f".file.tmp-{DEAD}",
        f".file.tmp-{DEAD}0",
        "directory",
        "file",
        "mine",
    ]
    assert (tmp_path / "mine" / "thesis").is_file()


def test_a_run_says_what_is_in_the_way(tmp_path: Path) -> None:
    make(tmp_path, ".profile", "notes")
    claim = claimed(tmp_path, layout.RUN, {}, {}, resume=False)
    with pytest.raises(IdaqError, match=r"it has '\.profile'"), claim:
        pass
