"""Frozen configuration dataclasses to JSON and back, overrides by dotted name, and bounds.

A configuration is resolved once (class defaults, then preset, then command line), saved beside
the result, and read back strictly: an unknown or missing key is an error. A dataclass checks its
own values when it is made (`require`), wherever they come from.

A field may hold one of several *components* (`Component`), told apart by their `kind`; a registry
says which kinds there are. The form of saved files stays: a new field is not saved while it has its
default (`added`), a renamed field is saved under its first name (`saved_as`), and a field that has
moved is also found in its first place (`MOVED`).
"""

import dataclasses
import json
import math
import types
import typing
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, ClassVar, Literal, TypeVar

from idaq.errors import IdaqError
from idaq.registry import check_entry, registry_of

T = TypeVar("T")
Json = dict[str, Any]  # an object, as files have it
_ADDED, _SAVED_AS = "added", "saved_as"  # in a field's metadata

MAX_SIZE = 100_000  # of layers and batches; anything larger is a typing error


class Component:
    """The base of interchangeable configurations, in two levels.

    A direct subclass is a sort (`LearnerConfig`) and names a registry; its dataclass subclasses are
    the kinds that a field of that sort may hold.
    """

    kind: str
    registry: ClassVar[str]
    default_kind: ClassVar[str | None] = None  # for saved files that name none


def check_configured(sort: type[Component], kind: str, entry: Any) -> None:
    """Refuse an entry whose configuration is not of that sort, or not of the entry's name."""
    check_entry(kind, entry)
    cls = entry.config
    if not (isinstance(cls, type) and issubclass(cls, sort) and _is_kind(cls)):
        raise IdaqError(
            f"The configuration of the {kind} '{entry.name}' is {cls!r}.",
            f"It must be a dataclass that is derived from `{sort.__name__}`.",
        )
    defaults = {field.name: field.default for field in dataclasses.fields(typing.cast(Any, cls))}
    if defaults.get("kind") != entry.name:
        raise IdaqError(
            f"The {kind} '{entry.name}' has a configuration of kind {defaults.get('kind')!r}.",
            "Both must have the same name.",
        )


def added(default: T) -> T:
    """A field that saved configurations may lack: with its default it is not saved at all."""
    return dataclasses.field(default=default, metadata={_ADDED: True})


def saved_as(name: str, default: T) -> T:
    """A field with a default, saved under a name other than its own."""
    return dataclasses.field(default=default, metadata={_SAVED_AS: name})


def require(
    config: object,
    *names: str,
    least: float = -math.inf,
    above: float = -math.inf,
    most: float = 1e9,
) -> None:
    """Refuse a setting outside its bounds; a tuple needs at least one value, all inside."""
    low = f"at least {least:g}" if least > above else f"above {above:g}"
    for name in names:
        value = getattr(config, name)
        values = value if isinstance(value, tuple) else (value,)
        if not values or not all(least <= v <= most and v > above for v in values):
            raise IdaqError(f"{name} is {value}.", f"It must be {low} and at most {most:,.10g}.")


def to_dict(config: object) -> Any:
    """A dataclass (nested, tuples allowed) as plain JSON values."""
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        return {
            _saved_name(f): to_dict(getattr(config, f.name))
            for f in dataclasses.fields(config)
            if not (f.metadata.get(_ADDED) and getattr(config, f.name) == f.default)
        }
    if isinstance(config, tuple):
        return [to_dict(item) for item in config]
    return config


def from_dict(cls: type[T], values: object, where: str = "config") -> T:
    """The inverse of `to_dict`."""
    if not isinstance(values, dict):
        raise IdaqError(f"{where} must be an object, not {values!r}.", "Restore the saved file.")
    values = with_moved(values, getattr(cls, "MOVED", {}))
    hints = typing.get_type_hints(cls)
    fields = {_saved_name(f): f for f in dataclasses.fields(typing.cast(Any, cls))}
    optional = {name for name, f in fields.items() if f.metadata.get(_ADDED)}
    unknown, missing = set(values) - set(fields), set(fields) - optional - set(values)
    if unknown or missing:
        raise IdaqError(
            f"{where} has unknown keys {sorted(unknown)} and lacks {sorted(missing)}.",
            f"{cls.__name__} takes {list(fields)}.",
        )
    return cls(
        **{
            f.name: _parse(hints[f.name], values[name], f"{where}.{name}")
            for name, f in fields.items()
            if name in values
        }
    )


