"""Registries: entries are found and listed, names are unique, and only an entry has its name."""

import ast
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import idaq
from idaq import registry as module
from idaq.algos.entries import ALGORITHMS, components_of
from idaq.algos.resolve import resolve
from idaq.config import override, to_dict
from idaq.errors import IdaqError
from idaq.learners import bc, td3_bc
from idaq.learners.base import LEARNERS, LearnerEntry
from idaq.registry import PLACES, Registry, identity_of, registry_of
from tests import tiny

SOURCE = Path(idaq.__file__).parent


@dataclass(frozen=True)
class Thing:
    name: str
    make: Any = None
    version: int | None = 1


BUILT_IN = (Thing("one"), Thing("two"))


def double(*_: object, **__: object) -> list[Thing]:
    return [Thing(f"double {name}") for name in ("one", "two")]


@pytest.fixture
def things() -> Registry[Thing]:
    return Registry(
        "thing",
        "things",
        lambda thing: isinstance(thing, Thing),
        built_in=("tests.test_registry:BUILT_IN",),
        derived="tests.test_registry:double",
    )


class EntryPoint:
    """An entry point like those of `importlib.metadata`."""

    def __init__(self, name: str, value: Any, loaded: list[str]) -> None:
        self.name, self.value, self._thing, self._loaded = name, f"package:{name}", value, loaded

    def load(self) -> Any:
        self._loaded.append(self.name)
        return self._thing


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The entry points that were loaded; `three` is a thing, `four` is not."""
    found: list[str] = []
    points = (EntryPoint("three", Thing("three"), found), EntryPoint("four", "no thing", found))
    monkeypatch.setattr(module, "_entry_points", {"idaq.things": points}.__getitem__)
    return found


def test_entries_are_found_by_name(things: Registry[Thing]) -> None:
    assert things["one"] is BUILT_IN[0]
    assert list(things) == ["double one", "double two", "one", "two"]
    assert things["double two"] == Thing("double two")
    assert "three" not in things
    assert things.get("three") is None
    assert [things.is_built_in(name) for name in ("one", "double one")] == [True, False]


def test_a_near_miss_gets_a_suggestion(things: Registry[Thing]) -> None:
    with pytest.raises(IdaqError, match=r"no thing 'tow'\. Did you mean 'two'"):
        things.get_entry("tow")
    with pytest.raises(IdaqError, match="Known: double one, double two, one, two"):
        things.get_entry("zzz")


def test_a_name_is_taken_once(things: Registry[Thing]) -> None:
    three = things.register(Thing("three"))
    assert things["three"] is three
    assert things.register(Thing("three")) == three, "the very same may come again"
    for taken in (Thing("three", version=2), Thing("one", version=2), Thing("double one", make=1)):
        with pytest.raises(IdaqError, match=f"a thing '{taken.name}' already"):
            things.register(taken)
    with pytest.raises(IdaqError, match="is no thing"):
        things.register("three")  # type: ignore[arg-type]


def test_for_a_while(things: Registry[Thing]) -> None:
    with things.registered(Thing("one", version=9), Thing("five")):
        assert (things["one"].version, "five" in things) == (9, True)
    assert (things["one"].version, "five" in things) == (1, False)


def test_installed_ones_are_loaded_when_they_are_asked_for(
    things: Registry[Thing], loaded: list[str]
) -> None:
    assert things["one"]
    assert loaded == []
    assert things["three"] == Thing("three")
    assert loaded == ["three"]
    with pytest.raises(IdaqError, match=r"'four' \(package:four\) is no thing"):
        list(things)


@pytest.mark.parametrize("kind", PLACES)
def test_every_registry_describes_its_entries(kind: str) -> None:
    """Each entry has its own name and, except for task families, a label."""
    registry = registry_of(kind)
    assert len(registry) >= 1
    for name, entry in registry.items():
        assert entry.name == name
        assert registry.accepts(entry)
        if kind != "task family":
            assert entry.label
    names = [name for name in registry if registry.is_built_in(name)]
    assert names or kind == "algorithm"


def test_register_finds_the_kind() -> None:
    mine = LearnerEntry(**{**vars(bc.ENTRY), "name": "mine", "label": "MINE", "version": None})
    with LEARNERS.registered():
        assert idaq.register(mine) is mine
        assert LEARNERS["mine"] is mine
    assert "mine" not in LEARNERS
    with pytest.raises(IdaqError, match="nothing that can be registered"):
        idaq.register(42)


# --- Identity -------------------------------------------------------------------------------


def identity(make: Any) -> str:
    return str(identity_of(Thing("x", make=make, version=None)))


def test_identity_is_the_version_or_else_the_source() -> None:
    assert identity_of(bc.ENTRY) == bc.ENTRY.version
    assert identity(double).startswith("source ")
    assert identity(double) == identity(Thing), "of one file"
    assert identity(double) != identity(tiny.reward_of), "of another file"


def test_bound_arguments_are_part_of_the_source() -> None:
    assert identity(partial(double)) == identity(double)
    assert identity(partial(double, 1)) != identity(partial(double, 2))
    assert identity(partial(double, first=1)) != identity(partial(double, second=1))
    assert identity(partial(double, Thing)) != identity(partial(double, tiny.reward_of))


def test_what_is_idaqs_own_counts_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a comment in idaq does not make a user's run another one."""
    before = identity(bc.update)
    assert len({before, identity(bc.init), identity(td3_bc.update)}) == 3
    monkeypatch.setattr("inspect.getsource", lambda part: "changed")
    assert identity(bc.update) == before


def test_a_component_from_outside_is_part_of_the_identity() -> None:
    config = resolve("default", "point-robot")
    assert components_of(config.algorithm) == {}
    mine = LearnerEntry(**{**vars(td3_bc.ENTRY), "name": "mine", "version": None, "config": Mine})
    with LEARNERS.registered(mine):
        changed = override(config, "algorithm.learner.kind=mine")
        assert components_of(changed.algorithm) == {"learner mine": mine}
        kept = to_dict(changed)["algorithm"]["learner"]
        assert (kept["kind"], kept["discount"]) == ("mine", 0.9), "what both have is kept"


@dataclass(frozen=True, kw_only=True)
class Mine(td3_bc.Td3BcConfig):
    kind: Any = "mine"


def test_another_loss_is_another_program() -> None:
    """Algorithms are compared by value, so one with another loss is compiled again."""
    plain = tiny.ALGORITHMS["bc"]
    other = LearnerEntry(**{**vars(bc.ENTRY), "act": td3_bc.act})
    with LEARNERS.registered(other):
        assert tiny.context_based(plain.config) != plain
    assert tiny.context_based(plain.config) == plain


# --- Names ----------------------------------------------------------------------------------

ALLOWED = {  # an algorithm's own files, the benchmark's experiments, the paper's tables
    "focal": ("algos/focal.py",),
    "op-cl": ("algos/op_cl.py",),
    "macaw": ("algos/macaw/",),
    "borel": ("algos/borel/",),
}
EVERYWHERE = ("bench/experiments.py",)


@pytest.mark.parametrize("name", ALLOWED)
def test_nobody_else_spells_an_algorithms_name(name: str) -> None:
    assert name in ALGORITHMS
    allowed = (*ALLOWED[name], *EVERYWHERE)
    for file in sorted(SOURCE.rglob("*.py")):
        place = file.relative_to(SOURCE).as_posix()
        if place.startswith(allowed):
            continue
        strings = {
            node.value
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        assert name not in strings, place
