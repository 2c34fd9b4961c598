"""collect -> train -> adapt -> summary, on a run directory; the command line's Python twin.

Every stage skips what is done, so that an interrupted run goes on where it stopped.
"""

import dataclasses
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from idaq import checkpoint
from idaq.adapt import DEFAULT_METHODS, check_method, make_adapter, method_names, needs_models
from idaq.adapt.base import Adapter
from idaq.adapt.config import AdaptConfig
from idaq.algos import make_algorithm
from idaq.algos.base import Algorithm
from idaq.atomic import atomic_file, remove, write_json
from idaq.config import from_dict, to_dict
from idaq.data.collect import DEFAULT_TRAJECTORIES, check_collection, collect, library_versions
from idaq.data.episodes import expert_episodes
from idaq.data.store import Dataset, open_dataset, read_metadata
from idaq.device import find_device
from idaq.envs import get_family
from idaq.envs.base import TaskFamily, check_seed, split_tasks, validation_split
from idaq.errors import IdaqError
from idaq.evaluate import evaluate
from idaq.presets import RunConfig, resolve
from idaq.progress import ProgressBar
from idaq.run_dir import RunDir, git_state, read_json
from idaq.summary import summarise
from idaq.train import train_data, train_group
from idaq.types import PyTree, TaskSplit

Split = Literal["test", "validation"]
ADAPT_STREAM = 2  # what a seed's key is folded with; training uses 0 and 1
MAX_SEEDS = 10_000
RESULT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")  # a directory of RUN/adapt


@dataclass(frozen=True, kw_only=True)
class Seeds:
    """Seeds first .. first + count - 1, and how many train together (0: chosen by device)."""

    count: int = 3
    first: int = 0
    at_once: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.count <= MAX_SEEDS:
            raise IdaqError(f"--seeds is {self.count}.", f"Give 1 to {MAX_SEEDS:,}.")
        check_seed(self.first)
        check_seed(self.first + self.count - 1)
        if self.at_once < 0:
            raise IdaqError(f"--seeds-at-once is {self.at_once}.", "Give 0 (automatic) or more.")

    def all(self) -> list[int]:
        return list(range(self.first, self.first + self.count))


@contextmanager
def open_run(
    run: RunDir,
    *,
    family: TaskFamily,
    preset: str,
    config: RunConfig,
    data: dict[str, Any],
    split: Split,
    resume: bool,
    dataset_path: Path | None = None,
) -> Iterator[None]:
    """Hold the run directory for a new run, or for the same one to go on with."""
    algorithm = make_algorithm(config.algorithm, family.spec)
    identity = {
        "family": family.name,
        "family_version": family.version,
        "algo": algorithm.name,
        "algo_version": algorithm.version,
        "preset": preset,
        "split": split,
        "data": data,
        "config": to_dict(config),
    }
    device = find_device()
    provenance = {
        "versions": library_versions(),
        "git": git_state(),
        "device": f"{device.platform}: {device.device_kind}",
        "dataset": str(dataset_path.resolve()) if dataset_path else None,
    }
    with run.claimed(identity, provenance, resume):
        yield


def collect_into(run: RunDir, family: TaskFamily, trajectories: int, seed: int) -> Dataset:
    """The run's own dataset, collected if it is not there yet."""
    if not run.data.exists():
        started = time.monotonic()
        collect(family, run.data, trajectories=trajectories, seed=seed)
        run.record_time("collect_s", time.monotonic() - started)
    return _open_run_data(run, run.data, family)


def _open_run_data(run: RunDir, path: Path, family: TaskFamily) -> Dataset:
    """A dataset that must be the one that the run is made from."""
    dataset = open_dataset(path, family.spec)
    check_dataset_family(dataset, family)
    generator, quality = dataset.metadata.get("generator"), dataset.metadata.get("quality")
    actual = {"sha256": dataset.fingerprint, "quality": quality}
    actual |= generator if isinstance(generator, dict) else {}
    expected = run.manifest()["identity"]["data"]
    if any(actual.get(key) != value for key, value in expected.items()):
        raise IdaqError(
            f"'{path}' is not the data that '{run.path}' was made from.",
            "Restore that dataset, or name it with --data.",
        )
    return dataset


