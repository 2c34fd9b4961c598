"""Every table and figure of the paper as a named experiment, as data.

A table is rows of environments by columns of methods. A column says which agents it needs
(algorithm, settings of the run) and how they adapt (method, settings of the adaptation); columns of
one row that need the same agents share a cell (`idaq.bench.cells`). `paper` says where the paper's
own numbers are: a file of `bench/paper` and a column of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Literal, get_args

from idaq.bench.choices import ScaleName
from idaq.bench.paper import table
from idaq.errors import IdaqError
from idaq.settings import Quality

Kind = Literal["table", "figure"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """An environment: a task family and the quality of its data."""

    name: str  # the paper's
    family: str
    quality: Quality = "expert"


@dataclass(frozen=True, kw_only=True)
class Column:
    """A method; without one, the column is about the data alone."""

    name: str
    method: str | None
    algorithm: str = "focal"
    run: tuple[str, ...] = ()  # settings of the run, name=value
    adapt: tuple[str, ...] = ()  # settings of this adaptation, name=value
    paper: tuple[str, str] | None = None  # table, column


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A table, or the runs that a figure is drawn from."""

    name: str
    title: str
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    smoke: tuple[str, ...]  # the rows of scale `smoke`
    kind: Kind = "table"
    probes: bool = False  # reference episodes of a training task, against its data
    curve_points: int = 0  # evaluations during training


@dataclass(frozen=True, kw_only=True)
class Scale:
    """The size of everything; what is not set here comes from the preset."""

    preset: str
    seeds: int
    trajectories: int
    run: tuple[str, ...] = ()
    algorithms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # more, by algorithm
    only_smoke_rows: bool = False

    def settings(self, algorithm: str) -> tuple[str, ...]:
        """The settings for an algorithm's runs."""
        return (*self.algorithms.get(algorithm, ()), *self.run)


SCALES: dict[str, Scale] = {
    "smoke": Scale(
        preset="default",
        seeds=2,
        trajectories=3,
        run=(
            "train.num_updates=400",
            "train.log_every_updates=100",
            "train.checkpoint_every_updates=100",
        ),
        algorithms={
            "borel": ("algorithm.vae_updates=200",),
            "macaw": ("adapt.num_expert_episodes=3",),  # all that there are
        },
        only_smoke_rows=True,
    ),
    "fast": Scale(preset="default", seeds=3, trajectories=45),
    "paper": Scale(preset="paper", seeds=6, trajectories=45),
}

_MEDIUM = "-medium"
_NO_ML1 = ("point-robot", "point-robot-sparse", "cheetah-vel")


def row(environment: str) -> Row:
    """The row for a name in the paper's tables: `sweep-medium` is medium data of ML1's sweep."""
    name = environment.removesuffix(_MEDIUM)
    family = name if name in _NO_ML1 else f"ml1/{name}"
    quality: Quality = "medium" if environment.endswith(_MEDIUM) else "expert"
    return Row(name=environment, family=family, quality=quality)


def _rows(paper_table: str) -> tuple[Row, ...]:
    return tuple(row(name) for name in table(paper_table) if name != "average")


def _column(paper_table: str, paper_column: str, name: str, method: str, **more: str) -> Column:
    return Column(
        name=name,
        method=method,
        algorithm=more.get("algorithm", "focal"),
        paper=(paper_table, paper_column),
    )


def _online(paper_table: str) -> tuple[Column, ...]:
    return (
        _column(paper_table, "idaq", "IDAQ", "idaq-return"),
        _column(paper_table, "focal", "FOCAL", "posterior"),
        _column(paper_table, "macaw", "MACAW", "fine-tuning", algorithm="macaw"),
        _column(paper_table, "borel", "BOReL", "belief", algorithm="borel"),
    )


def _expert_context(paper_table: str) -> tuple[Column, ...]:
    context = "expert-context"
    return (
        _column(paper_table, "idaq", "IDAQ", "idaq-return"),
        _column(paper_table, "focal_expert_context", "FOCAL, expert context", context),
        _column(
            paper_table,
            "macaw_expert_context",
            "MACAW, expert context",
            context,
            algorithm="macaw",
        ),
    )


def _quantifications(paper_table: str) -> tuple[Column, ...]:
    return (
        _column(paper_table, "idaq_return", "IDAQ, return", "idaq-return"),
        _column(
            paper_table,
            "idaq_prediction_error",
            "IDAQ, prediction error",
            "idaq-prediction-error",
        ),
        _column(
            paper_table,
            "idaq_prediction_variance",
            "IDAQ, prediction variance",
            "idaq-prediction-variance",
        ),
        _column(paper_table, "focal", "FOCAL", "posterior"),
    )


def _reference_stage() -> tuple[Column, ...]:
    """Twenty episodes in all, of which n_r are the reference stage's."""
    return tuple(
        Column(
            name=f"n_r = {n_r}",
            method="idaq-return",
            adapt=(f"num_reference_episodes={n_r}", f"num_iterative_episodes={20 - n_r}"),
            paper=("ablation_reference_stage", f"n_r_{n_r}"),
        )
        for n_r in (5, 10, 15, 19)
    )


def _ensemble() -> tuple[Column, ...]:
    models = tuple(
        Column(
            name=f"{label}, L = {size}",
            method=f"idaq-{label.replace(' ', '-')}",
            run=(f"algorithm.ensemble.size={size}",),
            paper=(f"ablation_ensemble_{label.replace(' ', '_')}", f"L_{size}"),
        )
        for label in ("prediction error", "prediction variance")
        for size in (2, 4, 8, 12)
    )
    place = ("ablation_ensemble_prediction_error", "idaq_return")
    run = ("algorithm.ensemble.size=4",)
    return (*models, Column(name="return", method="idaq-return", run=run, paper=place))


