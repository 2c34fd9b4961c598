"""Learning curves: the agents of every N updates, adapted to the test tasks by each method."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from idaq.adapt.methods import METHODS, make_adapter
from idaq.bench.status import curve_file
from idaq.engine.rollout import Rollouts
from idaq.errors import IdaqError
from idaq.runs.adapt_stage import adapt_group
from idaq.runs.directory import RunDir
from idaq.runs.results import MAX_RETURN, save_arrays
from idaq.runs.run import Run
from idaq.runs.statistics import bootstrap_intervals
from idaq.storage.checked import check_axes, is_finite, read_arrays
from idaq.storage.dataset import Dataset
from idaq.types import AnyArray

if TYPE_CHECKING:
    from idaq.bench.cells import Cell

REMEDY = "Remove it and go on with `idaq bench run`."


def write_curve(run: Run, cell: "Cell", dataset: Dataset, rollouts: Rollouts) -> None:
    """`curve.npz`: `updates` [points], and per method the final returns [points, seeds, tasks]."""
    config = run.config
    every = cell.curve_updates(config)
    updates = list(range(every, config.train.num_updates + 1, every))
    arrays: dict[str, AnyArray] = {"updates": np.asarray(updates)}
    for adaptation in cell.adaptations:
        settings = adaptation.config(config)
        adapter = make_adapter(adaptation.method, settings, run.algorithm)
        given = dataset if METHODS[adaptation.method].is_given_logs else None
        points = []
        for num in updates:
            found = [
                adapt_group(run, rollouts, adapter, settings, group, given, num)
                for group in run.groups()
            ]
            final = [seed["returns"][:, -1] for group in found for seed in group]
            points.append(np.stack(final))
        arrays[adaptation.name] = np.stack(points)
    save_arrays(curve_file(run.directory), arrays)


@dataclass(frozen=True)
class LearningCurve:
    """Test returns during training, averaged over tasks."""

    updates: NDArray[np.int64]  # [points]
    returns: dict[str, NDArray[np.float64]]  # per method, [points, seeds]

    def intervals(self, name: str) -> NDArray[np.float64]:
        """Intervals over seeds at every point, [points, 2]; none if there is one seed."""
        means = self.returns[name]
        return bootstrap_intervals(means) if means.shape[1] > 1 else np.zeros((0, 2))


def learning_curve(run: RunDir) -> LearningCurve | None:
    """What `write_curve` wrote, if it did."""
    file = curve_file(run)
    if not file.is_file():
        return None
    arrays = read_arrays(file, REMEDY)
    check_axes(arrays, dict.fromkeys(arrays, "pst") | {"updates": "p"}, file, REMEDY)
    is_whole = "updates" in arrays and len(arrays) > 1 and all(a.size for a in arrays.values())
    if not is_whole or not all(is_finite(each, MAX_RETURN) for each in arrays.values()):
        raise IdaqError(f"'{file}' is no learning curve.", REMEDY)
    updates = arrays.pop("updates")
    returns = {name: np.asarray(array, np.float64).mean(axis=2) for name, array in arrays.items()}
    return LearningCurve(updates, returns)
