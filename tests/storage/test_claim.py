"""Claims: one process at a time, the same identity alone, nothing left of what was not begun."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from idaq.errors import IdaqError
from idaq.storage import claim
from idaq.storage.atomic import write_json
from idaq.storage.checked import read_json, read_object
from idaq.storage.claim import claimed, held, read_manifest
from idaq.storage.layout import RUN, OwnNames
from idaq.storage.lock import BusyError, is_locked, locked

IDENTITY = {"family": "walk", "config": {"rate": 0.1, "sizes": [1, 2]}}


def test_a_new_directory_says_what_it_is_of(tmp_path: Path) -> None:
    place = tmp_path / "a" / "run"
    with claimed(place, RUN, IDENTITY, {"device": "cpu"}, resume=False) as manifest:
        assert is_locked(place / ".lock")
        assert manifest == json.loads((place / "run.json").read_text())
    assert not is_locked(place / ".lock")
    assert read_manifest(place) == manifest
    assert manifest["identity"] == IDENTITY


def test_work_goes_on_with_the_first_provenance(tmp_path: Path) -> None:
    with claimed(tmp_path / "run", RUN, IDENTITY, {"device": "cpu"}, resume=False):
        pass
    before = (tmp_path / "run" / "run.json").stat().st_mtime_ns
    with claimed(tmp_path / "run", RUN, IDENTITY, {"device": "gpu"}, resume=True) as manifest:
        assert manifest["provenance"] == {"device": "cpu"}
    assert (tmp_path / "run" / "run.json").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("identity", "resume", "message"),
    [
        (IDENTITY, False, "holds a run already"),
        ({**IDENTITY, "family": "run"}, True, "family: 'walk' there, 'run' here"),
        ({"family": "walk", "config": {"rate": 0.1}}, True, r"config.sizes: \[1, 2\] there, None"),
        ({**IDENTITY, "more": 1}, True, "more: None there, 1 here"),
    ],
)
def test_another_run_is_refused(
    tmp_path: Path, identity: dict[str, Any], resume: bool, message: str
) -> None:
    with claimed(tmp_path / "run", RUN, IDENTITY, {}, resume=False):
        pass
    with (
        pytest.raises(IdaqError, match=message),
        claimed(tmp_path / "run", RUN, identity, {}, resume),
    ):
        pass


def test_what_is_no_run_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with (
        pytest.raises(IdaqError, match="is no run directory"),
        claimed(tmp_path, RUN, {}, {}, True),
    ):
        pass
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with held(tmp_path / "run", RUN), pytest.raises(BusyError), held(tmp_path / "run", RUN):
        pass
    assert list((tmp_path / "run").iterdir()) == [], "no run was begun"
    with locked(tmp_path / "lock"):
        assert is_locked(tmp_path / "lock")
    assert not is_locked(tmp_path / "lock"), "the file alone means nothing"
    assert not is_locked(tmp_path / "absent")


@pytest.mark.parametrize("family", ["walk", "run"])
def test_one_that_was_quicker_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    """It began a run between our look at the directory and our lock."""
    theirs = {"format_version": 1, "identity": {**IDENTITY, "family": family}, "provenance": {}}

    @contextmanager
    def late(directory: Path, own: OwnNames) -> Iterator[None]:
        write_json(directory / "run.json", theirs)
        with held(directory, own):
            yield

    monkeypatch.setattr(claim, "held", late)
    if family == "walk":
        with claimed(tmp_path / "run", RUN, IDENTITY, {"device": "cpu"}, True) as manifest:
            assert manifest == theirs
    else:
        with pytest.raises(IdaqError, match="another configuration"):
            claimed(tmp_path / "run", RUN, IDENTITY, {}, True).__enter__()
    assert json.loads((tmp_path / "run" / "run.json").read_text()) == theirs


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not valid JSON"),
        ("[]", "holds no JSON object"),
        ('{"format_version": 2}', "has format version 2"),
        ('{"format_version": 1, "identity": {}}', "does not say what the run is"),
    ],
)
def test_a_damaged_manifest_is_named(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(IdaqError, match=message) as caught:
        read_manifest(tmp_path)
    assert str(tmp_path / "run.json") in caught.value.problem


def test_objects_are_objects(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[1]")
    assert read_json(tmp_path / "list.json") == [1]
    with pytest.raises(IdaqError, match="holds no JSON object"):
        read_object(tmp_path / "list.json")