def plan_groups(run: RunDir, seeds: Seeds) -> list[list[int]]:
    """The groups of seeds: those of the run so far, and new ones for seeds that are new."""
    groups = run.groups()
    known = {seed for group in groups for seed in group}
    wanted = seeds.all()
    if not known <= set(wanted):
        raise IdaqError(
            f"'{run.path}' has seeds {sorted(known)} and this asks for {wanted}.",
            f"Ask for at least those: --first-seed {min(known)} --seeds "
            f"{max(known) - min(known) + 1}.",
        )
    new = [seed for seed in wanted if seed not in known]
    size = seeds.at_once or (1 if jax.default_backend() == "cpu" else max(len(new), 1))
    groups = sorted(groups + [new[i : i + size] for i in range(0, len(new), size)])
    write_json(run.groups_file, groups)
    return groups


def split_of(run: RunDir, family: TaskFamily, seed: int) -> TaskSplit:
    """The tasks of a seed: for testing, or a split of the training tasks for validation."""
    validation = run.manifest()["identity"]["split"] == "validation"
    return (validation_split if validation else split_tasks)(family.num_tasks, seed)


def run_config(run: RunDir) -> RunConfig:
    """The resolved configuration of a run."""
    where = f"'{run.manifest_file}': config"
    return from_dict(RunConfig, run.manifest()["identity"]["config"], where)


def train_run(run: RunDir, dataset: Dataset, seeds: Seeds, quiet: bool = False) -> None:
    """Train every seed that has no agent yet."""
    family, config = get_family(run.manifest()["identity"]["family"]), run_config(run)
    check_dataset_family(dataset, family)
    algorithm = make_algorithm(config.algorithm, family.spec)
    groups = plan_groups(run, seeds)
    todo = [g for g in groups if not all(run.agent_file(seed).is_file() for seed in g)]
    total = config.train.num_updates * sum(len(group) for group in groups)
    done = config.train.num_updates * sum(len(g) for g in groups if g not in todo)
    if todo:
        with ProgressBar(f"training {family.name}", total, "updates", quiet) as bar:
            for group in todo:
                _train_group(run, dataset, family, algorithm, config, group, bar, done)
                done += config.train.num_updates * len(group)
    remove(run.checkpoints)


def _train_group(
    run: RunDir,
    dataset: Dataset,
    family: TaskFamily,
    algorithm: Algorithm,
    config: RunConfig,
    group: list[int],
    bar: ProgressBar,
    done_before: int,
) -> None:
    started = time.monotonic()
    splits = [split_of(run, family, seed) for seed in group]
    data = train_data(dataset, algorithm, [split.train for split in splits])
    agents = train_group(
        algorithm,
        config.train,
        data,
        group,
        run.checkpoint_file(group),
        [run.seed(seed) for seed in group],
        lambda done: bar.advance_to(done_before + done * len(group)),
    )
    for seed, agent in zip(group, agents, strict=True):
        _check_finite(agent, seed)
    for seed, split, agent in zip(group, splits, agents, strict=True):
        tasks = {"train": split.train.tolist(), "test": split.test.tolist()}
        write_json(run.seed(seed) / "split.json", tasks)
        metadata = {"seed": seed, "num_train_tasks": len(split.train)}
        checkpoint.save(run.agent_file(seed), agent, metadata)
    run.record_time(f"train_seeds_{group[0]}_to_{group[-1]}_s", time.monotonic() - started)
    remove(run.checkpoint_file(group))


def _check_finite(agent: PyTree, seed: int) -> None:
    if not all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(agent)):
        raise IdaqError(
            f"The training of seed {seed} diverged: its weights are NaN or infinite.",
            "Lower the learning rates, or look for extreme values in the data.",
        )


def check_dataset_family(dataset: Dataset, family: TaskFamily) -> None:
    """Refuse data of another family or another number of tasks."""
    if dataset.family != family.name or dataset.num_tasks != family.num_tasks:
        raise IdaqError(
            f"'{dataset.path}' is data of {dataset.family} ({dataset.num_tasks} tasks), "
            f"and the run is of {family.name} ({family.num_tasks} tasks).",
            f"Collect data with `idaq collect {family.name}`.",
        )


