"""What the quantifications say about reference episodes of a *meta-training* task (Section 5.1).

Many hypotheses from the prior run one episode each on one training task of the first seed. Each
episode is judged by every quantification, and its distance to the task's own data is measured as
the appendix defines it: d(t1, t2) = |v1 - v2| / |v2|, v = (s_0, a_0, r_0, s_1, ...), the minimum
over the data's episodes t2.
"""

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from idaq.adapt.idaq import quantile_threshold
from idaq.adapt.methods import OF_UNCERTAINTIES, missing_judge
from idaq.adapt.uncertainty import UNCERTAINTIES, Uncertainty, view_of
from idaq.bench.status import probe_file
from idaq.engine.rollout import Rollouts
from idaq.errors import IdaqError
from idaq.runs.adapt_stage import adaptation_key, load_agent
from idaq.runs.directory import RunDir
from idaq.runs.resolve import judge_kind
from idaq.runs.results import save_arrays
from idaq.runs.run import Run
from idaq.storage.checked import check_axes, is_finite, read_arrays
from idaq.storage.dataset import Dataset
from idaq.types import AnyArray, Episodes, Hypothesis, Rows, Scalar

NUM_EPISODES = 60
REMEDY = "Remove it and go on with `idaq bench run`."
PROBE_STREAM = 1_000_003  # what the seed's adaptation key is folded with


def write_probe(run: Run, dataset: Dataset, rollouts: Rollouts) -> None:
    """`probe.npz`: per episode its return, distance and uncertainties; thresholds; data returns."""
    seed, algorithm = run.seeds()[0], run.algorithm
    train_tasks = run.split_of(seed).train
    task = int(train_tasks[len(train_tasks) // 2])
    agent = load_agent(run, seed, len(train_tasks))
    choice_key, episode_key = jax.random.split(
        jax.random.fold_in(adaptation_key(seed), PROBE_STREAM)
    )
    prior = algorithm.prior(agent)
    hypotheses = prior[jax.random.randint(choice_key, (NUM_EPISODES,), 0, len(train_tasks))]
    agents = jax.tree.map(lambda x: x[None], agent)
    tasks = jnp.full((1, NUM_EPISODES), task, jnp.int32)
    keys = jax.random.split(episode_key, NUM_EPISODES)[None]
    batch = rollouts.run(agents, hypotheses[None], tasks, keys)
    episodes = jax.tree.map(lambda x: jnp.asarray(x)[0], batch)

    arrays: dict[str, AnyArray] = {
        "task": np.asarray(task),
        "returns": np.asarray(episodes.returns),
    }
    own = [dataset.episode(int(index)) for index in dataset.task_episodes(task)]
    arrays["distance"] = minimal_distances(
        np.asarray(episode_vectors(episodes)),
        np.stack([_logged_vector(each, run.family.spec.horizon) for each in own]),
    )
    arrays["data_returns"] = np.asarray([each["rewards"].sum() for each in own])
    view = view_of(algorithm, agent)
    for name, uncertainty in UNCERTAINTIES.items():
        if missing_judge(OF_UNCERTAINTIES.name_of(name), algorithm.name, judge_kind(run.config)):
            continue

        def judge(
            episode: Episodes, hypothesis: Hypothesis, by: Uncertainty = uncertainty
        ) -> Scalar:
            return by.quantify(jax.tree.map(lambda x: x[None], episode), hypothesis, view)

        values = jax.vmap(judge)(episodes, hypotheses)
        arrays[f"uncertainty {name}"] = np.asarray(values)
        threshold = quantile_threshold(values, run.config.adapt.keep_percent)
        arrays[f"threshold {name}"] = np.asarray(threshold)
    save_arrays(probe_file(run.directory), arrays)


def read_probe(run: RunDir) -> dict[str, AnyArray]:
    """What `write_probe` wrote."""
    file = probe_file(run)
    arrays = read_arrays(file, REMEDY)
    judged = {name.removeprefix("uncertainty ") for name in arrays if name.startswith("unc")}
    axes = {"task": "", "returns": "n", "distance": "n", "data_returns": "m"}
    axes |= {f"uncertainty {name}": "n" for name in judged}
    axes |= {f"threshold {name}": "" for name in judged}
    check_axes(arrays, axes, file, REMEDY)
    if not axes.keys() <= arrays.keys() or not all(is_finite(arrays[name]) for name in axes):
        raise IdaqError(f"'{file}' is no probe of a training task.", REMEDY)
    return arrays


def episode_vectors(episodes: Episodes) -> Rows:
    """(s_0, a_0, r_0, s_1, ...) of every episode, zero after its end; [n, horizon * step size]."""
    steps = jnp.concatenate([episodes.obs, episodes.action, episodes.reward[..., None]], axis=-1)
    steps = steps * episodes.valid[..., None]
    return steps.reshape(len(steps), -1)


def _logged_vector(episode: dict[str, AnyArray], horizon: int) -> NDArray[np.float32]:
    steps = np.concatenate(
        [episode["observations"], episode["actions"], episode["rewards"][:, None]], axis=1
    )
    padded = np.zeros((horizon, steps.shape[1]), np.float32)
    padded[: len(steps)] = steps
    return padded.ravel()


def minimal_distances(episodes: AnyArray, data: AnyArray) -> NDArray[np.float64]:
    """The distance of every episode [n, d] to the nearest of the data's [m, d]."""
    size = np.linalg.norm(data, axis=1)
    nearest = [(np.linalg.norm(data - each, axis=1) / size).min() for each in episodes]
    return np.asarray(nearest, np.float64)
