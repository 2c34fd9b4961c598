"""A ladder of policies: the checkpoints along one training, each with its evaluation.

DIR/ladder.json             what was trained, how, where; the rungs with their returns
DIR/rung-000.safetensors    the policy's parameters at one of them

The directory in which policies are trained and the one that ships with the package look alike. The
rungs that log a quality are chosen by *progress*: 0 at the untrained policy's return, 1 at the
reference, which is the scripted expert's return or, where there is none, the best rung's.
"""

import shutil
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from idaq.behaviour.sac import Sac, SacConfig
from idaq.config import Json, from_dict, to_dict
from idaq.envs import get_family
from idaq.envs.family import TaskFamily, traits_of
from idaq.errors import IdaqError
from idaq.storage import checkpoint
from idaq.storage.atomic import atomic_directory, write_json
from idaq.storage.checked import (
    Check,
    is_count,
    is_number,
    is_object,
    is_text,
    list_of,
    or_none,
    read_object,
    with_fields,
)
from idaq.storage.layout import LADDER_FILE
from idaq.types import PyTree

FORMAT_VERSION = 1
MAX_RUNGS = 12  # that log data, evenly along the progress
MEDIUM = (0.5, 0.8)  # the progress of policies of medium quality: about two thirds on average
CONDITION_STD_FLOOR = 1e-6

FIELDS: dict[str, Check] = {  # of ladder.json
    **dict.fromkeys(("format_version", "family_version", "algo_version"), is_count),
    **{"family": is_text, "sac": is_object, "expert_return": or_none(is_number)},
    **{"rungs": list_of(is_object), "provenance": is_object},
}

LadderQuality = Literal["expert", "medium", "replay"]
QUALITIES_OF_LADDERS: tuple[LadderQuality, ...] = ("expert", "medium", "replay")
_REMEDY = "Restore the directory from a copy, or train anew."


@dataclass(frozen=True, kw_only=True)
class Rung:
    """One checkpoint: how far the training was, and what the policy returned over all tasks."""

    number: int
    updates: int
    steps: int  # of the environments
    mean_return: float  # with actions drawn from the policy, as data is logged
    mode_return: float  # with the policy's mode
    success: float | None = None  # share of episodes, drawn actions

    @property
    def file_name(self) -> str:
        return f"rung-{self.number:03d}.safetensors"


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """The rungs of one training, and all that is known about it."""

    path: Path
    family: str
    family_version: int
    algo_version: int
    sac: SacConfig
    expert_return: float | None  # of the family's scripted expert
    rungs: tuple[Rung, ...]
    provenance: Json

    def save(self) -> None:
        """Write ladder.json."""
        content = {
            "format_version": FORMAT_VERSION,
            "family": self.family,
            "family_version": self.family_version,
            "algo_version": self.algo_version,
            "sac": to_dict(self.sac),
            "expert_return": self.expert_return,
            "rungs": [asdict(rung) for rung in self.rungs],
            "provenance": self.provenance,
        }
        write_json(self.path / LADDER_FILE, content)

    def save_rung(self, rung: Rung, policy: PyTree) -> None:
        """Write the parameters of a rung that is not listed yet."""
        metadata = {"family": self.family, **asdict(rung)}
        checkpoint.save(self.path / rung.file_name, policy, metadata)

    def load_policy(self, rung: Rung, sac: Sac) -> PyTree:
        """The parameters of a rung."""
        file = self.path / rung.file_name
        policy, header = checkpoint.load(file, sac.agent_shapes())
        if header.get("family") != self.family or header.get("updates") != rung.updates:
            raise IdaqError(f"'{file}' is not the rung that {LADDER_FILE} lists.", _REMEDY)
        return policy

    # --- Which rungs log what ---

    @cached_property
    def best(self) -> Rung:
        return max(self.rungs, key=lambda rung: rung.mean_return)

    def progress(self, rung: Rung) -> float:
        """From the untrained policy's return (0) to the reference (1)."""
        first = self.rungs[0].mean_return
        reference = self.best.mean_return if self.expert_return is None else self.expert_return
        return (rung.mean_return - first) / max(reference - first, 1e-9)

    def thinned(self) -> tuple[Rung, ...]:
        """Rungs up to the best, evenly along the progress: what a package ships."""
        rising = self.rungs[: self.rungs.index(self.best) + 1]
        progress = np.array([self.progress(rung) for rung in rising])
        targets = np.linspace(0.0, progress[-1], MAX_RUNGS)
        chosen = {int(np.abs(progress - target).argmin()) for target in targets}
        return tuple(rising[index] for index in sorted(chosen))

    def chosen(self, quality: LadderQuality) -> tuple[Rung, ...]:
        """The rungs that log data of a quality; each logs equally many episodes."""
        if quality == "expert":
            return (self.best,)
        if quality == "replay":
            return self.thinned()
        low, high = MEDIUM
        medium = tuple(r for r in self.thinned() if low <= self.progress(r) <= high)
        if not medium:
            found = ", ".join(f"{self.progress(rung):.2f}" for rung in self.thinned())
            raise IdaqError(
                f"No policy in '{self.path}' is of medium quality: their progress is {found}.",
                f"Train on until one is between {low} and {high}, or evaluate more often.",
            )
        return medium