def with_moved(values: Json, moved: Mapping[str, str]) -> Json:
    """The same values, each in its current place."""
    for before, now in moved.items():
        (old_part, old_name), (part, name) = before.split("."), now.split(".")
        old, new = values.get(old_part), values.get(part)
        if isinstance(old, dict) and isinstance(new, dict) and old_name in old:
            rest = {key: value for key, value in old.items() if key != old_name}
            values = values | {old_part: rest, part: new | {name: old[old_name]}}
    return values


def _saved_name(field: "dataclasses.Field[object]") -> str:
    return str(field.metadata.get(_SAVED_AS, field.name))


def override(config: T, assignment: str) -> T:
    """Apply `dotted.name=value` to a configuration; the value is JSON or a bare word."""
    name, separator, text = assignment.partition("=")
    if not separator:
        raise IdaqError(f"'{assignment}' is not an assignment.", "Write it as name=value.")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = text
    place = getattr(type(config), "MOVED", {}).get(name, name)
    result: T = _override(config, place.split("."), value, name)
    return result


def _override(config: Any, path: list[str], value: Any, full: str) -> Any:
    names = {_saved_name(f): f.name for f in dataclasses.fields(config)}
    names |= {name: name for name in names.values()}
    if path[0] not in names:
        if path[0] == "objective" and isinstance(config, Component):
            raise IdaqError(
                f"There is no setting '{full}'.",
                f"An objective is chosen as the algorithm: `algorithm={value}`.",
            )
        close = get_close_matches(path[0], names, n=1)
        hint = f"Did you mean '{close[0]}'? " if close else ""
        raise IdaqError(
            f"There is no setting '{full}'.",
            f"{hint}{type(config).__name__} has: {', '.join(dict.fromkeys(names.values()))}.",
        )
    name = names[path[0]]
    current, hint = getattr(config, name), typing.get_type_hints(type(config))[name]
    if len(path) == 1:
        return dataclasses.replace(config, **{name: _parse(hint, value, full)})
    if path[1:] == ["kind"] and (sort := _sort_of(hint)) is not None:
        entry = registry_of(sort.registry).get_entry(str(value))
        return dataclasses.replace(config, **{name: _of_kind(entry.config, current)})
    if not dataclasses.is_dataclass(current):
        raise IdaqError(
            f"'{full}' goes deeper than '{path[0]}', which is {current!r}.",
            f"Set '{path[0]}' itself.",
        )
    return dataclasses.replace(config, **{name: _override(current, path[1:], value, full)})


def _sort_of(hint: Any) -> type[Component] | None:
    """The sort of component that a field of that type holds, if it holds one."""
    for each in typing.get_args(hint) or (hint,):
        if isinstance(each, type) and issubclass(each, Component) and not _is_kind(each):
            return each
    return None


def _is_kind(hint: object) -> bool:
    """Whether a type is a kind of component, not a sort."""
    return dataclasses.is_dataclass(hint)


def _of_kind(cls: type[Any], current: Any) -> Any:
    """The defaults of a kind; fields shared with the current component keep their values."""
    if current is None or isinstance(current, cls):
        return cls() if current is None else current
    before, now = typing.get_type_hints(type(current)), typing.get_type_hints(cls)
    names = {f.name for f in dataclasses.fields(current)} - {"kind"}
    common = [f.name for f in dataclasses.fields(cls) if f.name in names]
    common = [name for name in common if before[name] == now[name]]
    return cls(**{name: getattr(current, name) for name in common})


def _parse(hint: Any, value: object, where: str) -> Any:
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
    if isinstance(hint, type) and issubclass(hint, Component):
        return _parse_component(hint, value, where)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (hint is int and isinstance(value, bool)):
        raise IdaqError(f"{where} is {value!r}.", f"It takes a value of type {hint.__name__}.")
    return value


def _parse_union(options: tuple[Any, ...], value: object, where: str) -> Any:
    if value is None and type(None) in options:
        return None
    (option,) = (o for o in options if o is not type(None))
    return _parse(option, value, where)


def _parse_component(sort: type[Component], value: object, where: str) -> Component:
    registry = registry_of(sort.registry)
    kind = value.get("kind", sort.default_kind) if isinstance(value, dict) else None
    entry = registry.get(kind) if isinstance(kind, str) else None
    if entry is None:
        raise IdaqError(f"{where}.kind is {kind!r}.", f"Choose one of {', '.join(registry)}.")
    config: Component = from_dict(entry.config, value, where)
    return config
