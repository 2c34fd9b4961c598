"""Frozen configuration dataclasses to JSON and back, overrides by dotted name, and bounds.

A configuration is resolved once (class defaults, then preset, then command line), saved beside
the result, and read back strictly: an unknown or missing key is an error. A dataclass checks its
own values when it is made (`require`), wherever they come from.
"""

import dataclasses
import json
import math
import types
import typing
from typing import Any, Literal, TypeVar

from idaq.errors import IdaqError

T = TypeVar("T")

MAX_SIZE = 100_000  # of layers and batches: beyond it is a slip of the finger


def require(
    config: Any, *names: str, least: float = -math.inf, above: float = -math.inf, most: float = 1e9
) -> None:
    """Refuse a setting outside its bounds; a tuple needs at least one value, all inside."""
    low = f"at least {least:g}" if least > above else f"above {above:g}"
    for name in names:
        value = getattr(config, name)
        values = value if isinstance(value, tuple) else (value,)
        if not values or not all(least <= v <= most and v > above for v in values):
            raise IdaqError(f"{name} is {value}.", f"It must be {low} and at most {most:,.10g}.")


def to_dict(config: Any) -> Any:
    """A dataclass (nested, tuples allowed) as plain JSON values."""
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        return {f.name: to_dict(getattr(config, f.name)) for f in dataclasses.fields(config)}
    if isinstance(config, tuple):
        return [to_dict(item) for item in config]
    return config


def from_dict(cls: type[T], values: Any, where: str = "config") -> T:
    """The inverse of `to_dict`."""
    if not isinstance(values, dict):
        raise IdaqError(f"{where} must be an object, not {values!r}.", "Restore the saved file.")
    hints = typing.get_type_hints(cls)
    names = [f.name for f in dataclasses.fields(typing.cast(Any, cls))]
    unknown, missing = sorted(set(values) - set(names)), sorted(set(names) - set(values))
    if unknown or missing:
        raise IdaqError(
            f"{where} has unknown keys {unknown} and lacks {missing}.",
            f"{cls.__name__} takes {names}.",
        )
    return cls(**{n: _parse(hints[n], values[n], f"{where}.{n}") for n in names})


def override(config: T, assignment: str) -> T:
    """Apply `dotted.name=value` to a configuration; the value is JSON or a bare word."""
    name, separator, text = assignment.partition("=")
    if not separator:
        raise IdaqError(f"'{assignment}' is not an assignment.", "Write it as name=value.")
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    result: T = _override(config, name.split("."), value, name)
    return result


def _override(config: Any, path: list[str], value: Any, full: str) -> Any:
    names = [f.name for f in dataclasses.fields(config)]
    if path[0] not in names:
        raise IdaqError(
            f"There is no setting '{full}'.",
            f"{type(config).__name__} has: {', '.join(names)}.",
        )
    current = getattr(config, path[0])
    if len(path) == 1:
        hint = typing.get_type_hints(type(config))[path[0]]
        return dataclasses.replace(config, **{path[0]: _parse(hint, value, full)})
    if not dataclasses.is_dataclass(current):
        raise IdaqError(
            f"'{full}' goes deeper than '{path[0]}', which is {current!r}.",
            f"Set '{path[0]}' itself.",
        )
    inner = _override(current, path[1:], value, full)
    return dataclasses.replace(config, **{path[0]: inner})


def _parse(hint: Any, value: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if origin is Literal:
        choices = typing.get_args(hint)
        if value not in choices:
            raise IdaqError(
                f"{where} is {value!r}.", f"Choose one of {', '.join(map(str, choices))}."
            )
        return value
    if origin in (types.UnionType, typing.Union):
        return _parse_union(typing.get_args(hint), value, where)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise IdaqError(f"{where} must be a list, not {value!r}.", "Write it as [1,2].")
        item = typing.get_args(hint)[0]
        return tuple(_parse(item, v, where) for v in value)
    if dataclasses.is_dataclass(hint):
        return from_dict(typing.cast(Any, hint), value, where)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise IdaqError(f"{where} is {value!r}.", f"It takes a value of type {hint.__name__}.")
    return value


def _parse_union(options: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in options:
        return None
    options = tuple(o for o in options if o is not type(None))
    if len(options) == 1:
        return _parse(options[0], value, where)
    kinds = {typing.get_args(typing.get_type_hints(o)["kind"])[0]: o for o in options}
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        raise IdaqError(f"{where}.kind is {kind!r}.", f"Choose one of {', '.join(kinds)}.")
    return from_dict(kinds[kind], value, where)