def _op_cl() -> tuple[Column, ...]:
    place = "ablation_op_cl"
    return (
        _column(place, "focal_idaq", "FOCAL + IDAQ", "idaq-return"),
        _column(place, "focal", "FOCAL", "posterior"),
        _column(place, "opcl_idaq", "OP+CL + IDAQ", "idaq-return", algorithm="op-cl"),
        _column(place, "opcl", "OP+CL", "posterior", algorithm="op-cl"),
    )


_POINT_METHODS = (
    _column("mujoco_online", "idaq", "IDAQ, return", "idaq-return"),
    _column(
        "quantifications",
        "idaq_prediction_variance",
        "IDAQ, prediction variance",
        "idaq-prediction-variance",
    ),
    _column("mujoco_online", "focal", "FOCAL", "posterior"),
    _column(
        "mujoco_expert_context", "focal_expert_context", "FOCAL, expert context", "expert-context"
    ),
)

_ALL = (
    Experiment(
        name="quantifications",
        title="Three uncertainty quantifications and FOCAL on example tasks",
        rows=_rows("quantifications"),
        columns=_quantifications("quantifications"),
        smoke=("point-robot", "reach"),
    ),
    Experiment(
        name="ml1",
        title="Online adaptation on the 50 ML1 sets",
        rows=_rows("ml1_online"),
        columns=_online("ml1_online"),
        smoke=("reach",),
    ),
    Experiment(
        name="ml1-expert-context",
        title="IDAQ online against baselines with expert context, on the 50 ML1 sets",
        rows=_rows("ml1_expert_context"),
        columns=_expert_context("ml1_expert_context"),
        smoke=("reach",),
    ),
    Experiment(
        name="mujoco",
        title="Online adaptation on Cheetah-Vel and the Point-Robots",
        rows=_rows("mujoco_online"),
        columns=_online("mujoco_online"),
        smoke=("point-robot", "point-robot-sparse"),
    ),
    Experiment(
        name="mujoco-expert-context",
        title="IDAQ online against baselines with expert context",
        rows=_rows("mujoco_expert_context"),
        columns=_expert_context("mujoco_expert_context"),
        smoke=("point-robot", "point-robot-sparse"),
    ),
    Experiment(
        name="ablation-reference-stage",
        title="The length of the reference stage, of 20 episodes in all",
        rows=_rows("ablation_reference_stage"),
        columns=_reference_stage(),
        smoke=("point-robot", "point-robot-sparse"),
    ),
    Experiment(
        name="ablation-dataset-quality",
        title="Expert and medium data",
        rows=_rows("ablation_dataset_quality"),
        columns=_online("ablation_dataset_quality")[:3],
        smoke=("sweep", "sweep-medium"),
    ),
    Experiment(
        name="ablation-ensemble",
        title="The number of reward and dynamics models",
        rows=_rows("ablation_ensemble_prediction_error"),
        columns=_ensemble(),
        smoke=("point-robot",),
    ),
    Experiment(
        name="ablation-op-cl",
        title="IDAQ on another context-based algorithm, OP+CL",
        rows=_rows("ablation_op_cl"),
        columns=_op_cl(),
        smoke=("reach",),
    ),
    Experiment(
        name="dataset-returns",
        title="Mean return of the datasets",
        rows=_rows("dataset_returns"),
        columns=(
            Column(name="dataset return", method=None, paper=("dataset_returns", "dataset_return")),
        ),
        smoke=("point-robot", "point-robot-sparse", "reach"),
    ),
    Experiment(
        name="fig-quantification",
        title="Uncertainty against return, on a meta-training task",
        rows=_rows("quantifications"),
        columns=_quantifications("quantifications")[:3],
        smoke=("point-robot", "reach"),
        kind="figure",
        probes=True,
    ),
    Experiment(
        name="fig-distance",
        title="Distance to the dataset against return, on a meta-training task",
        rows=_rows("quantifications"),
        columns=_quantifications("quantifications")[:3],
        smoke=("point-robot", "reach"),
        kind="figure",
        probes=True,
    ),
    Experiment(
        name="fig-point",
        title="Adaptation on Point-Robot, episode by episode",
        rows=(row("point-robot"),),
        columns=_POINT_METHODS,
        smoke=("point-robot",),
        kind="figure",
    ),
    Experiment(
        name="fig-learning-curve",
        title="Test score against meta-training updates, on Point-Robot",
        rows=(row("point-robot"),),
        columns=_POINT_METHODS,
        smoke=("point-robot",),
        kind="figure",
        curve_points=10,
    ),
)
EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in _ALL}


def get_experiment(name: str) -> Experiment:
    """The experiment of that name, or an error that says how to list the names."""
    if name not in EXPERIMENTS:
        close = get_close_matches(name, EXPERIMENTS, n=1)
        hint = f"Did you mean '{close[0]}'? " if close else ""
        raise IdaqError(f"There is no experiment '{name}'.", f"{hint}`idaq bench list` shows them.")
    return EXPERIMENTS[name]


def get_scale(name: str) -> Scale:
    """The scale of that name."""
    if name not in SCALES:
        raise IdaqError(f"There is no scale '{name}'.", f"Known: {', '.join(get_args(ScaleName))}.")
    return SCALES[name]
