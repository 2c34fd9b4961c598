"""collect -> train -> adapt -> summary, on a run directory; the command line's Python twin.

Every stage skips what is done, so that an interrupted run goes on where it stopped.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from idaq import checkpoint
from idaq.adapt import check_method, make_adapter, needs_models
from idaq.adapt.config import AdaptConfig
from idaq.algos import make_algorithm
from idaq.algos.base import Algorithm
from idaq.atomic import atomic_file, remove, write_json
from idaq.config import from_dict, to_dict
from idaq.data.collect import DEFAULT_TRAJECTORIES, collect, library_versions
from idaq.data.store import Dataset, open_dataset
from idaq.envs import get_family
from idaq.envs.base import TaskFamily, check_seed, split_tasks, validation_split
from idaq.errors import IdaqError
from idaq.evaluate import evaluate
from idaq.presets import RunConfig
from idaq.progress import ProgressBar
from idaq.run_dir import RunDir, git_state, read_json
from idaq.summary import summarise
from idaq.train import train_data, train_group
from idaq.types import Episodes, IntArray, TaskSplit

Split = Literal["test", "validation"]
ADAPT_STREAM = 2  # what a seed's key is folded with; training uses 0 and 1


@dataclass(frozen=True, kw_only=True)
class Seeds:
    """Seeds first .. first + count - 1, and how many train together (0: chosen by device)."""

    count: int = 3
    first: int = 0
    at_once: int = 0

    def __post_init__(self) -> None:
        if self.count < 1:
            raise IdaqError(f"--seeds is {self.count}.", "Give at least 1.")
        check_seed(self.first)
        if self.at_once < 0:
            raise IdaqError(f"--seeds-at-once is {self.at_once}.", "Give 0 (automatic) or more.")

    def all(self) -> list[int]:
        return list(range(self.first, self.first + self.count))


def start_run(
    run: RunDir,
    *,
    family: TaskFamily,
    preset: str,
    config: RunConfig,
    data: dict[str, Any],
    split: Split,
    resume: bool,
    dataset_path: Path | None = None,
) -> None:
    """Claim the run directory; nothing else is written before."""
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
    device = jax.devices()[0]
    provenance = {
        "versions": library_versions(),
        "git": git_state(),
        "device": f"{device.platform}: {device.device_kind}",
        "dataset": str(dataset_path.resolve()) if dataset_path else None,
    }
    run.start(identity, provenance, resume)


def collect_into(run: RunDir, family: TaskFamily, trajectories: int, seed: int) -> Dataset:
    """The run's own dataset, collected if it is not there yet."""
    if not run.data.exists():
        started = time.monotonic()
        collect(family, run.data, trajectories=trajectories, seed=seed)
        run.record_time("collect_s", time.monotonic() - started)
    return open_dataset(run.data, family.spec)


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
    size = seeds.at_once or (1 if jax.default_backend() == "cpu" else len(new))
    groups += [new[i : i + size] for i in range(0, len(new), size)]
    write_json(run.groups_file, groups)
    return groups


def split_of(run: RunDir, family: TaskFamily, seed: int) -> TaskSplit:
    """The tasks of a seed: for testing, or a split of the training tasks for validation."""
    validation = run.manifest()["identity"]["split"] == "validation"
    return (validation_split if validation else split_tasks)(family.num_tasks, seed)


def run_config(run: RunDir) -> RunConfig:
    """The resolved configuration of a run."""
    return from_dict(RunConfig, run.manifest()["identity"]["config"])


def train_run(run: RunDir, dataset: Dataset, seeds: Seeds, quiet: bool = False) -> None:
    """Train every seed that has no agent yet."""
    family, config = get_family(run.manifest()["identity"]["family"]), run_config(run)
    check_dataset_family(dataset, family)
    algorithm = make_algorithm(config.algorithm, family.spec)
    groups = plan_groups(run, seeds)
    todo = [g for g in groups if not all(run.agent_file(seed).is_file() for seed in g)]
    total = config.train.num_updates * sum(len(group) for group in groups)
    done = config.train.num_updates * sum(len(g) for g in groups if g not in todo)
    if not todo:
        return
    label = f"training {family.name}"
    with ProgressBar(label, total, "updates", quiet) as bar:
        bar.start_at(done)
        for group in todo:
            _train_group(run, dataset, family, algorithm, config, group, bar, done)
            done += config.train.num_updates * len(group)


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
    for seed, split, agent in zip(group, splits, agents, strict=True):
        tasks = {"train": split.train.tolist(), "test": split.test.tolist()}
        write_json(run.seed(seed) / "split.json", tasks)
        metadata = {"seed": seed, "num_train_tasks": len(split.train)}
        checkpoint.save(run.agent_file(seed), agent, metadata)
    run.record_time(f"train_seeds_{group[0]}_to_{group[-1]}_s", time.monotonic() - started)
    remove(run.checkpoint_file(group))


