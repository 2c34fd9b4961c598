"""What made a result: versions of libraries, the state of the source, the device.

Provenance is written beside results for people to read. It decides nothing.
"""

import hashlib
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

from idaq.config import Json
from idaq.engine.device import find_device

_PACKAGE = Path(__file__).resolve().parents[1]
_LIBRARIES = ("idaq", "jax", "jaxlib", "numpy", "mujoco", "metaworld")


def find_provenance() -> Json:
    """Versions, source and device of this process."""
    device = find_device()
    return {
        "versions": library_versions(),
        "git": git_state(),
        "device": f"{device.platform}: {device.device_kind}",
    }


def library_versions() -> dict[str, str]:
    """What the numbers depend on."""
    versions = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions


@cache
def source_hash() -> str:
    """A hash of idaq's own source: equal code, equal hash."""
    digest = hashlib.sha256()
    for file in sorted(_PACKAGE.rglob("*.py")):
        digest.update(f"{file.relative_to(_PACKAGE).as_posix()}\n".encode() + file.read_bytes())
    return digest.hexdigest()


def git_state(source: Path = _PACKAGE) -> Json | None:
    """The commit of the source that runs, where it is a checkout or comes from `git archive`."""
    archived = (source / "engine" / "archived_commit.txt").read_text(encoding="ascii").strip()
    if not archived.startswith("$"):
        return {"commit": archived, "modified": None}  # whether it was modified since is unknown
    try:
        commit = _git(source, "rev-parse", "HEAD")
        changed = _git(source, "status", "--porcelain", "--untracked-files=no", ".")
    except (OSError, subprocess.CalledProcessError):
        return None
    return {"commit": commit, "modified": bool(changed)}


def _git(directory: Path, *arguments: str) -> str:
    command = ["git", "-C", str(directory), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
