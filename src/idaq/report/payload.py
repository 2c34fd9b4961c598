"""What the page shows of some runs, as JSON: tables, curves, and every episode of adaptation.

Arrays are base64 of little-endian numbers: `f` float32, `b` uint8, `p` positions as int16 with a
scale. A page must open quickly, so trajectories beyond `MAX_PATH_BYTES` are left out.
"""

import base64
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from idaq.bench.published import published, published_score
from idaq.config import Json
from idaq.errors import IdaqError
from idaq.report import style
from idaq.runs.directory import RunDir
from idaq.runs.labels import subject_of
from idaq.runs.results import adaptation_config, anytime_returns, load_seeds, thresholds
from idaq.runs.run import Run, RunPlace
from idaq.runs.statistics import bootstrap_intervals
from idaq.runs.summary import data_quality, saved_summary, summary_of
from idaq.settings import AdaptConfig
from idaq.storage.checked import REMEDY, is_count, or_none
from idaq.storage.dataset import Dataset
from idaq.storage.metrics import FILE_NAME, read_metrics
from idaq.types import AnyArray

MAX_PATH_BYTES = 5_000_000  # of trajectories on a page, before base64; first seeds may double it
DATA_PATHS = 6  # logged trajectories per task, besides the episodes
_CELL_NAME = re.compile(r"^cells/(.+-[0-9a-f]{6})[0-9a-f]{10}(-curve)?$")  # of a benchmark
NEEDED_ARRAYS = {"tasks", "kept"}  # besides the returns


def find_runs(places: Sequence[Path]) -> dict[str, RunDir]:
    """The run directories that the places are or hold, each once, by a short name."""
    found: dict[str, RunDir] = {}
    for place in places:
        files = [place / "run.json"] if (place / "run.json").is_file() else []
        for file in files or sorted(place.rglob("run.json")):
            below = file.parent.relative_to(place).as_posix().removeprefix(".")
            below = _CELL_NAME.sub(r"\1\2", below)
            name = "/".join(filter(None, [place.resolve().name, below]))
            if file.parent.resolve() not in [run.path.resolve() for run in found.values()]:
                found[_new_name(name, found)] = RunDir(file.parent)
    if not found:
        names = ", ".join(f"'{place}'" for place in places)
        raise IdaqError(f"There is no run in {names}.", "Make one with `idaq run`.")
    return found


def _new_name(name: str, taken: Iterable[str]) -> str:
    names = [name, *(f"{name} ({number})" for number in range(2, 1_000))]
    return next(each for each in names if each not in taken)


class Unreadable:
    """What could not be read: it is listed, and does not take the rest of the page away."""

    def __init__(self) -> None:
        self.found: list[Json] = []

    def without(self, names: Iterable[str], make: Callable[[str], Json | None]) -> list[Json]:
        """What is made of each name, if it is anything and can be read."""
        made = []
        for name in names:
            try:
                made.append(make(name))
            except (IdaqError, OSError) as error:
                self.found.append({"name": name, "problem": str(error)})
        return [each for each in made if each is not None]


class Budget:
    """How many bytes of trajectories the page may still hold."""

    def __init__(self, left: int) -> None:
        self.left = left

    def takes(self, array: AnyArray, is_first: bool) -> bool:
        """Count an array if there is room for it; first seeds may overdraw by `MAX_PATH_BYTES`."""
        left = self.left - array.nbytes
        if left < (-MAX_PATH_BYTES if is_first else 0):
            return False
        self.left = left
        return True