def check_dataset_family(dataset: Dataset, family: TaskFamily) -> None:
    """Refuse data of another family or another number of tasks."""
    if dataset.family != family.name or dataset.num_tasks != family.num_tasks:
        raise IdaqError(
            f"'{dataset.path}' is data of {dataset.family} ({dataset.num_tasks} tasks), "
            f"and the run is of {family.name} ({family.num_tasks} tasks).",
            f"Collect data with `idaq collect {family.name}`.",
        )


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
    check_method(method)
    family, resolved = get_family(run.manifest()["identity"]["family"]), run_config(run)
    algorithm = make_algorithm(resolved.algorithm, family.spec)
    adapter = make_adapter(method, config or resolved.adapt, algorithm)
    if needs_models(method) and resolved.algorithm.ensemble is None:
        raise IdaqError(
            f"'{method}' needs reward and dynamics models, and '{run.path}' was trained without.",
            "Train again with --ensemble-size 4, or choose idaq-return.",
        )
    groups = run.groups()
    missing = [s for group in groups for s in group if not run.agent_file(s).is_file()]
    if missing or not groups:
        raise IdaqError(
            f"'{run.path}' has not finished training (seeds {missing or 'none'}).",
            "Finish it with the same command and --resume.",
        )
    name = name or method
    adapt_config = to_dict(config or resolved.adapt)
    identity = {"method": method, "version": adapter.version, "config": adapt_config}
    _claim_adapt(run, name, identity, resume)
    started = time.monotonic()
    todo = [g for g in groups if not all(run.result_file(name, s).is_file() for s in g)]
    given = _expert_source(run, data, family) if method == "expert-context" and todo else None
    for group in todo:
        _adapt_group(run, name, family, algorithm, adapter, adapt_config, group, given)
    if todo:
        run.record_time(f"adapt_{name}_s", time.monotonic() - started)


def _claim_adapt(run: RunDir, name: str, identity: dict[str, Any], resume: bool) -> None:
    file = run.adapt(name) / "config.json"
    if not file.is_file():
        write_json(file, identity)
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
    name: str,
    family: TaskFamily,
    algorithm: Algorithm,
    adapter: Any,
    config: dict[str, Any],
    group: list[int],
    expert_data: Dataset | None,
) -> None:
    splits = [split_of(run, family, seed) for seed in group]
    agents = [
        checkpoint.load(run.agent_file(seed), algorithm.agent_shapes(len(split.train)))[0]
        for seed, split in zip(group, splits, strict=True)
    ]
    given = None
    if expert_data is not None:
        num = int(config["num_expert_episodes"])
        chosen = [
            expert_episodes(expert_data, family, split.test, seed, num)
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
    for index, (seed, split) in enumerate(zip(group, splits, strict=True)):
        arrays = {key: value[index] for key, value in results.items()}
        with atomic_file(run.result_file(name, seed)) as temporary, temporary.open("wb") as file:
            np.savez(file, tasks=split.test, **arrays)


def _expert_source(run: RunDir, data: Path | None, family: TaskFamily) -> Dataset:
    """The data that expert context is taken from: given, the run's own, or that trained on."""
    manifest = run.manifest()
    saved, trained_on = manifest["identity"]["data"], manifest["provenance"]["dataset"]
    place = data or (run.data if run.data.exists() else Path(trained_on or ""))
    if not place.is_dir():
        raise IdaqError(
            f"Expert context needs the data of '{run.path}', and '{place}' is not there.",
            "Name the dataset with --data.",
        )
    dataset = open_dataset(place, family.spec)
    check_dataset_family(dataset, family)
    if "sha256" in saved and saved["sha256"] != dataset.fingerprint:
        raise IdaqError(
            f"'{place}' is not the data that '{run.path}' was trained on.",
            "Name that dataset with --data.",
        )
    return dataset


def expert_episodes(
    dataset: Dataset, family: TaskFamily, tasks: IntArray, seed: int, num: int
) -> Episodes:
    """`num` whole episodes of each task, fixed by the seed, [tasks, num, horizon, ...]."""
    horizon = family.spec.horizon
    per_task = []
    for task in tasks:
        available = dataset.task_episodes(int(task))
        if num > len(available):
            raise IdaqError(
                f"Task {task} has {len(available)} episodes and {num} are asked for.",
                "Ask for fewer expert episodes.",
            )
        rng = np.random.default_rng([seed, int(task)])
        chosen = rng.choice(available, size=num, replace=False)
        per_task.append([_pad(dataset.episode(int(i)), horizon) for i in chosen])
    stacked = [jax.tree.map(lambda *x: np.stack(x), *episodes) for episodes in per_task]
    return Episodes(*jax.tree.map(lambda *x: np.stack(x), *stacked))


def _pad(rows: dict[str, Any], horizon: int) -> Episodes:
    length = min(len(rows["rewards"]), horizon)

    def pad(x: Any) -> Any:
        return np.concatenate([x[:length], np.zeros((horizon - length, *x.shape[1:]), x.dtype)])

    success = rows.get("success", np.zeros(length, bool))
    return Episodes(
        obs=pad(rows["observations"]),
        action=pad(rows["actions"]),
        reward=pad(rows["rewards"]),
        next_obs=pad(rows["next_observations"]),
        terminated=pad(rows["terminated"]),
        success=pad(success),
        valid=np.arange(horizon) < length,
    )


def run_all(
    run: RunDir,
    family: TaskFamily,
    *,
    preset: str,
    config: RunConfig,
    methods: Sequence[str],
    seeds: Seeds,
    trajectories: int = DEFAULT_TRAJECTORIES,
    data_seed: int = 0,
    split: Split = "test",
    resume: bool = False,
    quiet: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """The main job: data, agents, adaptation with every method, summary."""
    for method in methods:
        check_method(method)
    if not any(needs_models(method) for method in methods):
        config = dataclasses.replace(
            config, algorithm=dataclasses.replace(config.algorithm, ensemble=None)
        )
    if trajectories < 1:
        raise IdaqError(f"--trajectories is {trajectories}.", "Give at least 1.")
    check_seed(data_seed)
    data = {"trajectories": trajectories, "seed": data_seed, "quality": "expert"}
    start_run(
        run, family=family, preset=preset, config=config, data=data, split=split, resume=resume
    )
    with run.locked():
        say(f"data: {family.num_tasks} tasks, {trajectories} trajectories each")
        dataset = collect_into(run, family, trajectories, data_seed)
        train_run(run, dataset, seeds, quiet)
        for method in methods:
            say(f"adapting: {method}")
            adapt_run(run, method, resume=True)
        return summarise(run)
