"""`run.json`, typed: what a run is (its identity), and what made it (its provenance)."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from idaq.config import Json, with_moved
from idaq.errors import IdaqError
from idaq.settings import RunConfig
from idaq.storage.checked import REMEDY
from idaq.storage.claim import read_manifest as read_claim
from idaq.storage.layout import MANIFEST_FILE


@dataclass(frozen=True, kw_only=True)
class Identity:
    """Everything that decides a run's numbers, besides its seeds."""

    family: str
    family_version: int
    algo: str
    algo_version: int
    preset: str
    split: str  # of the tasks: test, or validation
    data: Json  # how its own data is collected, or the sha256 of the data it was given
    config: Json  # as it is saved; `Run.config` parses it
    components: Json = field(default_factory=dict)  # identities of those from outside the package

    def to_json(self) -> Json:
        """As in `run.json`, which lists components only if there are any."""
        content = asdict(self)
        return (
            content if self.components else {k: v for k, v in content.items() if k != "components"}
        )


@dataclass(frozen=True, kw_only=True)
class GitState:
    """The commit of the source, and whether it was changed since; None if that is unknown."""

    commit: str
    modified: bool | None


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What made a run. It decides nothing, and older runs may lack any of it."""

    versions: dict[str, str]
    git: GitState | None
    device: str | None
    dataset: Path | None  # the one that was given; None if the run collected its own


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a run directory says about itself."""

    identity: Identity
    provenance: Provenance


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a run directory, or an error if it is not one."""
    return parse_manifest(read_checked(directory), directory)


def read_checked(directory: Path) -> Json:
    """The JSON of `run.json`, checked, and in today's form."""
    manifest = read_claim(directory)
    identity = manifest["identity"]
    for key, kind in Identity.__annotations__.items():
        value = identity.get(key, {} if key == "components" else None)
        if not isinstance(value, dict if kind is Json else kind):
            raise IdaqError(f"'{directory / MANIFEST_FILE}' has no usable '{key}'.", REMEDY)
    algorithm = identity["config"].get("algorithm")
    if isinstance(algorithm, dict):  # older runs name it only as `algo`
        algorithm.setdefault("kind", identity["algo"])
    identity["config"] = with_moved(identity["config"], RunConfig.MOVED)
    return manifest


def parse_manifest(manifest: Json, directory: Path) -> Manifest:
    """A checked manifest, typed."""
    given_identity = manifest["identity"]
    identity = {
        key: given_identity[key] for key in Identity.__annotations__ if key in given_identity
    }
    provenance = manifest["provenance"]

    def given(key: str, kind: type) -> Any:
        value = provenance.get(key)
        if value is not None and not isinstance(value, kind):
            raise IdaqError(f"'{directory / MANIFEST_FILE}' has no usable '{key}'.", REMEDY)
        return value

    git, dataset = given("git", dict), given("dataset", str)
    return Manifest(
        identity=Identity(**identity),
        provenance=Provenance(
            versions=given("versions", dict) or {},
            git=GitState(commit=str(git.get("commit")), modified=git.get("modified"))
            if git
            else None,
            device=given("device", str),
            dataset=Path(dataset) if dataset else None,
        ),
    )
