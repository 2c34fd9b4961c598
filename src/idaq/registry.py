"""Registries: everything that has a name is an entry of one and describes itself.

There is a registry for each kind of thing that can be added: task families, algorithms, the
objectives and learners that algorithms are made of, judges and uncertainties, searches, and
adaptation methods. An entry is found by its name, wherever it comes from:

- built in: listed by the registry itself, and imported when it is first asked for;
- installed: an entry point in the group `idaq.KINDS`, imported when its name is asked for or all
  names are listed, never when idaq is imported;
- registered in Python, with `idaq.register(entry)`.

A name is written in its entry and nowhere else.
"""

import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from idaq.errors import IdaqError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class Entry(Protocol):
    """What every entry has; most are frozen dataclasses."""

    @property
    def name(self) -> str: ...


E = TypeVar("E", bound=Entry)
S = TypeVar("S", bound=Entry)
T = TypeVar("T")

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")

PLACES = {  # where each kind's registry is, in the order in which they are offered an entry
    "learner": "idaq.learners.base:LEARNERS",
    "objective": "idaq.algos.entries:OBJECTIVES",
    "algorithm": "idaq.algos.entries:ALGORITHMS",
    "judge": "idaq.judges.base:JUDGES",
    "uncertainty": "idaq.adapt.uncertainty:UNCERTAINTIES",
    "search": "idaq.adapt.search:SEARCHES",
    "adaptation method": "idaq.adapt.methods:METHODS",
    "task family": "idaq.envs:FAMILIES",
}


def check_name(kind: str, name: object, pattern: re.Pattern[str] = NAME) -> None:
    """Refuse what cannot be a name: names are typed in commands, and become names of files."""
    if not isinstance(name, str) or not pattern.fullmatch(name):
        may = "letters, digits, '-', '_' and '.'"
        parts = "" if pattern is NAME else ", in parts that '/' separates"
        raise IdaqError(
            f"{name!r} cannot be the name of {_article(kind)}.",
            f"A name is made of {may}{parts}, and begins with a letter or digit.",
        )


def check_version(kind: str, name: str, version: object) -> None:
    """Refuse what cannot be read back from `run.json` as a version."""
    if type(version) is not int:
        raise IdaqError(
            f"The {kind} '{name}' has the version {version!r}.",
            "Give a whole number, and raise it whenever results change.",
        )


def check_hash(kind: str, name: str, *parts: object) -> None:
    """Refuse what cannot be part of a compiled program."""
    try:
        hash(parts)
    except TypeError as error:
        raise IdaqError(
            f"The {kind} '{name}' cannot be hashed ({error}).",
            "Make it a frozen dataclass, and of values that can be hashed, such as tuples.",
        ) from error


def check_entry(kind: str, entry: Any) -> None:
    """Refuse an entry that could not be used: one without the functions that it needs, say."""
    check_name(kind, entry.name)
    if entry.version is not None:
        check_version(kind, entry.name, entry.version)
    for field in fields(entry):
        value, is_needed = getattr(entry, field.name), field.default is MISSING
        if is_needed and field.name not in ("name", "label") and not callable(value):
            raise IdaqError(
                f"The {kind} '{entry.name}' has {value!r} as its `{field.name}`.",
                f"{type(entry).__name__} says what `{field.name}` must be.",
            )
    check_hash(kind, entry.name, entry)