def conditions(family: TaskFamily) -> NDArray[np.float32]:
    """What a behaviour policy is told of every task: its parameters, standardised, [tasks, n].

    They are standardised as the tasks were that the policy was trained on.
    """
    policies_of = traits_of(family).policies_of
    trained_on = get_family(policies_of) if policies_of else family
    params, known = _params(family), _params(trained_on)
    std = np.maximum(known.std(axis=0), CONDITION_STD_FLOOR)
    varies = known.std(axis=0) > CONDITION_STD_FLOOR
    standardised = np.where(varies, (params - known.mean(axis=0)) / std, 0.0)
    return standardised.astype(np.float32)


def _params(family: TaskFamily) -> NDArray[np.float64]:
    return family.task_params.reshape(family.num_tasks, -1).astype(np.float64)


def load_ladder(path: Path, family: TaskFamily) -> Ladder:
    """Read ladder.json, which must be of that family."""
    file = path / LADDER_FILE
    if not file.is_file():
        raise IdaqError(
            f"'{path}' holds no behaviour policies: it has no {LADDER_FILE}.",
            "Train some with `idaq behaviour`, or correct the path.",
        )
    content = read_object(file, _REMEDY, **FIELDS)
    if content["format_version"] != FORMAT_VERSION:
        raise IdaqError(f"'{file}' has format {content['format_version']}.", _REMEDY)
    ladder = Ladder(
        path=path,
        family=content["family"],
        family_version=content["family_version"],
        algo_version=content["algo_version"],
        sac=from_dict(SacConfig, content["sac"], f"'{file}': sac"),
        expert_return=content["expert_return"],
        rungs=tuple(read_rungs(content["rungs"], f"'{file}'")),
        provenance=content["provenance"],
    )
    if not ladder.rungs:
        raise IdaqError(f"'{file}' lists no policies.", "Let the training reach its evaluation.")
    if ladder.family not in families_of_policies(family):
        raise IdaqError(
            f"'{path}' holds behaviour policies of '{ladder.family}', not of '{family.name}'.",
            "Give the directory of that family's.",
        )
    of_another_version = ladder.family == family.name and ladder.family_version != family.version
    if of_another_version or ladder.algo_version != Sac.version:
        raise IdaqError(
            f"'{path}' holds policies of version {ladder.family_version} of '{ladder.family}' and "
            f"version {ladder.algo_version} of SAC, not of today's.",
            "Train them anew.",
        )
    return ladder


def read_rungs(saved: list[Json], where: str) -> list[Rung]:
    """Rungs as they are listed in a ladder and in the state of a training."""
    rungs = [from_dict(Rung, each, f"{where}: rung") for each in saved]
    for rung in saved:
        with_fields(rung, where, _REMEDY, number=is_count, updates=is_count, steps=is_count)
    return rungs


def families_of_policies(family: TaskFamily) -> tuple[str, ...]:
    """The families whose policies can log a family's data: itself, and one of the same tasks."""
    return tuple(filter(None, (family.name, traits_of(family).policies_of)))


def ladder_policy(ladder: Ladder, family: TaskFamily) -> Sac:
    """The algorithm whose agents the rungs are; it draws its actions."""
    return Sac(ladder.sac, family.spec, conditions(family).shape[1])


def ship(ladder: Ladder, path: Path) -> Ladder:
    """Copy the rungs that log data to a new directory, such as the package's own."""
    if path.exists():
        raise IdaqError(f"'{path}' exists already.", "Choose another directory or remove it.")
    shipped = replace(ladder, path=path, rungs=ladder.thinned())
    with atomic_directory(path) as directory:
        for rung in shipped.rungs:
            shutil.copyfile(ladder.path / rung.file_name, directory / rung.file_name)
        replace(shipped, path=directory).save()
    return shipped


def ladder_rows(ladder: Ladder) -> list[Json]:
    """The rungs for people: how far the training was, what they return, what they log."""
    rows = []
    for rung in ladder.rungs:
        logs = [q for q in QUALITIES_OF_LADDERS if rung in _logs(ladder, q)]
        rows.append(
            {
                "rung": rung.number,
                "updates": rung.updates,
                "steps": rung.steps,
                "return": round(rung.mean_return, 2),
                "mode_return": round(rung.mode_return, 2),
                "success": None if rung.success is None else round(rung.success, 3),
                "progress": round(ladder.progress(rung), 3),
                "logs": logs,
            }
        )
    return rows


def _logs(ladder: Ladder, quality: LadderQuality) -> tuple[Rung, ...]:
    try:
        return ladder.chosen(quality)
    except IdaqError:  # none is of that quality yet
        return ()
