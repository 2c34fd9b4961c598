"""Registries: entries are found and listed, names are unique, and only an entry has its name."""

import ast
import linecache
import sys
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import idaq
from idaq import registry as module
from idaq.adapt.methods import METHODS, check_method_of, make_adapter
from idaq.adapt.uncertainty import UNCERTAINTIES
from idaq.algos.entries import (
    ALGORITHMS,
    OBJECTIVES,
    components_of,
    default_algorithm,
    make_algorithm,
)
from idaq.algos.resolve import resolve
from idaq.config import from_dict, override, to_dict
from idaq.envs import match_families
from idaq.errors import IdaqError
from idaq.learners import bc, td3_bc
from idaq.learners.base import LEARNERS, LearnerEntry
from idaq.registry import PLACES, Derived, Registry, identity_of, registry_of
from idaq.settings import RunConfig
from tests import tiny

SOURCE = Path(idaq.__file__).parent


@dataclass(frozen=True)
class Thing:
    name: str
    make: Any = None
    version: int | None = 1


BUILT_IN = (Thing("one"), Thing("two"))


def double(thing: Any, *_: object, **__: object) -> Thing:
    return Thing(f"double {thing.name}")


SOURCE_THINGS: Registry[Thing] = Registry(
    "half",
    "halves",
    lambda thing: isinstance(thing, Thing),
    built_in=("tests.test_registry:BUILT_IN",),
)
DOUBLED = Derived(SOURCE_THINGS, double, "double ")


@pytest.fixture
def things() -> Registry[Thing]:
    return Registry(
        "thing",
        "things",
        lambda thing: isinstance(thing, Thing),
        built_in=("tests.test_registry:BUILT_IN",),
        derived="tests.test_registry:DOUBLED",
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
    monkeypatch.setattr(
        module, "_entry_points", lambda group: {"idaq.things": points}.get(group, ())
    )
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
    assert things.register(Thing("one")) == BUILT_IN[0], "the very same may come again"
    for taken in (Thing("one", version=2), Thing("double one", make=1)):
        with pytest.raises(IdaqError, match=f"a thing '{taken.name}' already"):
            things.register(taken)
    with pytest.raises(IdaqError, match="is no thing"):
        things.register("three")  # type: ignore[arg-type]


def test_a_cell_may_run_again(things: Registry[Thing]) -> None:
    """What was added in Python may be replaced, and no program of the one before is used."""
    size = jnp.asarray(1.0)

    def make(x: jax.Array) -> jax.Array:
        return x + size

    first, program = things.register(Thing("three", make=make)), jax.jit(make)
    assert things["three"] is first
    assert float(program(0.0)) == 1.0
    size = jnp.asarray(2.0)
    assert float(program(0.0)) == 1.0, "as compiled"
    second = things.register(Thing("three", make=make, version=2))
    assert things["three"] is second
    assert float(program(0.0)) == 2.0


def test_a_name_that_another_registry_makes_is_taken() -> None:
    """An objective makes an algorithm of its name, and an uncertainty a method."""
    with OBJECTIVES.registered(), pytest.raises(IdaqError, match="an algorithm 'macaw' already"):
        OBJECTIVES.register(replace(OBJECTIVES["focal"], name="macaw", label="x"))
    belief = replace(METHODS["belief"], name="idaq-mine")
    with (
        METHODS.registered(belief),
        UNCERTAINTIES.registered(),
        pytest.raises(IdaqError, match="an adaptation method 'idaq-mine' already"),
    ):
        UNCERTAINTIES.register(replace(UNCERTAINTIES["return"], name="mine"))


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
        things.get_entry("four")
    with pytest.warns(UserWarning, match="'four'"):
        assert list(things) == ["double one", "double two", "one", "two", "three"]


def test_one_broken_package_breaks_nothing_else(
    things: Registry[Thing], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = EntryPoint("five", None, [])
    monkeypatch.setattr(broken, "load", lambda: import_module("no_such_module"))
    monkeypatch.setattr(
        module, "_entry_points", lambda group: {"idaq.things": (broken,)}.get(group, ())
    )
    assert things["one"] is BUILT_IN[0]
    with pytest.raises(IdaqError, match=r"'five'.*cannot be loaded.*Repair the package"):
        things.get_entry("five")
    with pytest.warns(UserWarning, match="'five'"):
        assert "five" not in list(things)


@pytest.mark.parametrize("kind", PLACES)
def test_names_are_found_without_loading_others(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What is installed is imported when its name is asked for, so the main job needs no other."""
    found: list[str] = []
    points = (EntryPoint("other", None, found),)
    monkeypatch.setattr(
        module, "_entry_points", lambda group: points if group == registry_of(kind).group else ()
    )
    config = resolve("default", "point-robot")
    assert from_dict(RunConfig, to_dict(config)) == config
    make_adapter("idaq-return", config.adapt, make_algorithm(config.algorithm, tiny.SPEC))
    check_method_of(config.algorithm.kind, "idaq-prediction-error")
    assert [family.name for family in match_families(["point-robot"])] == ["point-robot"]
    assert default_algorithm() == config.algorithm.kind
    assert found == []


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


def test_files_that_a_package_imports_from_itself_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "my_parts"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "entry.py").write_text(
        "import json\nfrom my_parts.loss import loss\n\ndef make():\n    return loss\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def now(loss: str) -> str:
        (package / "loss.py").write_text(f"def loss():\n    return {loss}\n")
        for name in ("my_parts.entry", "my_parts.loss", "my_parts"):
            sys.modules.pop(name, None)
        linecache.clearcache()
        found = identity(import_module("my_parts.entry").make)
        monkeypatch.delitem(sys.modules, "my_parts.entry")
        return found

    assert now("1") == now("1")
    assert now("1") != now("10")


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
