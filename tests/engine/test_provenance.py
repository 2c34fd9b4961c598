"""What a run directory says about the source that made it."""

import shutil
import subprocess
import tarfile
from pathlib import Path

from idaq.engine.provenance import git_state

REPOSITORY = Path(__file__).resolve().parents[2]
MARK = "src/idaq/engine/archived_commit.txt"
NOBODY = ["-c", "user.name=nobody", "-c", "user.email=nobody@example.com"]


def _git(directory: Path, *arguments: str) -> str:
    command = ["git", "-C", str(directory), *NOBODY, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_a_checkout_and_an_archive_of_it_name_the_same_commit(tmp_path: Path) -> None:
    checkout, archive = tmp_path / "checkout", tmp_path / "archive"
    (checkout / MARK).parent.mkdir(parents=True)
    for name in (".gitattributes", MARK):
        shutil.copy(REPOSITORY / name, checkout / name)
    _git(checkout, "init", "--quiet")
    _git(checkout, "add", ".")
    _git(checkout, "commit", "--quiet", "--message", "first")
    commit = _git(checkout, "rev-parse", "HEAD")
    _git(checkout, "archive", "--output", str(tmp_path / "archive.tar"), "HEAD")
    with tarfile.open(tmp_path / "archive.tar") as tar:
        tar.extractall(archive, filter="data")

    assert git_state(checkout / "src/idaq") == {"commit": commit, "modified": False}
    assert git_state(archive / "src/idaq") == {"commit": commit, "modified": None}
    (checkout / MARK).write_text("$Format:%H$\n\n")
    assert git_state(checkout / "src/idaq") == {"commit": commit, "modified": True}


def test_source_of_no_repository_names_no_commit(tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    shutil.copy(REPOSITORY / MARK, tmp_path / "engine")
    assert git_state(tmp_path) is None
