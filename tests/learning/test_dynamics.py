"""Tasks that differ in their dynamics alone are told apart by what actions led to."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

import idaq
from idaq.envs import FAMILIES
from idaq.runs.resolve import without_judge

EXAMPLE = Path(__file__).parents[2] / "examples" / "04_turned_robot_family.py"


@pytest.fixture
def family() -> Any:
    """The family of the example, which registers itself."""
    spec = spec_from_file_location("turned_robot", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    with FAMILIES.registered():
        spec.loader.exec_module(module)
    return module.FAMILY


@pytest.mark.slow
def test_an_encoder_that_sees_the_next_observation_adapts(family: Any, tmp_path: Path) -> None:
    """Three seeds of preset `default`: docs/extending/family.md has -3.6 and -40.4."""
    found = {}
    for sees_next in (True, False):
        config = without_judge(idaq.resolve("default", family))
        config = idaq.override(config, f"algorithm.next_obs={str(sees_next).lower()}")
        summary = idaq.run_all(
            tmp_path / str(sees_next),
            family,
            config=config,
            methods=["posterior"],
            seeds=idaq.Seeds(count=3),
            quiet=True,
        )
        (found[sees_next],) = summary["rows"]
    assert found[True]["mean"] >= -6.0
    assert found[True]["ci95"][0] > found[False]["ci95"][1] + 10.0
