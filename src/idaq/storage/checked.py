"""JSON files, read and checked; errors name the file."""

import json
from pathlib import Path
from typing import Any

from idaq.config import Json
from idaq.errors import IdaqError

REMEDY = "Restore it from a copy, or run again in another directory."


def read_json(file: Path) -> Any:
    """Parse a JSON file, or say which one is damaged."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise IdaqError(f"'{file}' is not valid JSON ({error}).", REMEDY) from error


def read_object(file: Path) -> Json:
    """Parse a JSON file that holds an object."""
    value = read_json(file)
    if not isinstance(value, dict):
        raise IdaqError(f"'{file}' holds no JSON object.", REMEDY)
    return value
