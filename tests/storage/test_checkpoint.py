"""Pytrees to one file and back."""

from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idaq.errors import IdaqError
from idaq.storage import checkpoint
from idaq.types import PyTree
from tests import tiny


class Pair(NamedTuple):
    first: PyTree
    second: PyTree


TREE = Pair(
    first=[{"weight": jnp.linspace(0.0, 1.0, 6).reshape(2, 3), "bias": jnp.zeros(0)}],
    second=(jnp.asarray(7, jnp.int32), None, jnp.asarray([True, False]), jnp.asarray(jnp.nan)),
)


def test_round_trip_is_bit_identical(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "state.safetensors"
    checkpoint.save(file, TREE, {"updates_done": 5, "seeds": [1, 2]})
    shapes = jax.eval_shape(lambda: TREE)
    tree, header = checkpoint.load(file, shapes)
    assert tiny.same_structure(tree, TREE)
    for found, saved in zip(tiny.leaves(tree), tiny.leaves(TREE), strict=True):
        assert found.dtype == saved.dtype
        np.testing.assert_array_equal(found, saved)
    assert (header["updates_done"], header["seeds"]) == (5, [1, 2])


def test_same_tree_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        checkpoint.save(tmp_path / name, TREE, {"z": 1, "a": 2})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_saving_again_replaces_and_leaves_nothing_beside(tmp_path: Path) -> None:
    file = tmp_path / "state.safetensors"
    for number in (1.0, 2.0):
        checkpoint.save(file, {"x": jnp.asarray(number)}, {})
    tree, _ = checkpoint.load(file, {"x": jnp.asarray(0.0)})
    assert tree["x"] == 2.0
    assert list(tmp_path.iterdir()) == [file]


def test_an_error_while_saving_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "state.safetensors"
    checkpoint.save(file, {"x": jnp.asarray(1.0)}, {})
    before = file.read_bytes()

    def interrupted(self: Path, data: bytes) -> int:
        with self.open("wb") as stream:
            stream.write(data[: len(data) // 2])
        raise RuntimeError("interrupted")

    monkeypatch.setattr(Path, "write_bytes", interrupted)
    with pytest.raises(RuntimeError, match="interrupted"):
        checkpoint.save(file, {"x": jnp.asarray(2.0)}, {})
    monkeypatch.undo()
    assert file.read_bytes() == before
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({"x": jnp.zeros(3), "y": jnp.zeros(2)}, "another configuration"),
        ({"x": jnp.zeros(4)}, "shape"),
        ({"x": jnp.zeros(3, jnp.int32)}, "x"),
    ],
    ids=["another structure", "another shape", "another type"],
)
def test_a_file_of_another_structure_is_refused(tmp_path: Path, other: PyTree, named: str) -> None:
    checkpoint.save(tmp_path / "file", {"x": jnp.zeros(3)}, {})
    with pytest.raises(IdaqError, match=named):
        checkpoint.load(tmp_path / "file", other)


def test_a_file_that_is_not_there_or_not_whole(tmp_path: Path) -> None:
    file, shapes = tmp_path / "file", {"x": jnp.zeros(3)}
    with pytest.raises(IdaqError, match=r"There is no checkpoint '.*/file'"):
        checkpoint.load(file, shapes)
    checkpoint.save(file, shapes, {"seed": 1})
    whole = file.read_bytes()
    for data in (whole[:-1], whole[:20], b"", b"text"):
        file.write_bytes(data)
        with pytest.raises(IdaqError, match="cannot be read"):
            checkpoint.load(file, shapes)
    for data in (whole[:-1] + b"\x01", whole.replace(b'seed\\": 1', b'seed\\": 2')):
        assert data != whole
        file.write_bytes(data)
        with pytest.raises(IdaqError, match="is damaged: its checksum does not match"):
            checkpoint.load(file, shapes)


def test_a_file_of_another_format(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = {"x": jnp.zeros(3)}
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint, "FORMAT_VERSION", checkpoint.FORMAT_VERSION + 1)
        checkpoint.save(tmp_path / "file", shapes, {})
    with pytest.raises(IdaqError, match=f"has format {checkpoint.FORMAT_VERSION + 1}"):
        checkpoint.load(tmp_path / "file", shapes)
