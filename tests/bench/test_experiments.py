"""Every table and figure of the paper is declared, and its numbers are found."""

import re

import pytest

from idaq.algos.context_based import ContextConfig
from idaq.bench.cells import Cell, cell_of, make_cells
from idaq.bench.experiments import EXPERIMENTS, SCALES, Experiment, get_experiment, get_scale, row
from idaq.bench.paper import table
from idaq.bench.published import number_of
from idaq.errors import IdaqError
from idaq.judges.ensemble import EnsembleConfig
from idaq.runs.adapt_stage import RESULT_NAME
from idaq.runs.resolve import judge_kind

NAMES = [
    "quantifications",
    "ml1",
    "ml1-expert-context",
    "mujoco",
    "mujoco-expert-context",
    "ablation-reference-stage",
    "ablation-dataset-quality",
    "ablation-ensemble",
    "ablation-op-cl",
    "dataset-returns",
    "fig-quantification",
    "fig-distance",
    "fig-point",
    "fig-learning-curve",
]
every = pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=lambda e: e.name)


def test_the_names_of_the_paper() -> None:
    assert list(EXPERIMENTS) == NAMES
    assert [name for name in NAMES if EXPERIMENTS[name].kind == "figure"] == NAMES[-4:]


@every
def test_every_entry_has_the_papers_number(experiment: Experiment) -> None:
    for each in experiment.rows:
        for column in experiment.columns:
            assert number_of(each, column) is not None, (each.name, column.name)


@pytest.mark.parametrize("experiment", [e for e in EXPERIMENTS.values() if e.kind == "table"])
def test_every_number_of_the_paper_has_an_entry(experiment: Experiment) -> None:
    places = {column.paper for column in experiment.columns if column.paper}
    for name in {place[0] for place in places}:
        lines = {key: line for key, line in table(name).items() if key != "average"}
        assert [each.name for each in experiment.rows] == list(lines)
        keys = {k for line in lines.values() for k in line} - {"environment"}
        found = {place[1] for place in places if place[0] == name}
        missing = {key for key in keys if not key.endswith("_ci95")} - found
        assert missing <= {"idaq_return"}, "which stands in both tables of the ensemble"


@every
@pytest.mark.parametrize("scale", SCALES)
def test_every_entry_has_a_cell(experiment: Experiment, scale: str) -> None:
    cells = make_cells(experiment, scale)  # type: ignore[arg-type]
    assert len({cell.label for cell in cells}) == len(cells)
    for each in experiment.rows:
        if scale == "smoke" and each.name not in experiment.smoke:
            continue
        for column in experiment.columns:
            assert cell_of(cells, each, column) is not None


def available(scale: str) -> list[Cell]:
    found = [make_cells(e, scale) for e in EXPERIMENTS.values()]  # type: ignore[arg-type]
    return [cell for cells in found for cell in cells if cell.unavailable() is None]


@pytest.mark.parametrize("scale", SCALES)
def test_no_adaptation_is_given_more_logs_than_there_are(scale: str) -> None:
    for cell in available(scale):
        for each in cell.adaptations:
            asked = each.config(cell.config()).num_expert_episodes
            assert asked <= cell.trajectories, (cell.label, each.method)


@pytest.mark.parametrize("scale", SCALES)
def test_the_same_name_means_the_same_adaptation(scale: str) -> None:
    """Experiments share run directories: a result's name must say everything."""
    seen: dict[tuple[object, ...], object] = {}
    for cell in available(scale):
        config = cell.config() if cell.trains else None
        for each in cell.adaptations:
            assert config is not None
            assert RESULT_NAME.fullmatch(each.name)
            key = (cell.family, cell.quality, cell.algorithm, config, each.name)
            assert seen.setdefault(key, each.config(config)) == each.config(config)


def test_a_smoke_run_of_quantifications_is_point_robot_and_one_ml1_set() -> None:
    cells = make_cells(get_experiment("quantifications"), "smoke")
    assert sorted(cell.family for cell in cells) == ["ml1/reach", "point-robot"]
    assert all(cell.unavailable() is None for cell in cells)


def test_scales() -> None:
    paper = make_cells(get_experiment("mujoco"), "paper", only="point-robot/focal")[0]
    assert (paper.preset, paper.seeds, paper.trajectories) == ("paper", 6, 45)
    assert paper.config().train.num_updates == 50_000
    assert not judge_kind(paper.config()), "no method of this table needs models"
    smoke = make_cells(get_experiment("mujoco"), "smoke", seeds=4, preset="paper")[0]
    assert (smoke.preset, smoke.seeds) == ("paper", 4)


def test_sizes_of_the_ensemble_are_cells_of_their_own() -> None:
    cells = make_cells(get_experiment("ablation-ensemble"), "fast", only="point-robot/*")
    algorithms = [cell.config().algorithm for cell in cells]
    judges = [each.judge for each in algorithms if isinstance(each, ContextConfig)]
    assert [judge.size for judge in judges if isinstance(judge, EnsembleConfig)] == [2, 4, 8, 12]
    assert [len(cell.adaptations) for cell in cells] == [2, 3, 2, 2]


def test_reference_stages_share_their_agents() -> None:
    (cell,) = make_cells(get_experiment("ablation-reference-stage"), "fast", only="point-robot/*")
    configs = [each.config(cell.config()) for each in cell.adaptations]
    stages = [(c.num_reference_episodes, c.num_iterative_episodes) for c in configs]
    assert stages == [(5, 15), (10, 10), (15, 5), (19, 1)]


def test_rows() -> None:
    assert row("sweep-medium").family == "ml1/sweep"
    assert row("sweep-medium").quality == "medium"
    assert row("point-robot-sparse").family == "point-robot-sparse"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: get_experiment("quantification"), "Did you mean 'quantifications'"),
        (lambda: get_scale("huge"), "There is no scale 'huge'"),
        (lambda: make_cells(get_experiment("ml1"), "smoke", only="xyz"), "matches no cell"),
        (lambda: make_cells(get_experiment("ml1"), "smoke", seeds=0), "`seeds` is 0"),
    ],
    ids=["experiment", "scale", "only", "seeds"],
)
def test_mistakes(call: object, said: str) -> None:
    assert callable(call)
    with pytest.raises(IdaqError, match=re.escape(said)):
        call()
