"""Meta-training: groups of seeds, chunk by chunk, with checkpoints and a log.

A group of seeds is one compiled program: sampling inside, a chunk of updates per dispatch,
donated buffers, seeds under `vmap`. The key of an update depends on the seed and the update's
number alone, so a run that is killed and resumed from its checkpoint ends bit-identical.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TypeVar

import jax
import jax.numpy as jnp

from idaq.algos.base import Algorithm
from idaq.algos.data import SeedData, SharedData, TrainData
from idaq.engine.loading import fit_normaliser, load_episodes, load_rows, mean_return, returns_to_go
from idaq.engine.starts import start_std, unrelated_starts
from idaq.engine.stopping import check_stopped, is_stopping
from idaq.engine.updates import repeat
from idaq.errors import IdaqError
from idaq.settings import TrainConfig
from idaq.storage import checkpoint
from idaq.storage.checked import below, equal_to
from idaq.storage.dataset import Dataset
from idaq.storage.metrics import MetricsLog
from idaq.types import IntArray, Key, Metrics, PyTree, RewardFunction, Scalar

INIT_STREAM, UPDATE_STREAM = 0, 1  # what a seed's key is folded with
Result = TypeVar("Result")
SEED_AXES = TrainData(shared=None, seed=0)  # type: ignore[arg-type]


def train_data(
    dataset: Dataset,
    algorithm: Algorithm,
    train_tasks: Sequence[IntArray],
    reward_of: RewardFunction | None = None,
) -> TrainData:
    """Data of a group of seeds: shared rows; tasks and normalisers with a leading seed axis.

    `reward_of` is the family's, for an algorithm that relabels rewards.
    """
    rows, starts, counts = load_rows(dataset, algorithm.spec)
    floor, discount = algorithm.config.std_floor, algorithm.return_discount
    normalisers = [fit_normaliser(dataset, tasks, floor) for tasks in train_tasks]
    shared = SharedData(
        rows=rows,
        task_start=starts,
        task_count=counts,
        episodes=load_episodes(dataset),
        return_to_go=None if discount is None else returns_to_go(dataset, discount),
        reward_of=None if reward_of is None else jax.tree_util.Partial(reward_of),  # type: ignore[no-untyped-call]
    )
    seeds = SeedData(
        train_tasks=jnp.stack([jnp.asarray(tasks, jnp.int32) for tasks in train_tasks]),
        normaliser=jax.tree.map(lambda *leaves: jnp.stack(leaves), *normalisers),
        start_std=jnp.stack(
            [jnp.asarray(start_std(dataset, tasks), jnp.float32) for tasks in train_tasks]
        ),
        unrelated=jnp.stack([unrelated_starts(dataset, tasks) for tasks in train_tasks]),
        mean_return=jnp.stack([mean_return(dataset, tasks) for tasks in train_tasks]),
    )
    return TrainData(shared, seeds)


def one_seed(data: TrainData, index: int) -> TrainData:
    """The view of one seed of a group."""
    return data._replace(seed=jax.tree.map(lambda x: x[index], data.seed))


def over_seeds(
    function: Callable[..., Result], in_axes: Sequence[PyTree], num_seeds: int
) -> Callable[..., Result]:
    """`vmap` over the seed axis; a group of one runs the unbatched program.

    On a CPU seeds train in groups of one, so that a seed's bits do not depend on the others.
    """
    if num_seeds > 1:
        return jax.vmap(function, in_axes=in_axes)

    def single(*arguments: PyTree) -> Result:
        def first(argument: PyTree, axes: PyTree) -> PyTree:
            if axes is None:
                return argument
            if isinstance(axes, TrainData):
                return one_seed(argument, 0)
            return jax.tree.map(lambda x: x[0], argument)

        result = function(*(first(a, x) for a, x in zip(arguments, in_axes, strict=True)))
        whole: Result = jax.tree.map(lambda x: x[None], result)
        return whole

    return single


@partial(jax.jit, static_argnums=0)
def new_state(algorithm: Algorithm, data: TrainData, keys: Key) -> PyTree:
    """The first state of a group of seeds."""
    init_keys = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, INIT_STREAM)
    return over_seeds(algorithm.init, (SEED_AXES, 0), keys.shape[0])(data, init_keys)


@partial(jax.jit, static_argnums=0, donate_argnums=1)
def run_updates(
    algorithm: Algorithm, state: PyTree, data: TrainData, keys: Key, first: Scalar, num: Scalar
) -> tuple[PyTree, Metrics]:
    """`num` updates, the first of which has number `first`; metrics are means over them."""

    def train_seed(state: PyTree, data: TrainData, key: Key) -> tuple[PyTree, Metrics]:
        def update(state: PyTree, update_key: Key) -> tuple[PyTree, Metrics]:
            return algorithm.update(state, data, update_key)

        return repeat(update, state, jax.random.fold_in(key, UPDATE_STREAM), first, num)

    return over_seeds(train_seed, (0, SEED_AXES, 0), keys.shape[0])(state, data, keys)


def train_group(
    algorithm: Algorithm,
    config: TrainConfig,
    data: TrainData,
    seeds: Sequence[int],
    checkpoint_file: Path,
    metrics_directories: Sequence[Path],
    on_progress: Callable[[int], None],
    on_agents: Callable[[int, list[PyTree]], None] | None = None,
    agents_every_updates: int = 0,
) -> list[PyTree]:
    """Train a group of seeds, from its checkpoint if there is one; returns one agent per seed.

    `on_agents` is given the agents at regular intervals, a multiple of the updates between two
    lines of the log, so that training is the same with and without it. Seeds that diverge do not
    stop the others of their group; if all do, the training ends.
    """
    keys = jnp.stack([jax.random.key(seed) for seed in seeds])
    state, done = new_state(algorithm, data, keys), 0
    if checkpoint_file.is_file():
        own = {"updates_done": below(config.num_updates), "seeds": equal_to(list(seeds))}
        state, header = checkpoint.load(checkpoint_file, state, **own)
        done = header["updates_done"]
    with ExitStack() as stack:
        logs = [stack.enter_context(MetricsLog(place, done)) for place in metrics_directories]
        on_progress(done)
        while done < config.num_updates:
            phase, phase_end = _phase(algorithm, done)
            until = min(
                _next_multiple(done, config.log_every_updates),
                _next_multiple(done, config.checkpoint_every_updates),
                phase_end or config.num_updates,
                config.num_updates,
            )
            state, metrics = run_updates(phase, state, data, keys, done, until - done)
            done = until
            host_metrics, lost = jax.device_get(metrics), []
            for index, (seed, log) in enumerate(zip(seeds, logs, strict=True)):
                row = {name: float(value[index]) for name, value in host_metrics.items()}
                log.write(done, row)
                if any(math.isnan(value) for value in row.values()):
                    lost.append(seed)
            if len(lost) == len(seeds):  # the others go on
                raise DivergedError(lost, done)
            if on_agents is not None and done % agents_every_updates == 0:
                on_agents(done, _agents(algorithm, state, data, len(seeds)))
            is_due = done % config.checkpoint_every_updates == 0 or is_stopping()
            is_saved = is_due and done < config.num_updates
            if is_saved:  # what comes before is not done again
                header = {"updates_done": done, "seeds": list(seeds)}
                checkpoint.save(checkpoint_file, state, header)
            on_progress(done)
            if is_saved:
                check_stopped()
    return _agents(algorithm, state, data, len(seeds))


class DivergedError(IdaqError):
    """The numbers of some seeds are not finite any more."""

    def __init__(self, seeds: Sequence[int], num_updates: int) -> None:
        self.seeds, self.num_updates = list(seeds), num_updates
        names = f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
        super().__init__(
            f"The training of {names} diverged within {num_updates:,} updates: "
            "not all numbers are finite any more.",
            "Lower the learning rates, or look for extreme values in the data.",
        )


def _agents(algorithm: Algorithm, state: PyTree, data: TrainData, num: int) -> list[PyTree]:
    states = [jax.tree.map(lambda x, i=index: x[i], state) for index in range(num)]
    return [algorithm.finish(s, one_seed(data, i)) for i, s in enumerate(states)]


def _phase(algorithm: Algorithm, update: int) -> tuple[Algorithm, int | None]:
    """The algorithm as it does that update, and the first update of its next phase, if any."""
    begun = [phase for phase in algorithm.phases if phase[0] <= update]
    coming = algorithm.phases[len(begun) :]
    return begun[-1][1], coming[0][0] if coming else None


def _next_multiple(value: int, step: int) -> int:
    return (value // step + 1) * step