def dataset_family(path: Path) -> TaskFamily:
    """The task family that a dataset is of."""
    return get_family(read_metadata(path)["family"])


def adapt_run(
    run: RunDir,
    method: str,
    *,
    config: AdaptConfig | None = None,
    name: str | None = None,
    data: Path | None = None,
    resume: bool = False,
) -> None:
    """Adapt every seed's agent to its test tasks, and store the raw results under `name`."""
    family, resolved = get_family(run.manifest()["identity"]["family"]), run_config(run)
    config, name = config or resolved.adapt, method if name is None else name
    algorithm = make_algorithm(resolved.algorithm, family.spec)
    adapter = make_adapter(method, config, algorithm)
    _check_adaptation(run, method, name, resolved, data)
    identity = {"method": method, "version": adapter.version, "config": to_dict(config)}
    _check_same_results(run, name, identity, resume)
    started = time.monotonic()
    todo = [g for g in run.groups() if not all(run.result_file(name, s).is_file() for s in g)]
    given = _expert_source(run, data, family) if method == "expert-context" and todo else None
    for group in todo:
        results = _adapt_group(run, family, algorithm, adapter, config, group, given)
        write_json(run.adapt(name) / "config.json", identity)
        for seed, arrays in zip(group, results, strict=True):
            place = run.result_file(name, seed)
            with atomic_file(place) as temporary, temporary.open("wb") as file:
                np.savez_compressed(file, **arrays)
    if todo:
        run.record_time(f"adapt_{name}_s", time.monotonic() - started)


def _check_adaptation(
    run: RunDir, method: str, name: str, config: RunConfig, data: Path | None
) -> None:
    """Everything that can be known to be wrong before an episode is run."""
    _check_models(method, config)
    if not RESULT_NAME.fullmatch(name) or (name != method and name in method_names()):
        raise IdaqError(
            f"'{name}' cannot be the --name of results of '{method}'.",
            "Give a name of its own, of letters, digits, '-', '_' and '.'.",
        )
    if data is not None and method != "expert-context":
        raise IdaqError(f"'{method}' takes no --data.", "Only expert-context is given a dataset.")
    missing = [seed for seed in run.seeds() if not run.agent_file(seed).is_file()]
    if missing or not run.seeds():
        raise IdaqError(
            f"'{run.path}' has not finished training (seeds {missing or 'none'}).",
            "Finish it with the same command and --resume.",
        )


def _check_models(method: str, config: RunConfig) -> None:
    if needs_models(method) and config.algorithm.ensemble is None:
        raise IdaqError(
            f"'{method}' needs reward and dynamics models, and this run has none.",
            "Train with --ensemble-size 4, or choose another method.",
        )


def _check_same_results(run: RunDir, name: str, identity: dict[str, Any], resume: bool) -> None:
    file = run.adapt(name) / "config.json"
    if not file.is_file():
        return
    if not resume:
        raise IdaqError(
            f"'{run.adapt(name)}' holds results already.",
            "Add --resume to complete or show them, or give other ones another --name.",
        )
    if read_json(file) != identity:
        raise IdaqError(
            f"'{run.adapt(name)}' was made with other options.",
            "Give the same ones, or store these under another --name.",
        )


def _adapt_group(
    run: RunDir,
    family: TaskFamily,
    algorithm: Algorithm,
    adapter: Adapter,
    config: AdaptConfig,
    group: list[int],
    expert_data: Dataset | None,
) -> list[dict[str, Any]]:
    """The raw results of a group of seeds, one set of arrays per seed."""
    splits = [split_of(run, family, seed) for seed in group]
    agents = [
        _load_agent(run, algorithm, seed, len(split.train))
        for seed, split in zip(group, splits, strict=True)
    ]
    given = None
    if expert_data is not None:
        chosen = [
            expert_episodes(expert_data, family, split.test, seed, config.num_expert_episodes)
            for seed, split in zip(group, splits, strict=True)
        ]
        given = jax.tree.map(lambda *x: jnp.stack(x), *chosen)
    results = evaluate(
        family,
        algorithm,
        adapter,
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *agents),
        jnp.stack([jnp.asarray(split.test, jnp.int32) for split in splits]),
        jnp.stack([jax.random.fold_in(jax.random.key(seed), ADAPT_STREAM) for seed in group]),
        given,
    )
    return [
        {"tasks": split.test} | {key: value[index] for key, value in results.items()}
        for index, split in enumerate(splits)
    ]


