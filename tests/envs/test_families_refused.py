"""A task family that cannot be used is refused when it is registered, and before a run begins."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import idaq
from idaq.envs import FAMILIES
from idaq.envs.family import check_family
from idaq.errors import IdaqError
from idaq.runs.api import run_all, train_all
from idaq.runs.resolve import resolve
from tests.fakes import SPEC, Targets
from tests.runs.test_run import small

FAMILY = Targets(((0.0, 1.0), (1.0, 0.0)), name="mine")


LIST: Any = [-1.0, -1.0]


@dataclass(frozen=True)
class Unhashable(Targets):
    """One that holds a list."""

    others: list[int] = field(default_factory=list)


def changed(**changes: Any) -> Targets:
    return replace(FAMILY, **changes)


BAD = {
    "version, text": (changed(version="1.0"), "'mine' has the version '1.0'"),
    "version, none": (changed(version=None), "'mine' has the version None"),
    "name, spaces": (changed(name="a b/c"), "'a b/c' cannot be the name of a task family"),
    "name, empty": (changed(name=""), "'' cannot be the name of a task family"),
    "name, number": (changed(name=3), "3 cannot be the name of a task family"),
    "name, parent": (changed(name="../mine"), "cannot be the name of a task family"),
    "spec, none": (changed(spec=None), "'mine' has no usable `spec`"),
    "bounds, few": (changed(spec=replace(SPEC, action_low=(-1.0,))), "bounds .* 2 dimensions"),
    "bounds, many": (changed(spec=replace(SPEC, action_high=(1.0,) * 3)), "bounds .* 2 dimensions"),
    "spec, unhashable": (
        changed(spec=replace(SPEC, action_low=LIST)),
        "'mine' cannot be hashed",
    ),
    "unhashable": (Unhashable(FAMILY.targets, name="mine"), "'mine' cannot be hashed"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_family_is_usable(name: str, tmp_path: Path) -> None:
    family, message = BAD[name]
    with FAMILIES.registered(), pytest.raises(IdaqError, match=message):
        idaq.register(family)
    for config in (None, small()):
        with pytest.raises(IdaqError, match=message):
            run_all(tmp_path / "run", family, config=config, quiet=True)
    assert list(tmp_path.iterdir()) == []


def test_no_agents_are_trained_for_it(tmp_path: Path) -> None:
    idaq.collect(FAMILY, tmp_path / "data", trajectories=1)
    with pytest.raises(IdaqError, match=r"'mine' has the version '1\.0'"):
        train_all(
            tmp_path / "run", tmp_path / "data", family=changed(version="1.0"), config=small()
        )
    with pytest.raises(IdaqError, match=r"'mine' has the version '1\.0'"):
        resolve("default", changed(version="1.0"))
    assert not (tmp_path / "run").exists()


def test_what_it_lacks_is_named() -> None:
    """Unless it resembles no family at all."""
    almost = SimpleNamespace(name="x", version=1, num_tasks=4)
    message = r"A SimpleNamespace is no task family: it lacks `spec` and `task_params`\."
    for register in (idaq.register, FAMILIES.register):
        with pytest.raises(IdaqError, match=message):
            register(almost)  # type: ignore[arg-type]
    with pytest.raises(IdaqError, match="it lacks `spec`"):
        check_family(almost)  # type: ignore[arg-type]
    with pytest.raises(IdaqError, match="nothing that can be registered"):
        idaq.register(SimpleNamespace(name="x", version=1))


def test_what_is_slow_to_compute_is_not_computed() -> None:
    """Meta-World's parameters would import the simulator."""

    class Slow(Targets):
        @property
        def task_params(self) -> Any:
            raise AssertionError

    check_family(Slow(FAMILY.targets))


def test_a_proxy_of_a_family_is_one() -> None:
    class Proxy:
        def __getattr__(self, name: str) -> Any:
            return getattr(FAMILY, name)

    check_family(Proxy())
    with FAMILIES.registered():
        proxy = Proxy()
        assert idaq.register(proxy) is proxy
    np.testing.assert_array_equal(Proxy().task_params, FAMILY.task_params)
