"""Compiled programs are forgotten before there are too many."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from idaq.engine import device

linux = pytest.mark.skipif(sys.platform != "linux", reason="memory maps are counted on Linux")


def num_maps() -> int:
    return len(device.MAPS.read_text().splitlines())


def forget(monkeypatch: pytest.MonkeyPatch, place: Path, limit: str) -> None:
    place.write_text(limit)
    monkeypatch.setattr(device, "MAPS_LIMIT", place)
    device.forget_programs_when_many()


@linux
def test_programs_are_forgotten_near_the_limit(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    traces = []

    def function(x: jax.Array) -> jax.Array:
        traces.append(x)
        return jnp.sin(x) + len(traces)

    compiled, x = jax.jit(function), jnp.ones(3)
    others = [jax.jit(lambda x, i=i: jnp.sort(x * i)) for i in range(20)]
    first = compiled(x)
    for each in others:
        each(x)
    before = num_maps()

    forget(monkeypatch, tmp_path / "limit", str(4 * before))
    assert num_maps() >= before
    assert compiled(x).tolist() == first.tolist()
    assert len(traces) == 1, "it was still there"

    forget(monkeypatch, tmp_path / "limit", str(before))
    assert num_maps() <= before - len(others)
    compiled(x)
    assert len(traces) == 2, "it was compiled again"


@pytest.mark.parametrize("limit", ["", "many\n"])
def test_other_systems_keep_their_programs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limit: str
) -> None:
    monkeypatch.setattr(jax, "clear_caches", lambda: pytest.fail("forgotten"))
    forget(monkeypatch, tmp_path / "limit", limit)
    monkeypatch.setattr(device, "MAPS", tmp_path / "none")
    forget(monkeypatch, tmp_path / "limit", "1")