def _load_agent(run: RunDir, algorithm: Algorithm, seed: int, num_train_tasks: int) -> PyTree:
    file = run.agent_file(seed)
    agent, header = checkpoint.load(file, algorithm.agent_shapes(num_train_tasks))
    if header.get("seed") != seed:
        raise IdaqError(
            f"'{file}' is the agent of seed {header.get('seed')}.",
            "Remove it and train again with --resume, or restore the file from a copy.",
        )
    return agent


def _expert_source(run: RunDir, data: Path | None, family: TaskFamily) -> Dataset:
    """The data that expert context is taken from: given, the run's own, or that trained on."""
    trained_on = run.manifest()["provenance"].get("dataset")
    place = data or (Path(trained_on) if trained_on else run.data)
    if not place.is_dir():
        raise IdaqError(
            f"Expert context needs the data of '{run.path}', and '{place}' is not there.",
            "Name the dataset with --data.",
        )
    return _open_run_data(run, place, family)


def train_all(
    run: RunDir,
    data: Path,
    *,
    preset: str = "default",
    config: RunConfig | None = None,
    seeds: Seeds | None = None,
    split: Split = "test",
    resume: bool = False,
    quiet: bool = False,
) -> None:
    """Train agents on a dataset: what `idaq train` does."""
    family = dataset_family(data)
    dataset = open_dataset(data, family.spec)
    check_dataset_family(dataset, family)
    with open_run(
        run,
        family=family,
        preset=preset,
        config=config or resolve(preset, family.name),
        data={"sha256": dataset.fingerprint},
        split=split,
        resume=resume,
        dataset_path=data,
    ):
        train_run(run, dataset, seeds or Seeds(), quiet)


def adapt_all(
    run: RunDir,
    method: str,
    *,
    config: AdaptConfig | None = None,
    name: str | None = None,
    data: Path | None = None,
    resume: bool = False,
) -> dict[str, Any]:
    """Adapt a run's agents with one method: what `idaq adapt` does. Returns the summary."""
    run.manifest()  # before a lock is left in a directory that is no run
    find_device()
    with run.locked():
        adapt_run(run, method, config=config, name=name, data=data, resume=resume)
        return summarise(run)


def run_all(
    run: RunDir,
    family: TaskFamily,
    *,
    preset: str = "default",
    config: RunConfig | None = None,
    methods: Sequence[str] = DEFAULT_METHODS,
    seeds: Seeds | None = None,
    trajectories: int = DEFAULT_TRAJECTORIES,
    data_seed: int = 0,
    split: Split = "test",
    resume: bool = False,
    quiet: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """The main job, data, agents, adaptation, summary: what `idaq run` does."""
    config = config or resolve(preset, family.name)
    for method in methods:
        check_method(method)
        _check_models(method, config)
    if not any(needs_models(method) for method in methods):
        config = dataclasses.replace(
            config, algorithm=dataclasses.replace(config.algorithm, ensemble=None)
        )
    check_collection(trajectories, data_seed)
    if "expert-context" in methods and config.adapt.num_expert_episodes > trajectories:
        raise IdaqError(
            f"Expert context of {config.adapt.num_expert_episodes} episodes needs more than "
            f"{trajectories} trajectories per task.",
            "Raise --trajectories, or lower --expert-episodes.",
        )
    data = {"trajectories": trajectories, "seed": data_seed, "quality": "expert"}
    with open_run(
        run, family=family, preset=preset, config=config, data=data, split=split, resume=resume
    ):
        say(f"data: {family.num_tasks} tasks, {trajectories} trajectories each")
        dataset = collect_into(run, family, trajectories, data_seed)
        train_run(run, dataset, seeds or Seeds(), quiet)
        for method in methods:
            say(f"adapting: {method}")
            adapt_run(run, method, resume=True)
        return summarise(run)
