"""The paper's numbers, as shipped."""

import pytest

from idaq.bench.paper import dataset_return, published, table


@pytest.mark.parametrize(
    ("family", "method", "mean"),
    [
        ("point-robot", "idaq-return", -5.10),
        ("point-robot", "posterior", -15.38),
        ("point-robot", "expert-context", -4.68),
    ],
)
def test_point_robot(family: str, method: str, mean: float) -> None:
    found = published(family, method)
    assert found is not None
    assert found.mean == mean
    assert found.ci95 > 0.0


def test_every_published_number_parses() -> None:
    for name in ("mujoco_online", "mujoco_expert_context", "quantifications", "ml1_online"):
        for row in table(name).values():
            numbers = [float(value) for key, value in row.items() if key != "environment"]
            assert numbers


def test_what_the_paper_does_not_report_is_none() -> None:
    assert published("point-robot", "posterior-zero") is None
    assert published("no-such-family", "idaq-return") is None
    assert dataset_return("no-such-family") is None
    assert dataset_return("point-robot-sparse") == 7.28
