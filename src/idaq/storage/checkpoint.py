"""A pytree of arrays as one safetensors file, with JSON in its header.

Files are written atomically and carry a checksum of everything in them.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy
from safetensors import SafetensorError, safe_open

from idaq.config import Json
from idaq.errors import IdaqError
from idaq.storage.atomic import atomic_file
from idaq.storage.checked import Check, parse_json, with_fields
from idaq.types import AnyArray, PyTree

FORMAT_VERSION = 1
HEADER_KEY = "idaq"
# renamed parts: (a pattern of the name in older files, the name today)
_RENAMED = ((re.compile(r"^\.ensemble(?=$|[._\[])"), ".judge"),)
_REMEDY = "Train again, or restore the file from a copy."


def save(path: Path, tree: PyTree, metadata: Json) -> None:
    """Write the arrays of `tree`, named by their place in it."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    arrays = {jax.tree_util.keystr(place): np.asarray(leaf) for place, leaf in leaves}
    header = {"format_version": FORMAT_VERSION, **metadata}
    header["sha256"] = _checksum(arrays, header)
    data = safetensors.numpy.save(arrays, {HEADER_KEY: json.dumps(header, sort_keys=True)})
    with atomic_file(path) as temporary:
        temporary.write_bytes(data)


def load(path: Path, shapes: PyTree, **fields: Check) -> tuple[PyTree, Json]:
    """Read a file back into the structure of `shapes` (arrays or shapes of arrays).

    The header has these fields, besides others.
    """
    if not path.is_file():
        raise IdaqError(f"There is no checkpoint '{path}'.", "Train first, or correct the path.")
    arrays, header = _read(path)
    if header.get("format_version") != FORMAT_VERSION:
        raise IdaqError(f"'{path}' has format {header.get('format_version')}.", _REMEDY)
    if header.pop("sha256", None) != _checksum(arrays, header):
        raise IdaqError(f"'{path}' is damaged: its checksum does not match.", _REMEDY)
    arrays = {_todays_name(name): array for name, array in arrays.items()}
    leaves, structure = jax.tree_util.tree_flatten_with_path(shapes)
    expected = {jax.tree_util.keystr(place): leaf for place, leaf in leaves}
    if arrays.keys() != expected.keys():
        odd = sorted(arrays.keys() ^ expected.keys())[:3]
        raise IdaqError(f"'{path}' is of another configuration ({', '.join(odd)}).", _REMEDY)
    for name, leaf in expected.items():
        if arrays[name].shape != leaf.shape or arrays[name].dtype != leaf.dtype:
            raise IdaqError(f"'{name}' in '{path}' has shape {arrays[name].shape}.", _REMEDY)
    tree = jax.tree_util.tree_unflatten(structure, [jnp.asarray(arrays[n]) for n in expected])
    return tree, with_fields(header, f"The header of '{path}'", _REMEDY, **fields)


def _todays_name(name: str) -> str:
    for before, now in _RENAMED:
        name = before.sub(now, name)
    return name


def _read(path: Path) -> tuple[dict[str, AnyArray], Json]:
    try:
        with safe_open(path, framework="np") as file:
            header = dict(parse_json(file.metadata()[HEADER_KEY]))
            names = list(file.keys())
            return {name: file.get_tensor(name) for name in names}, header
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise IdaqError(f"'{path}' cannot be read ({error}).", _REMEDY) from error


def _checksum(arrays: Mapping[str, AnyArray], header: Json) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode())
        digest.update(arrays[name].tobytes())
    return digest.hexdigest()