def run_payload(run: RunPlace, name: str, budget: Budget) -> Json:
    """One run: what it is, its table, its curves and its episodes."""
    run = Run.open(run)
    identity, provenance = run.identity, run.manifest.provenance
    summary = _summary(run)
    seeds, names = run.seeds(), [row["method"] for row in summary["rows"]]
    configs = {
        each: adaptation_config(run.directory, each)
        for each in names
        if run.directory.adapt_config_file(each).is_file()
    }
    looks = style.looks(names, identity.algo, configs)
    methods = [_method(run.directory, each, looks[each], seeds, budget) for each in names]
    return {
        "name": name,
        "family": identity.family,
        "subject": subject_of(
            identity.family, data_quality(run.directory), identity.algo, sorted(identity.components)
        ),
        "preset": identity.preset,
        "split": identity.split,
        "seeds": summary["seeds"],
        "updates": _num_updates(run),
        "device": provenance.device,
        "commit": provenance.git.commit[:10] if provenance.git else "",
        "rows": [_row(identity.family, summary, row) for row in summary["rows"]],
        "methods": methods,
        "scene": _scene(run, methods),
        "progress": _progress(run, summary),
    }


def _num_updates(run: Run) -> int | None:
    """The updates of one seed; None if the run does not say."""
    train = run.identity.config.get("train", {})
    number = train.get("num_updates") if isinstance(train, dict) else train
    if not or_none(is_count)(number):
        raise IdaqError(f"'{run.directory.manifest_file}' has no usable 'num_updates'.", REMEDY)
    return number


def _summary(run: Run) -> Json:
    """The saved summary if it covers the results that are there, else a new one."""
    place = run.directory
    saved = saved_summary(run)
    if saved is None or saved["seeds"] != run.seeds():
        return summary_of(run)
    names = {row["method"] for row in saved["rows"]}
    return saved if names == set(place.adapt_names()) else summary_of(run)


def _row(family: str, summary: Json, row: Json) -> Json:
    """A row of the table of runs: a method's number beside the paper's."""
    what = "score" if "score" in row else "mean"
    find = published_score if "score" in row else published
    quality = summary.get("quality", "expert")
    paper = find(family, row["method"], row["algo"], quality)
    value = row[what]
    return {
        "method": row["method"],
        "what": "score" if what == "score" else "return",
        "value": value,
        "interval": row.get("score_ci95" if what == "score" else "ci95"),
        "return": row["mean"],
        "success": row.get("success"),
        "paper": paper.mean if paper else None,
        "paperWidth": paper.ci95 if paper else None,
        "episodes": row["episodes"],
        "tasks": row["tasks"],
    }


def _method(run: RunDir, name: str, look: style.Look, seeds: list[int], budget: Budget) -> Json:
    config = adaptation_config(run, name)
    found = load_seeds(run, name, seeds)
    if not all(each.keys() >= NEEDED_ARRAYS for each in found):
        raise IdaqError(
            f"The results in '{run.adapt(name)}' lack arrays of {sorted(NEEDED_ARRAYS)}.",
            "Remove them and adapt again with `resume=True`.",
        )
    curve, band = _curve([each["returns"] for each in found])
    shorter = [anytime_returns(each) for each in found]
    known = [each for each in shorter if each is not None]
    anytime, anytime_band = _curve(known if len(known) == len(found) else [])
    return {
        "name": name,
        "label": look.label,
        "colour": look.colour,
        "reference": config.num_reference_episodes,
        "judged": "uncertainty" in found[0],
        "curve": curve,
        "band": band,
        "anytime": anytime,
        "anytimeBand": anytime_band,
        "seeds": [_seed(each, config, budget, place == 0) for place, each in enumerate(found)],
    }


def _curve(seeds: list[AnyArray]) -> tuple[list[float], list[list[float]]]:
    """Means over tasks and seeds, and their intervals over seeds, of arrays [tasks, episodes]."""
    if not seeds:
        return [], []
    means = np.stack([each.mean(axis=0) for each in seeds])  # [seeds, episodes]
    intervals = bootstrap_intervals(means.T) if len(seeds) > 1 else np.zeros((0, 2))
    curve = [round(float(value), 4) for value in means.mean(axis=0)]
    return curve, intervals.round(4).tolist()