class Registry(Mapping[str, E], Generic[E]):
    """Entries of one kind by name; a mapping, read-only except for `register`."""

    def __init__(
        self,
        kind: str,
        plural: str,
        accepts: Callable[[object], bool],
        *,
        check: Callable[[str, Any], None] = check_entry,
        built_in: Iterable[str] = (),
        derived: str = "",
        feeds: str = "",
        listed_by: str = "",
    ) -> None:
        """`built_in` holds places, "package.module:attribute", of one entry or several.

        `accepts` tells an entry from other things, and `check` refuses one that cannot be used.
        `derived` is the place of further entries, which are made from the entries of another
        registry (`Derived`); that registry names this kind in `feeds`. `listed_by` says where a
        user finds the names, if there are too many to list.
        """
        self.kind, self.group = kind, f"idaq.{plural}"
        self.accepts, self._check = accepts, check
        self._places, self._derived = tuple(built_in), derived
        self._feeds, self._listed_by = feeds, listed_by
        self._built_in: dict[str, E] | None = None
        self.added: dict[str, E] = {}

    # --- Looking up ---

    def __getitem__(self, name: str) -> E:
        """The entry of that name; a `KeyError` where there is none (`get_entry` says more)."""
        for entries in (self.added, self._shipped(), self.derived()):
            if name in entries:
                return entries[name]
        for each in self._installed():
            if each.name == name:
                return self._load(each)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        """All names; what an installed package declares and cannot be loaded is left out."""
        for each in self._installed():
            try:
                self._load(each)
            except IdaqError as error:
                warnings.warn(str(error), stacklevel=2)
        return iter(dict.fromkeys([*self.derived(), *self._shipped(), *self.added]))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def get_entry(self, name: str) -> E:
        """The entry of that name, or an error that says which names there are."""
        try:
            return self[name]
        except KeyError:
            raise IdaqError(f"There is no {self.kind} '{name}'.", self._remedy(name)) from None

    def is_built_in(self, name: str) -> bool:
        """Whether an entry comes with the package, and is covered by the package's versions."""
        return name in self._shipped()

    def built_in_names(self) -> tuple[str, ...]:
        """The names of the entries that come with the package; no installed one is loaded."""
        derived = self.derived()
        names = derived.built_in_names() if isinstance(derived, Derived) else ()
        return (*names, *self._shipped())

    def _remedy(self, name: str) -> str:
        names = list(self)
        close = get_close_matches(name, names, n=3 if self._listed_by else 1)
        hint = f"Did you mean {' or '.join(repr(each) for each in close)}? " if close else ""
        return hint + (self._listed_by or f"Known: {', '.join(names)}.")

    # --- Adding ---

    def register(self, entry: E) -> E:
        """Add an entry and return it. It may take the place of one that was added before.

        So a notebook's cell can be run again. Programs that were compiled with the entry's
        predecessor are forgotten, also where only something that it calls has changed.
        """
        if not self.accepts(entry):
            raise _foreign(entry, f"no {self.kind}", "See docs/architecture.md.")
        self._check(self.kind, entry)
        for entries in (self._shipped(), self.derived()):
            if entry.name in entries and entries[entry.name] != entry:
                raise _taken(self.kind, entry.name)
        if self._feeds:
            fed = registry_of(self._feeds)
            name = fed.derived().name_of(entry.name)
            if name in fed._shipped() or name in fed.added:
                raise _taken(fed.kind, name)
        if entry.name in self.added and (jax := sys.modules.get("jax")) is not None:
            jax.clear_caches()
        self.added[entry.name] = entry
        return entry

    @contextmanager
    def registered(self, *entries: E) -> Iterator[None]:
        """Add entries for the duration of a block; they may replace others of the same names."""
        before = dict(self.added)
        self.added |= {entry.name: entry for entry in entries}
        try:
            yield
        finally:
            self.added = before

    # --- Where entries come from ---

    def _shipped(self) -> dict[str, E]:
        if self._built_in is None:
            found = [each for place in self._places for each in _entries_at(place)]
            self._built_in = {entry.name: entry for entry in found}
        return self._built_in

    def derived(self) -> Any:
        """The entries that are made from another registry's: a `Derived`, or nothing."""
        return _at(self._derived) if self._derived else {}

    def _installed(self) -> "list[EntryPoint]":
        return [each for each in _entry_points(self.group) if each.name not in self.added]

    def _load(self, place: "EntryPoint") -> E:
        try:
            entry = place.load()
        except Exception as error:  # whatever another's module raises while it is imported
            raise IdaqError(
                f"The entry point '{place.name}' ({place.value}) in the group '{self.group}' "
                f"cannot be loaded ({error!r}).",
                "Repair the package that declares it, or uninstall it.",
            ) from error
        if not self.accepts(entry) or getattr(entry, "name", None) != place.name:
            raise IdaqError(
                f"The entry point '{place.name}' ({place.value}) is no {self.kind} of that name.",
                f"Correct the package that declares it in the group '{self.group}'.",
            )
        return self.register(entry)


class Derived(Mapping[str, E], Generic[E, S]):
    """Entries that are made from those of another registry, by name."""

    def __init__(self, source: Registry[S], make: Callable[[S], E], prefix: str = "") -> None:
        self._source, self._make, self._prefix = source, make, prefix

    def name_of(self, source_name: str) -> str:
        """The name of the entry that is made from the source entry of that name."""
        return self._prefix + source_name

    def built_in_names(self) -> tuple[str, ...]:
        return tuple(map(self.name_of, self._source.built_in_names()))

    def __getitem__(self, name: str) -> E:
        if not name.startswith(self._prefix):
            raise KeyError(name)
        return self._make(self._source[name.removeprefix(self._prefix)])

    def __iter__(self) -> Iterator[str]:
        return map(self.name_of, self._source)

    def __len__(self) -> int:
        return len(self._source)


def registry_of(kind: str) -> Registry[Any]:
    """The registry of a kind, for code that knows only the kind's name."""
    registry: Registry[Any] = _at(PLACES[kind])
    return registry


def register(entry: T) -> T:
    """Add an entry to the registry of its kind, and return it."""
    for kind in PLACES:
        registry = registry_of(kind)
        if registry.accepts(entry):
            known: T = registry.register(entry)
            return known
    raise _foreign(
        entry,
        "nothing that can be registered",
        "Register a task family, or an entry of one of the kinds in docs/architecture.md.",
    )


@cache
def _entry_points(group: str) -> "tuple[EntryPoint, ...]":
    from importlib.metadata import entry_points  # slow to import, and most commands load none

    return tuple(entry_points(group=group))


def _foreign(thing: object, what: str, remedy: str) -> IdaqError:
    if isinstance(thing, type):
        return IdaqError(
            f"{thing.__name__} is a class.", f"Register an instance, `{thing.__name__}()`."
        )
    return IdaqError(f"{thing!r} is {what}.", remedy)


def _taken(kind: str, name: str) -> IdaqError:
    return IdaqError(
        f"There is {_article(kind)} '{name}' already.",
        "Give yours a name of its own: results are told apart by it.",
    )


def _entries_at(place: str) -> list[Any]:
    found = _at(place)
    return list(found) if isinstance(found, list | tuple) else [found]


def _at(place: str) -> Any:
    """What stands at "package.module:attribute"."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
