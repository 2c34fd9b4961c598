"""The layout of a run directory: its paths, not their contents.

RUN/run.json              what the run is: family, preset, resolved config, data, versions
RUN/data/                 the dataset, if `idaq run` collected it
RUN/dataset.json          returns and successes of the data, per task: what scores are relative to
RUN/seeds.json            the groups of seeds that train together
RUN/train/GROUP.safetensors   a group's latest checkpoint, while it trains
RUN/seeds/seed-000/       split.json, agent.safetensors, metrics.jsonl, tensorboard/; for learning
                          curves also agent-00000100.safetensors, after that many updates
RUN/adapt/NAME/           config.json and raw results per seed, seed-000.npz
RUN/summary.json          one row per method, computed from the raw results
RUN/timing.json           wall times of the stages
RUN/figures/
RUN/videos/               NAME-task-00.gif, if `idaq adapt --video` made one

Behaviour policies are trained in a directory that is locked in the same way; it has a run.json, the
policies (see `idaq.behaviour.ladder`), state.safetensors and metrics.jsonl. A benchmark's runs may
have probe.npz and curve.npz. Anything else in there is the user's.
"""

from contextlib import AbstractContextManager
from pathlib import Path

from idaq.storage.claim import LOCK_FILE, held
from idaq.storage.layout import MANIFEST_FILE, RUN


class RunDir:
    """Paths of one run, and its lock."""

    def __init__(self, path: "RunDir | Path | str") -> None:
        self.path: Path = path.path if isinstance(path, RunDir) else Path(path)

    @property
    def manifest_file(self) -> Path:
        return self.path / MANIFEST_FILE

    @property
    def lock_file(self) -> Path:
        return self.path / LOCK_FILE

    def locked(self) -> AbstractContextManager[None]:
        """Hold the directory, so that two processes never write to one run."""
        return held(self.path, RUN)

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def dataset_file(self) -> Path:
        return self.path / "dataset.json"

    @property
    def groups_file(self) -> Path:
        return self.path / "seeds.json"

    @property
    def summary_file(self) -> Path:
        return self.path / "summary.json"

    @property
    def timing_file(self) -> Path:
        return self.path / "timing.json"

    @property
    def figures(self) -> Path:
        return self.path / "figures"

    def video_file(self, name: str, task: int) -> Path:
        return self.path / "videos" / f"{name}-task-{task:02d}.gif"

    @property
    def checkpoints(self) -> Path:
        return self.path / "train"

    def checkpoint_file(self, seeds: list[int]) -> Path:
        return self.checkpoints / f"seeds-{seeds[0]:03d}-{seeds[-1]:03d}.safetensors"

    def seed(self, seed: int) -> Path:
        return self.path / "seeds" / f"seed-{seed:03d}"

    def agent_file(self, seed: int, updates: int | None = None) -> Path:
        """A seed's final agent, or the one after that many updates."""
        name = "agent" if updates is None else f"agent-{updates:08d}"
        return self.seed(seed) / f"{name}.safetensors"

    def adapt(self, name: str) -> Path:
        return self.path / "adapt" / name

    def adapt_config_file(self, name: str) -> Path:
        return self.adapt(name) / "config.json"

    def result_file(self, name: str, seed: int) -> Path:
        return self.adapt(name) / f"seed-{seed:03d}.npz"

    def adapt_names(self) -> list[str]:
        """The names under which adaptation results are stored."""
        return sorted(file.parent.name for file in self.path.glob("adapt/*/config.json"))
