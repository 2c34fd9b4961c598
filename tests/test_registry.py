"""Registries: entries are found and listed, names are unique, and only an entry has its name."""

import ast
import re
from dataclasses import dataclass, replace
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
from idaq.algos.focal import FocalConfig
from idaq.config import from_dict, override, to_dict
from idaq.envs import FAMILIES, match_families
from idaq.errors import IdaqError
from idaq.judges.base import JUDGES
from idaq.learners import bc, td3_bc
from idaq.learners.base import LEARNERS, LearnerEntry
from idaq.registry import PLACES, Derived, Registry, registry_of
from idaq.runs.resolve import resolve
from idaq.settings import RunConfig
from tests import tiny
from tests.fakes import Targets

SOURCE = Path(idaq.__file__).parent


@dataclass(frozen=True)
class Thing:
    name: str
    make: Any = None
    version: int | None = 1


BUILT_IN = (Thing("one"), Thing("two"))


def double(thing: Any, *_: object, **__: object) -> Thing:
    return Thing(f"double-{thing.name}")


SOURCE_THINGS: Registry[Thing] = Registry(
    "half",
    "halves",
    lambda thing: isinstance(thing, Thing),
    built_in=("tests.test_registry:BUILT_IN",),
)
DOUBLED = Derived(SOURCE_THINGS, double, "double-")


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
    assert list(things) == ["double-one", "double-two", "one", "two"]
    assert things["double-two"] == Thing("double-two")
    assert "three" not in things
    assert things.get("three") is None
    assert [things.is_built_in(name) for name in ("one", "double-one")] == [True, False]


def test_a_near_miss_gets_a_suggestion(things: Registry[Thing]) -> None:
    with pytest.raises(IdaqError, match=r"no thing 'tow'\. Did you mean 'two'"):
        things.get_entry("tow")
    with pytest.raises(IdaqError, match="Known: double-one, double-two, one, two"):
        things.get_entry("zzz")


def test_a_name_is_taken_once(things: Registry[Thing]) -> None:
    assert things.register(Thing("one")) == BUILT_IN[0], "the very same may come again"
    for taken in (Thing("one", version=2), Thing("double-one", make=1)):
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
        OBJECTIVES.register(replace(OBJECTIVES["focal"], name="macaw", config=MacawsFocal))
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
        assert list(things) == ["double-one", "double-two", "one", "two", "three"]


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
    mine = LearnerEntry(**{**vars(td3_bc.ENTRY), "name": "mine", "version": None, "config": Mine})
    with LEARNERS.registered():
        assert idaq.register(mine) is mine
        assert LEARNERS["mine"] is mine
    assert "mine" not in LEARNERS
    with pytest.raises(IdaqError, match="nothing that can be registered"):
        idaq.register(42)


# --- What cannot be used --------------------------------------------------------------------


@pytest.mark.parametrize("kind", PLACES)
def test_every_entry_that_comes_with_the_package_may_be_registered(kind: str) -> None:
    registry = registry_of(kind)
    for name in registry:
        if registry.is_built_in(name):
            with registry.registered():
                assert registry.register(registry[name]) is registry[name]


@pytest.mark.parametrize("name", ["a b/c", "a/b", "", 3, None, [], "-a", "..", "é", "a\n"])
def test_a_name_is_plain(things: Registry[Thing], name: Any) -> None:
    with pytest.raises(IdaqError, match=r"cannot be the name of a thing\. A name is made of"):
        things.register(Thing(name))


def test_a_version_is_a_whole_number(things: Registry[Thing]) -> None:
    for version in ("1.0", "2", 1.0, True):
        with pytest.raises(IdaqError, match=f"thing 'x' has the version {version!r}"):
            things.register(Thing("x", version=version))  # type: ignore[arg-type]


CONFIGURED: dict[str, Any] = {
    "learner": lambda: LEARNERS["bc"],
    "judge": lambda: JUDGES["ensemble"],
    "objective": lambda: OBJECTIVES["focal"],
    "algorithm": lambda: ALGORITHMS["macaw"],
}


@pytest.mark.parametrize("kind", CONFIGURED)
def test_an_entry_and_its_configuration_have_one_name(kind: str) -> None:
    entry = CONFIGURED[kind]()
    message = rf"The {kind} 'mism' has a configuration of kind '{entry.name}'\. Both must have"
    with registry_of(kind).registered(), pytest.raises(IdaqError, match=message):
        idaq.register(replace(entry, name="mism"))


@dataclass(frozen=True)
class Unrelated:
    kind: str = "mism"


@pytest.mark.parametrize("kind", CONFIGURED)
@pytest.mark.parametrize("config", [dict, Unrelated, len])
def test_a_configuration_is_a_dataclass_of_its_sort(kind: str, config: Any) -> None:
    entry = replace(CONFIGURED[kind](), name="mism", config=config)
    with registry_of(kind).registered(), pytest.raises(IdaqError, match=r"derived from `.*Config`"):
        idaq.register(entry)


@pytest.mark.parametrize(
    ("kind", "name", "changes", "message"),
    [
        ("uncertainty", "return", {"quantify": None}, "has None as its `quantify`"),
        ("adaptation method", "posterior", {"make": None}, "has None as its `make`"),
        ("learner", "bc", {"config": None}, "has None as its `config`"),
        ("judge", "ensemble", {"name": "ensemble", "read": 3}, "has 3 as its `read`"),
        ("search", "prior", {"first": None}, "has neither `first` nor `next`"),
        ("search", "prior", {"first": 3}, "has 3 as its `first`"),
        ("search", "prior", {"needs": {"embedding"}}, "cannot be hashed"),
    ],
)
def test_what_an_entry_needs_is_there(
    kind: str, name: str, changes: dict[str, Any], message: str
) -> None:
    registry = registry_of(kind)
    changes = {"name": "x"} | changes
    with registry.registered(), pytest.raises(IdaqError, match=f"The {kind} '.*' {message}"):
        idaq.register(replace(registry[name], **changes))


def test_a_class_is_no_entry() -> None:
    for thing in (Targets, Thing):
        with pytest.raises(IdaqError, match=rf"Register an instance, `{thing.__name__}\(\)`"):
            idaq.register(thing)
    with pytest.raises(IdaqError, match=r"Register an instance, `Targets\(\)`"):
        FAMILIES.register(Targets)  # type: ignore[arg-type]


# --- Identity -------------------------------------------------------------------------------


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


@dataclass(frozen=True, kw_only=True)
class MacawsFocal(FocalConfig):
    kind: Any = "macaw"


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
    """Not even as a part of a string, nor in the page; modules' names and docstrings may."""
    assert name in ALGORITHMS
    allowed = (*ALLOWED[name], *EVERYWHERE)
    word = re.compile(rf"(?<![\w.]){name}(?![\w.])")
    files = [file for file in SOURCE.rglob("*") if file.suffix in (".py", ".js", ".css", ".html")]
    assert {file.suffix for file in files} == {".py", ".js", ".css", ".html"}
    for file in sorted(files):
        place, text = file.relative_to(SOURCE).as_posix(), file.read_text(encoding="utf-8")
        if not place.startswith(allowed):
            strings = _strings(text) if file.suffix == ".py" else [text]
            assert [each for each in strings if word.search(each)] == [], place


def _strings(source: str) -> list[str]:
    """The strings of a module, also those inside f-strings, without its docstrings."""
    tree = ast.parse(source)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
    ]
