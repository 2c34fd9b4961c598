"""Who logs data of which quality.

| quality | logged by |
|---|---|
| `expert` | the family's scripted expert or, where there is none, the best policy of its ladder |
| `medium` | policies from the middle of the ladder, equally many episodes each |
| `replay` | policies all along the ladder, from the untrained one to the best |
| `random` | uniform actions |

A ladder (`idaq.behaviour.ladder`) comes with the package or from a directory. Policies of a ladder
are told the task and draw their actions; what they log does not contain what they were told.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from idaq.behaviour.ladder import (
    Ladder,
    conditions,
    families_of_policies,
    ladder_policy,
    load_ladder,
)
from idaq.behaviour.uniform import UniformPolicy
from idaq.config import Json
from idaq.engine.policy import Policy
from idaq.envs.family import TaskFamily, has_scripted_expert
from idaq.errors import IdaqError
from idaq.settings import Quality
from idaq.storage.layout import LADDER_FILE
from idaq.types import PyTree

QUALITIES: tuple[str, ...] = get_args(Quality)
WEIGHTS = Path(__file__).parent / "weights"


@dataclass(frozen=True)
class Loggers:
    """Policies that share the work: each logs equally many of every task's episodes."""

    policy: Policy
    agents: Sequence[PyTree]
    conditions: NDArray[np.float32]  # [num_tasks, n]: what they are told of each task
    provenance: Json

    def agent_of(self, trajectories: int) -> NDArray[np.int64]:
        """Which of the agents logs a task's first episode, its second, ..., [trajectories]."""
        return np.arange(trajectories) * len(self.agents) // trajectories

    @property
    def fingerprint(self) -> str | None:
        """Equal policies, equal fingerprint; None where nothing was learned."""
        return self.provenance.get("fingerprint")


def find_loggers(family: TaskFamily, quality: Quality, policies: Path | None) -> Loggers | None:
    """Who logs that quality; None is the family's scripted expert.

    `policies` is a ladder's directory; it takes precedence over scripts and the package's own.
    """
    if quality not in QUALITIES:
        raise IdaqError(
            f"There is no quality '{quality}'.", f"Choose one of {', '.join(QUALITIES)}."
        )
    if quality == "random":
        if policies is not None:
            raise IdaqError("Random data is logged by no policies.", "Leave `policies` out.")
        nothing = np.zeros((family.num_tasks, 0), np.float32)
        return Loggers(UniformPolicy(family.spec), [()], nothing, {"kind": "uniform"})
    if quality == "expert" and policies is None and has_scripted_expert(family):
        return None
    if policies is None:
        policies = shipped_policies(family)
    if policies is None:
        raise IdaqError(
            f"'{family.name}' has no behaviour policies to log {quality} data with.",
            f"It has: {', '.join(qualities_of(family))}. Train some with "
            f"`idaq behaviour {family.name}` and name them with `policies`.",
        )
    return _from_ladder(load_ladder(policies, family), family, quality)


def _from_ladder(ladder: Ladder, family: TaskFamily, quality: Quality) -> Loggers:
    assert quality != "random"
    policy, rungs = ladder_policy(ladder, family), ladder.chosen(quality)
    provenance = {
        "kind": "ladder",
        "family": ladder.family,
        "rungs": [asdict(rung) | {"progress": ladder.progress(rung)} for rung in rungs],
        "fingerprint": _fingerprint(ladder, [rung.file_name for rung in rungs]),
        "trained": ladder.provenance,
    }
    agents = [ladder.load_policy(rung, policy) for rung in rungs]
    return Loggers(policy, agents, conditions(family), provenance)


def _fingerprint(ladder: Ladder, names: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for name in names:
        file = ladder.path / name
        if not file.is_file():
            raise IdaqError(
                f"'{file}' is missing.", "Restore the directory from a copy, or train anew."
            )
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def shipped_policies(family: TaskFamily) -> Path | None:
    """Where the package keeps a ladder that serves the family, if it does."""
    for name in families_of_policies(family):
        if (WEIGHTS / name / LADDER_FILE).is_file():
            return WEIGHTS / name
    return None


def shipped_fingerprint(family: TaskFamily, quality: Quality) -> str | None:
    """That of the package's policies that log the quality; None where none do."""
    place = shipped_policies(family)
    scripted = quality == "expert" and has_scripted_expert(family)
    if place is None or scripted or quality == "random":
        return None
    ladder = load_ladder(place, family)
    return _fingerprint(ladder, [rung.file_name for rung in ladder.chosen(quality)])


def qualities_of(family: TaskFamily) -> list[str]:
    """The qualities that can be logged without training a policy first."""
    has_ladder = shipped_policies(family) is not None
    available = {
        "expert": has_ladder or has_scripted_expert(family),
        "medium": has_ladder,
        "random": True,
        "replay": has_ladder,
    }
    return [quality for quality in QUALITIES if available[quality]]
