"""`idaq train`, and the options of training."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import arg

from idaq.cli.options import DEFAULT_GRACE, Algorithm, Flag, Grace, Out, PresetInt, Settings, unset
from idaq.cli.output import say
from idaq.settings import DEFAULT_PRESET, DEFAULT_SEEDS, DEFAULT_SPLIT, PresetName, Split

if TYPE_CHECKING:
    from idaq.runs.directory import RunDir
    from idaq.runs.train_stage import Seeds
    from idaq.settings import RunConfig


@dataclass(frozen=True, kw_only=True)
class Training:
    """Options of training that `train` and `run` share."""

    algorithm: Algorithm = ""
    """How agents are meta-trained; it decides which adaptation methods there are."""
    preset: PresetName = DEFAULT_PRESET
    """`default`: our learner and adaptation; `paper`: the paper's hyper-parameters."""
    seeds: int = DEFAULT_SEEDS
    """How many seeds; each has its own split into training and test tasks."""
    first_seed: int = 0
    """The first seed; the others follow it."""
    out: Out = None
    """The run directory; it must be new, or be given with --resume."""
    resume: Flag = False
    """Go on with an interrupted run, or add seeds to it; a finished one is printed."""
    updates: PresetInt = None
    """Number of meta-updates."""
    ensemble_size: PresetInt = None
    """L, the number of reward and dynamics models; 0 trains none."""
    seeds_at_once: Annotated[int, unset("INT", "1 on a CPU, all on a GPU")] = 0
    """How many seeds train as one program."""
    grace: Grace = DEFAULT_GRACE
    """After SIGTERM, how long training may take to save its state; --resume goes on from there."""
    split: Split = DEFAULT_SPLIT
    """`validation` splits the training tasks once more and never touches the test tasks."""
    set: Settings = ()
    """Any setting by its dotted name, e.g. --set algorithm.latent_dim=5 adapt.final=best.
    RUN/run.json lists them all."""

    def resolve(self, family: str) -> "RunConfig":
        import dataclasses

        from idaq.config import override
        from idaq.runs.resolve import resolve, with_ensemble_size

        config = resolve(self.preset, family, self.algorithm)
        if self.updates is not None:
            train = dataclasses.replace(config.train, num_updates=self.updates)
            config = dataclasses.replace(config, train=train)
        if self.ensemble_size is not None:
            config = with_ensemble_size(config, self.ensemble_size)
        for assignment in (each for group in self.set for each in group):
            config = override(config, assignment)
        return config

    @property
    def chosen_seeds(self) -> "Seeds":
        from idaq.runs.train_stage import Seeds

        return Seeds(count=self.seeds, first=self.first_seed, at_once=self.seeds_at_once)

    def run_dir(self, family: str) -> "RunDir":
        from idaq.algos.entries import default_algorithm
        from idaq.runs.directory import RunDir

        named = "" if self.algorithm in ("", default_algorithm()) else f"{self.algorithm}-"
        default = Path("runs") / f"{family}-{named}{self.preset}"
        return RunDir(default if self.out is None else self.out)


@dataclass(frozen=True, kw_only=True)
class Train(Training):
    """Meta-train agents offline on a dataset."""

    data: Annotated[Path, arg(metavar="DIR")]
    """The dataset directory (make one with `idaq collect`)."""

    def run(self) -> None:
        from idaq.algos.entries import ALGORITHMS
        from idaq.runs.api import dataset_family, train_all

        family = dataset_family(self.data)
        config = self.resolve(family.name)
        run = train_all(
            self.run_dir(family.name),
            self.data,
            preset=self.preset,
            config=config,
            seeds=self.chosen_seeds,
            split=self.split,
            resume=self.resume,
        )
        print(f"trained seeds {', '.join(map(str, run.seeds()))}: {run.path}")
        method = ALGORITHMS[config.algorithm.kind].default_methods[0]
        say(f"Next: idaq adapt {run.path} --method {method}")
