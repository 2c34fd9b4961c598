"""Identities: what trains or judges cannot change without its identity changing."""

import linecache
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from idaq.errors import IdaqError
from idaq.learners import bc, td3_bc
from idaq.runs.identity import identity_of
from tests import tiny


@dataclass(frozen=True)
class Thing:
    """An entry."""

    name: str
    make: Any = None
    version: int | None = None


def double(thing: Any, *_: object, **__: object) -> Thing:
    return Thing(f"double {thing.name}")


def identity(make: Any) -> str:
    return str(identity_of(Thing("x", make=make)))


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


def test_parts_of_parts_count() -> None:
    """A critic of two functions, or any other object or container, is looked into."""
    for inside in ((bc.update,), {"update": bc.update}, Thing("inner", bc.update)):
        outside: Any = type(inside)
        other: Any = {dict: {"update": bc.init}, tuple: (bc.init,)}.get(outside)
        assert identity(inside) != identity(other or Thing("inner", bc.init))


# --- Beside a script ------------------------------------------------------------------------------


@pytest.fixture
def forgotten() -> Iterator[tuple[str, ...]]:
    """Modules that are imported anew."""
    names = ("my_script", "my_losses")
    yield names
    for name in names:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("installed", [False, True])
def test_files_beside_a_script_count(
    installed: bool,
    forgotten: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """But not if all that is beside it are other people's packages."""
    place = tmp_path / "site-packages" if installed else tmp_path
    place.mkdir(exist_ok=True)
    monkeypatch.syspath_prepend(place)
    (place / "my_script.py").write_text(
        "import my_losses\n\ndef make():\n    return my_losses.loss()\n"
    )
    found = []
    for value in ("1", "1", "10"):
        (place / "my_losses.py").write_text(f"def loss():\n    return {value}\n")
        for name in forgotten:
            sys.modules.pop(name, None)
        linecache.clearcache()
        found.append(identity(import_module("my_script").make))
    assert found[0] == found[1]
    assert (found[0] == found[2]) is installed


# --- In a notebook --------------------------------------------------------------------------------

CELLS = """
import functools
import jax

RATE = {rate}

class Base:
    def step(self):
        return {base}

class Agent(Base):
    limit = {limit}

    def __call__(self):
        return self.step()

def error(x):
    return {error} * x

@jax.jit
def jitted(x):
    return {jitted} * x

scaled = functools.partial(jitted)

def unused():
    return {unused}

def make(x):
    def inner():
        return error(x)
    return RATE * inner() + scaled(x) + Agent()()
"""
PLAIN = {"rate": 1, "base": 2, "limit": 3, "error": 4, "jitted": 5, "unused": 6}


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Runs cells, as IPython does: their lines are known, their module has no file."""
    module = ModuleType("my_notebook")
    monkeypatch.setitem(sys.modules, "my_notebook", module)
    count = iter(range(1000))

    def run(**changes: int) -> Any:
        text, name = CELLS.format(**PLAIN | changes), f"<ipython-input-{next(count)}>"
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        exec(compile(text, name, "exec"), vars(module))
        return module

    yield run
    linecache.clearcache()


def test_cells_that_a_part_uses_count(notebook: Any) -> None:
    plain = identity(notebook().make)
    assert identity(notebook().make) == plain
    for name in PLAIN:
        assert (identity(notebook(**{name: 7}).make) == plain) is (name == "unused"), name


def test_a_class_of_a_notebook(notebook: Any) -> None:
    plain = identity(notebook().Agent)
    changed = {name: identity(notebook(**{name: 7}).Agent) != plain for name in PLAIN}
    assert changed == {name: name in ("base", "limit") for name in PLAIN}


def test_what_was_never_written_down_needs_a_version() -> None:
    space: dict[str, Any] = {"__name__": "nowhere"}
    exec("def make(): pass", space)
    with pytest.raises(IdaqError, match="has no identity"):
        identity(space["make"])
    assert identity_of(Thing("x", space["make"], version=3)) == 3
