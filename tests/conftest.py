"""Settings and data that the tests share."""

from pathlib import Path

import hypothesis
import pytest

from idaq.data.collect import collect
from idaq.data.store import Dataset, open_dataset
from idaq.envs import POINT_FAMILIES

hypothesis.settings.register_profile("idaq", derandomize=True, deadline=None, max_examples=40)
hypothesis.settings.load_profile("idaq")


@pytest.fixture(scope="session")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    """The default dataset of every family, by name; read-only."""
    found = {}
    for name, family in POINT_FAMILIES.items():
        place: Path = tmp_path_factory.mktemp("datasets") / name
        collect(family, place)
        found[name] = open_dataset(place, family.spec)
    return found
