"""The adaptation stage of a run: the raw results of one method for every seed."""

import re
import time
from pathlib import Path

import jax
import jax.numpy as jnp

from idaq.adapt.base import Adapter
from idaq.adapt.methods import (
    METHODS,
    check_method_of,
    components_of_method,
    make_adapter,
    missing_judge,
)
from idaq.algos.entries import LOGS
from idaq.config import Json, to_dict
from idaq.engine.logged_episodes import expert_episodes
from idaq.engine.meta_test import evaluate
from idaq.engine.pool import WorkerPool
from idaq.engine.rollout import Rollouts, make_rollouts
from idaq.errors import IdaqError
from idaq.judges.base import JudgeConfig
from idaq.runs.identity import identities
from idaq.runs.own_code import check_own_code
from idaq.runs.resolve import judge_kind
from idaq.runs.results import MAX_RETURN, save_arrays
from idaq.runs.run import Run
from idaq.settings import AdaptConfig, RunConfig
from idaq.storage import checkpoint
from idaq.storage.atomic import write_json
from idaq.storage.checked import is_finite, read_json
from idaq.storage.dataset import Dataset
from idaq.types import Array, PyTree

ADAPT_STREAM = 2  # what a seed's key is folded with; training uses 0 and 1
RESULT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")  # a directory in RUN/adapt


def rollouts_of(run: Run, pool: WorkerPool) -> Rollouts:
    """What a run's agents act in; episodes that its methods share run only once in a simulator."""
    return make_rollouts(run.family, run.algorithm, pool)


def adapt(
    run: Run,
    method: str,
    rollouts: Rollouts,
    *,
    config: AdaptConfig | None = None,
    name: str | None = None,
    data: Path | None = None,
    resume: bool = False,
) -> None:
    """Adapt every seed's agent to its test tasks, and store the raw results under `name`."""
    config, name = config or run.config.adapt, method if name is None else name
    adapter = make_adapter(method, config, run.algorithm)
    _check_adaptation(run, method, name, data)
    identity = adaptation_identity(method, config, adapter)
    _check_same_results(run, name, identity, resume)
    started, place = time.monotonic(), run.directory
    todo = [g for g in run.groups() if not all(place.result_file(name, s).is_file() for s in g)]
    given = expert_source(run, data) if METHODS[method].is_given_logs and todo else None
    for group in todo:
        results = adapt_group(run, rollouts, adapter, config, group, given)
        for seed, arrays in zip(group, results, strict=True):
            if not is_finite(arrays["returns"], MAX_RETURN):
                raise IdaqError(
                    f"Adaptation of seed {seed} with '{method}' has returns that are not finite.",
                    "Look for what diverges: the method, or the rewards of the environment.",
                )
        write_json(place.adapt_config_file(name), identity)
        for seed, arrays in zip(group, results, strict=True):
            save_arrays(place.result_file(name, seed), arrays)
    if todo:
        run.record_time(f"adapt_{name}_s", time.monotonic() - started)


def adaptation_identity(method: str, config: AdaptConfig, adapter: Adapter) -> Json:
    """What `adapt/NAME/config.json` says about the results beside it.

    What comes from outside the package (method, uncertainty, searches) is listed with its identity.
    """
    identity = {"method": method, "version": adapter.version, "config": to_dict(config)}
    components = identities(components_of_method(method, config))
    return identity | ({"components": components} if components else {})


def _check_adaptation(run: Run, method: str, name: str, data: Path | None) -> None:
    """Refuse what can be known to be wrong before an episode is run."""
    check_own_code()
    check_method_of(run.config.algorithm.kind, method)
    check_models(method, run.config)
    if not RESULT_NAME.fullmatch(name) or (name != method and name in METHODS):
        raise IdaqError(
            f"'{name}' cannot be the `name` of results of '{method}'.",
            "Give a name of its own, of letters, digits, '-', '_' and '.'.",
        )
    if data is not None and not METHODS[method].is_given_logs:
        given = ", ".join(each for each, entry in METHODS.items() if entry.is_given_logs)
        raise IdaqError(f"'{method}' takes no `data`.", f"These are given logs: {given}.")
    missing = [seed for seed in run.seeds() if not run.directory.agent_file(seed).is_file()]
    if missing or not run.seeds():
        raise IdaqError(
            f"'{run.path}' has not finished training (seeds {missing or 'none'}).",
            "Finish it with the same settings and `resume=True`.",
        )


