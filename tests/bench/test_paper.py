"""The paper's numbers, as shipped."""

import pytest

from idaq.bench.experiments import EXPERIMENTS
from idaq.bench.paper import Published, table
from idaq.bench.published import dataset_return, number_of, published, published_score


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


def test_the_ablations_of_medium_data_are_found() -> None:
    assert published_score("ml1/sweep", "idaq-return", quality="medium") == (0.59, 0.13)
    assert published_score("ml1/sweep", "posterior", "op-cl", "medium") == (0.19, 0.06)
    assert published_score("ml1/sweep", "fine-tuning", "macaw", "medium") == (0.04, 0.03)


def test_a_number_that_two_tables_have_is_one() -> None:
    """So that it does not matter by which experiment a number is found."""
    found: dict[tuple[object, ...], set[Published]] = {}
    for experiment in EXPERIMENTS.values():
        for row in experiment.rows:
            for column in experiment.columns:
                number = number_of(row, column)
                if number is not None and not column.run and not column.adapt:
                    key = (row.family, row.quality, column.algorithm, column.method)
                    found.setdefault(key, set()).add(number)
    assert {key: each for key, each in found.items() if len(each) > 1} == {}
