"""Values at the bounds of a setting, and just beyond them."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from idaq.errors import IdaqError

MOST_LAYERS = 100_000
ANYTHING = 1e9  # tried for settings without an upper bound


class Bound(NamedTuple):
    """Values that are allowed, and values that are refused."""

    allowed: tuple[Any, ...]
    refused: tuple[Any, ...]


LAYERS = Bound(((1,), (MOST_LAYERS, 1)), ((), (0,), (3, 0), (3, MOST_LAYERS + 1)))


def whole(least: int, most: int = int(ANYTHING)) -> Bound:
    """Integers from `least` to `most`."""
    return Bound((least, most), (least - 1, most + 1))


def real(least: float, most: float = ANYTHING) -> Bound:
    """Numbers from `least` to `most`."""
    beyond = (math.nextafter(least, -math.inf), math.nextafter(most, math.inf))
    return Bound((least, most), (*beyond, math.nan))


def above_zero(most: float = ANYTHING) -> Bound:
    """Numbers above 0, up to `most`."""
    return Bound((1e-12, most), (0.0, -1.0, math.nextafter(most, math.inf), math.nan))


def check(make: Callable[..., Any], name: str, bound: Bound) -> None:
    """Make a configuration with each of these values of a setting."""
    for value in bound.allowed:
        assert getattr(make(**{name: value}), name) == value
    for value in bound.refused:
        with pytest.raises(IdaqError, match=rf"^{name} is "):
            make(**{name: value})
