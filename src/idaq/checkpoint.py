"""Pytrees of arrays as one safetensors file, with JSON beside them in its header. Atomic."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from idaq.atomic import atomic_file
from idaq.errors import IdaqError
from idaq.types import PyTree

FORMAT_VERSION = 1
HEADER_KEY = "idaq"


def save(path: Path, tree: PyTree, metadata: dict[str, Any]) -> None:
    """Write the arrays of `tree`, named by their place in it."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    arrays = {jax.tree_util.keystr(place): np.asarray(leaf) for place, leaf in leaves}
    header = json.dumps({"format_version": FORMAT_VERSION, **metadata}, sort_keys=True)
    with atomic_file(path) as temporary:
        save_file(arrays, temporary, metadata={HEADER_KEY: header})


def load(path: Path, shapes: PyTree) -> tuple[PyTree, dict[str, Any]]:
    """Read a file back into the structure of `shapes` (arrays or shapes of arrays)."""
    if not path.is_file():
        raise IdaqError(f"There is no checkpoint '{path}'.", "Train first, or correct the path.")
    remedy = "Train again, or restore the file from a copy."
    try:
        with safe_open(path, framework="np") as file:
            header = json.loads(file.metadata()[HEADER_KEY])
            names = set(file.keys())
            leaves, structure = jax.tree_util.tree_flatten_with_path(shapes)
            expected = [(jax.tree_util.keystr(place), leaf) for place, leaf in leaves]
            if names != {name for name, _ in expected}:
                odd = sorted(names ^ {name for name, _ in expected})[:3]
                raise IdaqError(f"'{path}' is of another configuration ({', '.join(odd)}).", remedy)
            arrays = [file.get_tensor(name) for name, _ in expected]
    except (SafetensorError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise IdaqError(f"'{path}' cannot be read ({error}).", remedy) from error
    if header.get("format_version") != FORMAT_VERSION:
        raise IdaqError(f"'{path}' has format {header.get('format_version')}.", remedy)
    for array, (name, leaf) in zip(arrays, expected, strict=True):
        if array.shape != leaf.shape or array.dtype != leaf.dtype:
            raise IdaqError(f"'{name}' in '{path}' has shape {array.shape}.", remedy)
    return jax.tree_util.tree_unflatten(structure, [jnp.asarray(a) for a in arrays]), header
