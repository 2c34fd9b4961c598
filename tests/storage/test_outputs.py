"""Files that users name: what may be written there, and what is replaced."""

from pathlib import Path

import pytest

from idaq.errors import IdaqError
from idaq.storage.atomic import write_json
from idaq.storage.layout import RUN
from idaq.storage.outputs import PAGE, PICTURE, SPEED, VIDEO, Kind, check_output

KINDS = (PAGE, PICTURE, SPEED, VIDEO)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A directory that holds a run, as far as anyone can see."""
    for name in RUN.files:
        if "*" not in name:
            write_json(tmp_path / "run" / name, {})
    return tmp_path / "run"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_new_file_may_be_anywhere(tmp_path: Path, run: Path, kind: Kind) -> None:
    """Outside of results under any name; among them under the ending of its kind."""
    check_output(tmp_path / "new", kind)
    check_output(tmp_path / f"new{kind.ending}", kind)
    check_output(run / f"new{kind.ending}", kind)
    check_output(run / f"new{kind.ending.upper()}", kind)
    check_output(run / "deep" / f"new{kind.ending}", kind)
    for name in ("new", "new.txt", "deep/new.txt"):
        with pytest.raises(IdaqError, match=rf"among the results.*ends in \{kind.ending}"):
            check_output(run / name, kind)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_what_is_somebody_elses_stays(tmp_path: Path, kind: Kind) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "mine")
    for place, message in (
        (tmp_path / "mine", "exists already"),
        (tmp_path / "link", "is a link"),
        (tmp_path, "is a directory"),
        (Path("/dev/null"), "is no regular file"),
        (Path(), "names no file"),
        (tmp_path / "..", "names no file"),
    ):
        with pytest.raises(IdaqError, match=message):
            check_output(place, kind)


def test_a_place_of_the_runs_own_is_taken(run: Path) -> None:
    with pytest.raises(IdaqError, match=r"a run keeps .* there"):
        check_output(run / "summary.json", SPEED)
