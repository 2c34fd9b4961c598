"""Files that may be damaged or somebody else's: opened with care, read with limits, and checked.

Only regular files are opened: a pipe would wait for ever, and a device may never end. Nothing is
taken into memory that is much larger than what idaq writes. What JSON holds is checked field by
field; its numbers are finite. Errors name the file.
"""

import json
import os
import stat
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from idaq.config import Json
from idaq.errors import IdaqError
from idaq.types import AnyArray

REMEDY = "Restore it from a copy, or run again in another directory."
MAX_JSON_BYTES = 1 << 26
MAX_NUMBER = 1e100  # sums and squares of such numbers are finite
MAX_COUNT = 1 << 53
MAX_DIGITS = 30
MAX_EXPANSION, SMALL_BYTES = 250, 1 << 26  # of an archive; one that unpacks to little may be denser

Check = Callable[[object], bool]


# --- Files ----------------------------------------------------------------------------------------


def open_regular(file: Path, remedy: str = REMEDY) -> BinaryIO:
    """Open a file to read it; pipes, devices and directories are refused."""
    stream = os.fdopen(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
        return stream
    stream.close()
    raise IdaqError(f"'{file}' is no regular file.", remedy)


def read_bytes(file: Path, most: int, remedy: str = REMEDY) -> bytes:
    """The content of a regular file of at most that many bytes."""
    with open_regular(file, remedy) as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise IdaqError(f"'{file}' is larger than {most >> 20} MiB.", remedy)
    return content


# --- JSON -----------------------------------------------------------------------------------------


def parse_json(text: str | bytes) -> Any:
    """Parse JSON whose numbers can be computed with; a `ValueError` if it is something else."""
    text = text if isinstance(text, str) else text.decode("utf-8")
    try:
        return json.loads(text, parse_float=_float, parse_int=_int, parse_constant=_float)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _float(text: str) -> float:
    value = float(text)
    if not abs(value) <= MAX_NUMBER:  # NaN is refused as well
        raise ValueError(f"{text[:MAX_DIGITS]} is no number to compute with")
    return value


def _int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"{text[:MAX_DIGITS]}... has too many digits")
    return int(text)


def read_json(file: Path, remedy: str = REMEDY) -> Any:
    """Parse a JSON file, or say which one is damaged."""
    content = read_bytes(file, MAX_JSON_BYTES, remedy)
    try:
        return parse_json(content)
    except ValueError as error:
        raise IdaqError(f"'{file}' is not valid JSON ({error}).", remedy) from error


def read_object(file: Path, remedy: str = REMEDY, **fields: Check) -> Json:
    """Parse a JSON file that holds an object with these fields, whatever else is in it."""
    value = read_json(file, remedy)
    if not isinstance(value, dict):
        raise IdaqError(f"'{file}' holds no JSON object.", remedy)
    return with_fields(value, f"'{file}'", remedy, **fields)


def with_fields(values: Json, where: str, remedy: str = REMEDY, **fields: Check) -> Json:
    """The same values, whose fields are as they should be."""
    for name, is_usable in fields.items():
        if not is_usable(values.get(name)):
            raise IdaqError(f"{where} has no usable '{name}': {values.get(name)!r:.80}.", remedy)
    return values


def is_text(value: object) -> bool:
    return isinstance(value, str)


def is_object(value: object) -> bool:
    return isinstance(value, dict)


def is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= MAX_COUNT


def is_number(value: object) -> bool:
    is_bool = isinstance(value, bool)
    return isinstance(value, int | float) and not is_bool and abs(value) <= MAX_NUMBER


def below(limit: int) -> Check:
    return lambda value: is_count(value) and value < limit  # type: ignore[operator]


def equal_to(expected: object) -> Check:
    return lambda value: type(value) is type(expected) and value == expected


def list_of(is_item: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(is_item, value))


def or_none(is_usable: Check) -> Check:
    """Of a field that may also be null, or absent."""
    return lambda value: value is None or is_usable(value)


SUCCESSES: dict[str, Check] = {  # of a dataset or of its scripted expert, per task
    "successes": or_none(list_of(is_count)),
    "successful_returns": or_none(list_of(is_number)),
}


# --- Arrays ---------------------------------------------------------------------------------------


def read_arrays(file: Path, remedy: str = REMEDY) -> dict[str, AnyArray]:
    """All arrays of an `.npz` file: numbers and booleans, in no more memory than is likely."""
    with open_regular(file, remedy) as stream:
        try:
            size = sum(each.file_size for each in zipfile.ZipFile(stream).infolist())
            if size > max(SMALL_BYTES, MAX_EXPANSION * os.fstat(stream.fileno()).st_size):
                raise ValueError(f"it would unpack to {size >> 20} MiB")
            stream.seek(0)
            with np.load(stream, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
        except Exception as error:  # a damaged file can make numpy raise anything
            raise IdaqError(f"'{file}' cannot be read ({error}).", remedy) from error
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
            raise IdaqError(f"'{name}' in '{file}' is no array of numbers.", remedy)
    return arrays


def is_finite(array: AnyArray, most: float = MAX_NUMBER) -> bool:
    """Whether all numbers are finite and not absurdly large."""
    return bool((np.abs(np.asarray(array, np.float64)) <= most).all())


def check_axes(
    arrays: Mapping[str, AnyArray], axes: Mapping[str, str], file: Path, remedy: str = REMEDY
) -> None:
    """Compare shapes with what each axis means: equal letters, equal lengths.

    `{"returns": "te", "tasks": "t"}`; after a `*` there may be further axes. Arrays that are not
    there, or are not named, are not looked at.
    """
    lengths: dict[str, int] = {}
    for name in (each for each in axes if each in arrays):
        shape, letters = arrays[name].shape, axes[name].removesuffix("*")
        is_open = axes[name].endswith("*") and len(shape) > len(letters)
        pairs = zip(letters, shape, strict=False)
        if not (is_open or len(shape) == len(letters)) or any(
            lengths.setdefault(letter, length) != length for letter, length in pairs
        ):
            raise IdaqError(f"'{name}' in '{file}' has shape {shape}, unlike the others.", remedy)