def _seed(arrays: dict[str, AnyArray], config: AdaptConfig, budget: Budget, is_first: bool) -> Json:
    """Every episode of one seed: [tasks, episodes]."""
    seed: Json = {
        "tasks": arrays["tasks"].tolist(),
        "episodes": int(arrays["returns"].shape[1]),
        "returns": _floats(arrays["returns"]),
        "kept": _bytes(arrays["kept"]),
    }
    if "success" in arrays:
        seed["success"] = _bytes(arrays["success"])
    if "uncertainty" in arrays:
        seed["uncertainty"] = _floats(arrays["uncertainty"])
        seed["threshold"] = _floats(thresholds(arrays, config))
    positions = arrays.get("observations")
    if positions is not None and positions.shape[-1] == 2:
        packed = pack_positions(positions)
        if budget.takes(packed, is_first):
            seed["paths"] = _encode(packed)
            seed["steps"] = _floats(arrays["valid"].sum(axis=-1))
    return seed


def _scene(run: Run, methods: list[Json]) -> Json | None:
    """Goals and some logged trajectories; None if no positions are drawn."""
    if not any("paths" in seed for method in methods for seed in method["seeds"]):
        return None
    try:
        dataset = run.find_data()
    except IdaqError:
        dataset = None
    if dataset is None:
        return {"goals": None, "data": None}
    goals, logged = _goals(dataset), []
    for task in range(dataset.num_tasks):
        indices = dataset.task_episodes(task)[:DATA_PATHS]
        rows = [dataset.episode(int(index)) for index in indices]
        if len({len(each["rewards"]) for each in rows}) != 1:
            return {"goals": goals, "data": None}
        paths = [np.concatenate([e["observations"][:1], e["next_observations"]]) for e in rows]
        logged.append(np.stack(paths))
    packed = pack_positions(np.stack(logged))
    return {
        "goals": goals,
        "data": _encode(packed),
        "dataShape": list(packed.shape),
    }


def _goals(dataset: Dataset) -> list[list[float]] | None:
    """The task parameters of a family whose tasks are places on a plane."""
    try:
        goals = np.asarray(dataset.metadata.get("task_params"), np.float64)
    except (TypeError, ValueError):
        return None
    return goals.tolist() if goals.shape == (dataset.num_tasks, 2) else None


def _progress(run: Run, summary: Json) -> Json:
    """How far along the run is."""
    seeds, total, place = run.seeds(), _num_updates(run) or 0, run.directory
    trained = []
    for seed in seeds:
        if place.agent_file(seed).is_file() or not place.checkpoints.is_dir():
            trained.append(total)
        else:
            lines = read_metrics(place.seed(seed) / FILE_NAME)
            trained.append(int(lines[-1]["update"]) if lines else 0)
    complete = {row["method"] for row in summary["rows"]}
    unfinished = [name for name in place.adapt_names() if name not in complete]
    if sum(trained) < total * len(seeds) or not seeds:
        state = "training"
    else:
        state = "adapting" if unfinished or not complete else "done"
    return {"state": state, "updates": sum(trained), "of": total * len(seeds), "open": unfinished}


# --- Arrays ---------------------------------------------------------------------------------

POSITION_SCALE = 4_000.0  # int16 steps per unit: a quarter of a millimetre where a unit is a metre


def pack_positions(positions: AnyArray) -> NDArray[np.int16]:
    """Positions as 16-bit numbers; the few beyond eight units are clipped."""
    limits = np.iinfo(np.int16)
    scaled = np.nan_to_num(positions * POSITION_SCALE)
    return np.clip(np.round(scaled), limits.min, limits.max).astype("<i2")


def _floats(values: AnyArray) -> str:
    return _encode(values.astype("<f4"))


def _bytes(values: AnyArray) -> str:
    return _encode(values.astype(np.uint8))


def _encode(values: AnyArray) -> str:
    return base64.b64encode(np.ascontiguousarray(values).tobytes()).decode("ascii")
