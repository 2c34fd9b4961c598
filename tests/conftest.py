"""Settings and data that the tests share."""

import os
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from idaq.behaviour.collect import collect
from idaq.engine.device import enable_compile_cache, forget_programs_when_many
from idaq.envs import POINT_FAMILIES
from idaq.storage.dataset import Dataset, open_dataset

hypothesis.settings.register_profile("idaq", derandomize=True, deadline=None, max_examples=40)
hypothesis.settings.load_profile("idaq")


@pytest.fixture(scope="session", autouse=True)
def compile_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Compiled programs are kept in a directory of the test run, also for its subprocesses.

    Successive test runs, such as those of `tests.mutants`, may share one.
    """
    shared = os.environ.get("IDAQ_TEST_CACHE")
    place = Path(shared) if shared else tmp_path_factory.getbasetemp() / "cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(place))
        enable_compile_cache()
        yield place


@pytest.fixture(autouse=True, scope="module")
def _forget_programs() -> Iterator[None]:
    yield
    forget_programs_when_many()


@pytest.fixture(scope="session")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Dataset]:
    """The default datasets of both Point-Robot families, by name; read-only."""
    found = {}
    for name, family in POINT_FAMILIES.items():
        place: Path = tmp_path_factory.mktemp("datasets") / name
        collect(family, place)
        found[name] = open_dataset(place, family.spec)
    return found
