"""`idaq collect`: log data."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from idaq.cli.options import Family, Flag, Policies, Workers, unset
from idaq.cli.output import say
from idaq.errors import IdaqError
from idaq.settings import DEFAULT_QUALITY, DEFAULT_TRAJECTORIES, Quality


@dataclass(frozen=True, kw_only=True)
class Collect:
    """Log every task of a family with behaviour policies that know the task."""

    family: Family
    """Name of the task family (see `idaq list`)."""
    quality: Quality = DEFAULT_QUALITY
    """Who logs: the expert, policies from the middle of training (`medium`), policies from all
    stages of training (`replay`), or uniform actions (`random`)."""
    policies: Policies = None
    """Behaviour policies of your own (see `idaq behaviour`)."""
    retrain: Flag = False
    """Train the policies first, in policies/FAMILY, where an interrupted training goes on."""
    out: Annotated[Path | None, unset("DIR", "data/FAMILY")] = None
    """Directory of the new dataset; data/FAMILY-QUALITY where the quality is not expert."""
    trajectories: int = DEFAULT_TRAJECTORIES
    """Episodes per task."""
    seed: int = 0
    """Seed of the behaviour policies' noise."""
    workers: Workers = 0
    """Processes that run simulators."""

    def run(self) -> None:
        from idaq.behaviour.collect import collect
        from idaq.bench.published import dataset_return
        from idaq.engine.pool import WorkerPool
        from idaq.envs import get_family
        from idaq.storage.dataset import open_dataset

        family = get_family(self.family)
        is_default = self.quality == DEFAULT_QUALITY
        name = self.family if is_default else f"{self.family}-{self.quality}"
        out = Path("data") / name if self.out is None else self.out
        policies = self._retrained() if self.retrain else self.policies
        with WorkerPool(self.workers) as pool:
            collect(
                family,
                out,
                trajectories=self.trajectories,
                seed=self.seed,
                quality=self.quality,
                policies=policies,
                pool=pool,
            )
        dataset = open_dataset(out, family.spec)
        paper = dataset_return(family.name, self.quality)
        print(
            f"{out}: {dataset.num_tasks} tasks, {dataset.num_episodes:,} episodes, "
            f"{dataset.num_transitions:,} transitions, mean return "
            f"{dataset.episode_returns().mean():.2f}"
            + (f" (paper: {paper:.2f})" if paper is not None else "")
        )
        say(f"Next: idaq train --data {out}")

    def _retrained(self) -> Path:
        """The directory of policies that have just been trained."""
        from idaq.behaviour.training import policies_to_train, train_policies

        if self.policies is not None:
            raise IdaqError("--retrain trains policies of its own.", "Leave --policies out.")
        found = policies_to_train(self.family, self.quality)
        if found is None:
            raise IdaqError(
                f"{self.quality.capitalize()} data of '{self.family}' is logged by no trained "
                "policy.",
                "Leave --retrain out, or ask for another --quality.",
            )
        family, config = found
        path = Path("policies") / family.name
        train_policies(family, path, config, resume=True, workers=self.workers, say=say)
        return path
