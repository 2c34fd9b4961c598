"""What tells a component from others of the same name: its version or, without one, its source.

`run.json` and the results of adaptation hold these identities, so that no change to what trains or
judges goes unnoticed.
"""

import dataclasses
import hashlib
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from idaq.errors import IdaqError

INSTALLED = {"site-packages", "dist-packages"}  # directories of packages that are not the user's
PLAIN = (bool, int, float, str, bytes, tuple, frozenset, type(None))  # constants of a notebook


def identity_of(entry: Any) -> int | str:
    """The version of an entry, or else a hash of its source.

    The source is the whole file that defines it, and what that file imports from its own package
    and from its own directory. In a notebook, which has no file, it is the source of the entry's
    functions and classes, and of what they use there. Parts that are idaq's own count by name:
    idaq's versions say whether they have changed.
    """
    if entry.version is not None:
        return int(entry.version)
    sources = {source for part in _parts(vars(entry)) for source in _sources(part)}
    return "source " + hashlib.sha256("\n".join(sorted(sources)).encode()).hexdigest()[:16]


def identities(components: Mapping[str, Any]) -> dict[str, int | str]:
    """What tells each component from others of the same name."""
    return {name: identity_of(entry) for name, entry in sorted(components.items())}


def _parts(value: Any) -> Iterator[Any]:
    """The classes and functions that a value holds."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield type(value)
        yield from _parts({field.name: getattr(value, field.name) for field in _fields(value)})
    elif callable(value):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _parts(each)
    elif isinstance(value, tuple | list | set | frozenset):
        for each in value:
            yield from _parts(each)


def _fields(value: Any) -> tuple["dataclasses.Field[Any]", ...]:
    return dataclasses.fields(value)


def _sources(part: Any) -> Iterator[str]:
    """What identifies a class or function: its files, and the arguments that are bound to it."""
    if isinstance(part, partial):
        yield from _sources(part.func)
        for name, value in (*enumerate(part.args), *part.keywords.items()):
            yield f"{name}={getattr(value, '__qualname__', repr(value))}"
            for each in _parts(value):
                yield from _sources(each)
        return
    module = inspect.getmodule(part)
    if module is not None and _package(module) == "idaq":
        yield f"{module.__name__}:{getattr(part, '__qualname__', part)}"
    elif module is not None and (text := _text(module)):
        yield text
        yield from map(_text, _own_modules(module) - {module})
    else:
        yield from _cells(part)


# --- With a file ----------------------------------------------------------------------------------


def _text(module: ModuleType) -> str:
    """A module's source; nothing where there is none, as of an empty file or a notebook."""
    try:
        return inspect.getsource(module)
    except (OSError, TypeError):
        return ""


def _own_modules(module: ModuleType) -> set[ModuleType]:
    """A module, and what it imports from its own package or directory, directly or not."""
    found, todo = {module}, [module]
    while todo:
        values = vars(todo.pop()).values()
        imported = (v if isinstance(v, ModuleType) else _home(v) for v in values)
        own = {each for each in imported if each and _is_beside(each, module)}
        todo += own - found
        found |= own
    return found


def _is_beside(module: ModuleType, other: ModuleType) -> bool:
    """Whether two modules are of one package, or the first is a file beside or below the other."""
    if _package(module) == _package(other):
        return True
    file, place = getattr(module, "__file__", None), getattr(other, "__file__", None)
    if not file or not place or _package(module) in {"idaq", *sys.stdlib_module_names}:
        return False
    path = Path(file).resolve()
    return path.is_relative_to(Path(place).resolve().parent) and not INSTALLED & set(path.parts)


def _home(thing: Any) -> ModuleType | None:
    """The module that defines a class or function."""
    code = _undecorated(thing)
    return sys.modules.get(code.__module__) if _is_code(code) else None


def _package(module: ModuleType) -> str:
    return module.__name__.partition(".")[0]


# --- In a notebook --------------------------------------------------------------------------------


def _cells(part: Any) -> Iterator[str]:
    """The source of a class or function, and of what it uses of the same notebook."""
    part = _undecorated(part)
    found, todo = {part}, [part]
    while todo:
        each = todo.pop()
        yield _definition(each)
        for name, value in _used(each):
            code = _undecorated(value)
            if isinstance(value, PLAIN):
                yield f"{name}={value!r}"
            elif _is_code(code) and code.__module__ == part.__module__ and code not in found:
                found.add(code)
                todo.append(code)


def _definition(part: Any) -> str:
    try:
        return inspect.getsource(part)
    except (OSError, TypeError) as error:
        if inspect.isclass(part):
            return part.__qualname__  # its functions and constants follow
        raise IdaqError(
            f"The source of {part!r} cannot be read, so that it has no identity.",
            "Give its entry a version, and raise it with every change.",
        ) from error


def _used(part: Any) -> Iterator[tuple[str, Any]]:
    """The names that a class or function uses, and what they stand for."""
    if inspect.isclass(part):
        yield from ((base.__name__, base) for base in part.__bases__)
        for name, value in vars(part).items():
            if not name.startswith("__") or inspect.isfunction(value):
                yield name, value
    else:
        yield from inspect.getclosurevars(part).nonlocals.items()
        for name in sorted(_names(part.__code__)):
            if name in part.__globals__:
                yield name, part.__globals__[name]


def _names(code: CodeType) -> set[str]:
    """All names in a function's code, and in the code of functions inside it."""
    inner = (const for const in code.co_consts if isinstance(const, CodeType))
    return set(code.co_names).union(*map(_names, inner))


def _undecorated(value: Any) -> Any:
    """The class or function itself, without `jit`, `partial`, `property` and the like."""
    while isinstance(value, partial | property | classmethod):
        value = value.fget if isinstance(value, property) else _inner(value)
    return inspect.unwrap(value) if callable(value) else value


def _inner(value: Any) -> Any:
    return value.func if isinstance(value, partial) else value.__func__


def _is_code(value: Any) -> bool:
    """Whether it is a class, or a function that was written by somebody (not by `dataclass`)."""
    if inspect.isfunction(value):
        return value.__code__.co_filename != "<string>"
    return inspect.isclass(value)
