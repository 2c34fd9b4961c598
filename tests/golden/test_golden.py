"""Results change only with a version: see `tests/golden/regenerate.py`."""

from pathlib import Path

import pytest

from tests.golden import regenerate
from tests.golden.cases import CASES, NEEDS, Golden, can_run

STORED = regenerate.load()


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_their_version(name: str) -> None:
    if not can_run(name):
        pytest.skip(f"{NEEDS[name]} is not installed")
    computed = CASES[name]()
    assert name in STORED, "new case: run `python -m tests.golden.regenerate`"
    assert computed.versions == STORED[name]["versions"], (
        "a version was raised: run `python -m tests.golden.regenerate`"
    )
    changed = regenerate.differing(STORED[name]["numbers"], computed.numbers)
    assert not changed, (
        f"{changed} changed: if that is meant, raise one of the versions {computed.versions} "
        "and run `python -m tests.golden.regenerate`"
    )


def test_no_case_is_left_over() -> None:
    assert set(STORED) == set(CASES)


OLD = {"versions": {"focal": 2}, "numbers": {"x": [1.0, 2.0], "y": [float("nan")]}}


@pytest.mark.parametrize(
    ("versions", "numbers", "said"),
    [
        ({"focal": 2}, {"x": [1.0, 2.0], "y": [float("nan")]}, "same"),
        ({"focal": 2}, {"x": [1.0, 2.00001], "y": [float("nan")]}, "same"),
        ({"focal": 2}, {"x": [1.0, 2.01], "y": [float("nan")]}, "changed"),
        ({"focal": 2}, {"x": [1.0], "y": [float("nan")]}, "changed"),
        ({"focal": 2}, {"x": [1.0, 2.0]}, "changed"),
        ({"focal": 3}, {"x": [1.0, 2.01], "y": [float("nan")]}, "raised"),
        ({"focal": 1}, {"x": [1.0, 2.0], "y": [float("nan")]}, "changed"),
    ],
    ids=["equal", "rounding", "value", "length", "name", "raised", "lowered"],
)
def test_regenerating_refuses_without_a_raised_version(
    versions: dict[str, int], numbers: dict[str, list[float]], said: str
) -> None:
    assert regenerate.verdict(OLD, Golden(versions, numbers)) == said


def test_a_new_case_is_written() -> None:
    assert regenerate.verdict(None, Golden({"focal": 1}, {})) == "new"


@pytest.mark.parametrize("raised", [False, True])
def test_main_writes_only_what_is_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, raised: bool
) -> None:
    file = tmp_path / "golden.json"
    monkeypatch.setattr(regenerate, "FILE", file)
    monkeypatch.setattr(regenerate, "CASES", {"case": lambda: Golden({"a": 1}, {"x": [1.0]})})
    assert regenerate.main() == 0
    before = file.read_text(encoding="utf-8")
    version = 2 if raised else 1
    changed = {"case": lambda: Golden({"a": version}, {"x": [3.0]})}
    monkeypatch.setattr(regenerate, "CASES", changed)
    assert regenerate.main() == (0 if raised else 1)
    assert (file.read_text(encoding="utf-8") == before) == (not raised)


def test_what_cannot_run_here_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> Golden:
        raise AssertionError("it needs what is not there")

    monkeypatch.setattr(regenerate, "FILE", tmp_path / "golden.json")
    monkeypatch.setattr(regenerate, "CASES", {"case": lambda: Golden({"a": 1}, {"x": [1.0]})})
    assert regenerate.main() == 0
    before = regenerate.load()
    monkeypatch.setattr(regenerate, "CASES", {"case": fails, "other": fails})
    monkeypatch.setattr(regenerate, "NEEDS", dict.fromkeys(("case", "other"), "nothing"))
    monkeypatch.setattr(regenerate, "can_run", lambda name: False)
    assert regenerate.main() == 0
    assert regenerate.load() == before