def check_models(method: str, config: RunConfig) -> None:
    """Refuse a method whose uncertainty reads what the run's agents do not have."""
    if LOGS in METHODS[method].needs and not getattr(config.algorithm, "logged_rows", 0):
        raise IdaqError(
            f"'{method}' reads the logs, and this run's agents remember none.",
            "Train with `algorithm.logged_rows=256`, or choose another method.",
        )
    trained = judge_kind(config)
    needed = missing_judge(method, config.algorithm.kind, trained)
    if needed is not None:
        instead = "none" if trained is None else f"'{trained}'"
        is_ensemble = needed == JudgeConfig.default_kind
        setting = "algorithm.ensemble.size=4" if is_ensemble else f"algorithm.judge.kind={needed}"
        raise IdaqError(
            f"'{method}' reads the judge '{needed}', and this run trains {instead}.",
            f"Train with `{setting}`, or choose another method.",
        )


def _check_same_results(run: Run, name: str, identity: Json, resume: bool) -> None:
    file = run.directory.adapt_config_file(name)
    if not file.is_file():
        return
    if not resume:
        raise IdaqError(
            f"'{file.parent}' holds results already.",
            "Add `resume=True` to complete or show them, or give other ones another `name`.",
        )
    if _as_of_today(read_json(file), run) != identity:
        raise IdaqError(
            f"'{file.parent}' was made with other options.",
            "Give the same ones, or store these under another `name`.",
        )


def _as_of_today(saved: object, run: Run) -> object:
    """The saved identity; settings that were moved into it since are taken from the run."""
    if not isinstance(saved, dict) or not isinstance(saved.get("config"), dict):
        return saved
    options = to_dict(run.config.adapt)
    moved = [place.removeprefix("adapt.") for place in RunConfig.MOVED.values()]
    of_run = {name: options[name] for name in moved if name in options}
    return saved | {"config": of_run | saved["config"]}


def adapt_group(
    run: Run,
    rollouts: Rollouts,
    adapter: Adapter,
    config: AdaptConfig,
    group: list[int],
    expert_data: Dataset | None,
    updates: int | None = None,
) -> list[Json]:
    """The raw results of a group of seeds, one set of arrays per seed.

    With `updates`, those of the agents as they were after that many, without the scores of shorter
    budgets.
    """
    splits = [run.split_of(seed) for seed in group]
    agents = [
        load_agent(run, seed, len(split.train), updates)
        for seed, split in zip(group, splits, strict=True)
    ]
    given = None
    if expert_data is not None:
        chosen = [
            expert_episodes(expert_data, run.family, split.test, seed, config.num_expert_episodes)
            for seed, split in zip(group, splits, strict=True)
        ]
        given = jax.tree.map(lambda *x: jnp.stack(x), *chosen)
    results = evaluate(
        rollouts,
        adapter,
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *agents),
        jnp.stack([jnp.asarray(split.test, jnp.int32) for split in splits]),
        jnp.stack([adaptation_key(seed) for seed in group]),
        given,
        anytime=updates is None,
    )
    return [
        {"tasks": split.test} | {key: value[index] for key, value in results.items()}
        for index, split in enumerate(splits)
    ]


def adaptation_key(seed: int) -> Array:
    """The key that all randomness in a seed's adaptation comes from."""
    return jax.random.fold_in(jax.random.key(seed), ADAPT_STREAM)


def load_agent(run: Run, seed: int, num_train_tasks: int, updates: int | None = None) -> PyTree:
    """A seed's trained agent, or an error if the file is another seed's."""
    file = run.directory.agent_file(seed, updates)
    agent, header = checkpoint.load(file, run.algorithm.agent_shapes(num_train_tasks))
    if header.get("seed") != seed:
        raise IdaqError(
            f"'{file}' is the agent of seed {header.get('seed')}.",
            "Remove it and train again with `resume=True`, or restore the file from a copy.",
        )
    if not all(bool(jnp.isfinite(leaf).all()) for leaf in jax.tree.leaves(agent)):
        raise IdaqError(
            f"'{file}' holds numbers that are not finite: its training diverged.",
            "Remove it and train again with `resume=True`, or restore the file from a copy.",
        )
    return agent


def expert_source(run: Run, data: Path | None) -> Dataset:
    """The dataset for expert context: `data`, or else what the run was trained on."""
    place = data or run.data_place
    if not place.is_dir():
        raise IdaqError(
            f"Expert context needs the data of '{run.path}', and '{place}' is not there.",
            "Name the dataset with `data`.",
        )
    return run.open_data(place)
