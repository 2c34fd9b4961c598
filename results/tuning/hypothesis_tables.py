"""What every hypothesis is worth on every held-out task: tables on which searches are replayed.

    python results/tuning/hypothesis_tables.py OUT_DIRECTORY WORK_DIRECTORY FAMILY [FAMILY ...]
        [--seeds 100 101] [--trajectories 10]

A family should be another draw of tasks than the usual one (`ml1/reach@2024`), so that what is
chosen with these tables is chosen on tasks that no published table contains. For each seed, agents
are trained with preset `default`; then each candidate hypothesis runs one episode on each test task
of the seed's split. Candidates are the training tasks' embeddings, and the points halfway to their
nearest neighbours, by embedding and by what the policy does. The table also holds what can be known
of candidates without an episode: what the policy does in logged states, and the returns of the
training tasks' logged episodes as the reward models expect them under every candidate.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from idaq.algos.data import network_rows
from idaq.behaviour.collect import collect
from idaq.engine.logged_episodes import expert_episodes
from idaq.engine.pool import WorkerPool
from idaq.envs import get_family
from idaq.nets import dynamics
from idaq.runs.adapt_stage import adaptation_key, load_agent, rollouts_of
from idaq.runs.api import train_all
from idaq.runs.run import Run
from idaq.runs.train_stage import Seeds
from idaq.storage.dataset import Dataset, open_dataset

NEIGHBOURS = 4
STATES = 128
LOGGED_EPISODES = 3  # of each training task, whose returns the models are asked for


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("families", nargs="+")
    parser.add_argument("--seeds", type=int, nargs="+", default=[100, 101])
    parser.add_argument("--trajectories", type=int, default=10)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with WorkerPool() as pool:
        for name in options.families:
            began = time.monotonic()
            label = name.replace("/", "-")
            if (options.out / f"{label}-{options.seeds[-1]}.npz").is_file():
                continue
            family, data = get_family(name), options.work / f"{label}-data"
            if not data.is_dir():
                collect(family, data, trajectories=options.trajectories, pool=pool, quiet=True)
            print(name, "collected", round(time.monotonic() - began), "s", flush=True)
            place = options.work / f"{label}-run"
            seeds = Seeds(count=len(options.seeds), first=options.seeds[0])
            run = train_all(place, data, seeds=seeds, resume=place.is_dir(), quiet=True)
            print(name, "trained", round(time.monotonic() - began), "s", flush=True)
            rollouts, dataset = rollouts_of(run, pool), open_dataset(data, family.spec)
            for seed in options.seeds:
                table = table_of(run, seed, rollouts, dataset)
                np.savez_compressed(options.out / f"{label}-{seed}.npz", **table)
            print(name, "done", round(time.monotonic() - began), "s", flush=True)


def table_of(run: Run, seed: int, rollouts: Any, dataset: Dataset) -> dict[str, Any]:
    """Everything about one seed's candidates."""
    split, spec, algorithm = run.split_of(seed), run.family.spec, run.algorithm
    agent = load_agent(run, seed, len(split.train))
    logged = expert_episodes(dataset, run.family, split.train, seed, LOGGED_EPISODES)
    rng = np.random.default_rng(seed)
    states = logged.obs[logged.valid]
    states = states[rng.choice(len(states), STATES, replace=False)]

    @jax.jit
    def actions_of(candidates: Any) -> Any:
        def act(z: Any, obs: Any) -> Any:
            return algorithm.act(agent, z, (), obs, jax.random.key(0))[0]

        scale = 2.0 / (np.asarray(spec.action_high) - np.asarray(spec.action_low))
        return (
            jax.vmap(lambda z: jax.vmap(lambda s: act(z, s))(jnp.asarray(states)))(candidates)
            * scale
        )

    @jax.jit
    def expected_of(z: Any) -> Any:
        """[L, tasks, episodes]: returns of the logged episodes, were the task z's."""

        def one(episode: Any) -> Any:
            rows = network_rows(spec, agent.normaliser, episode)
            each = jnp.broadcast_to(z, (*rows.obs.shape[:-1], z.size))
            rewards, _ = dynamics.predict(agent.judge, rows.obs, each, rows.action)
            rewards = rewards * agent.normaliser.reward_std + agent.normaliser.reward_mean
            return (rewards * episode.valid).sum(axis=-1)

        return jax.lax.map(jax.vmap(one), logged)  # [tasks, episodes, L]

    prior = np.asarray(agent.prior)
    policy = np.asarray(actions_of(agent.prior)).reshape(len(prior), -1)
    pairs = {"embedding": pairs_of(prior), "policy": pairs_of(policy)}
    all_pairs = np.unique(np.concatenate(list(pairs.values())), axis=0)
    halfway = prior[all_pairs].mean(axis=1)
    candidates = np.concatenate([prior, halfway])
    expected = np.stack([np.asarray(expected_of(jnp.asarray(z))) for z in candidates])
    actions = np.asarray(actions_of(jnp.asarray(candidates)))

    num, tests = len(candidates), split.test
    tasks = np.repeat(tests, num)[None]
    keys = jax.random.split(adaptation_key(seed), len(tests))
    keys = jnp.repeat(keys, num)[None]  # a task's candidates meet the same start
    hypotheses = np.tile(candidates, (len(tests), 1))[None]
    agents = jax.tree.map(lambda x: x[None], agent)
    returns, success = [], []
    for start in range(0, tasks.size, 2_000):
        part = slice(start, start + 2_000)
        episodes = rollouts.run(agents, hypotheses[:, part], tasks[:, part], keys[:, part])
        returns.append(np.asarray(episodes.returns)[0])
        success.append(np.asarray((episodes.success & episodes.valid).any(-1))[0])
        getattr(rollouts, "_known", {}).clear()
    whole = dataset.episode_returns()
    logged_returns = np.array([whole[dataset.task_episodes(int(t))].mean() for t in split.train])
    test_returns = np.array([whole[dataset.task_episodes(int(t))].mean() for t in tests])
    return {
        "prior": prior,
        "pairs": all_pairs,
        "embedding_pairs": pairs["embedding"],
        "policy_pairs": pairs["policy"],
        "candidates": candidates,
        "actions": actions.astype(np.float16),  # [candidates, STATES, action_dim], in [-1, 1]
        "expected": expected.astype(np.float32),  # [candidates, training tasks, episodes, L]
        "episode_returns": np.asarray((logged.reward * logged.valid).sum(-1)),
        "returns": np.concatenate(returns).reshape(len(tests), num),
        "success": np.concatenate(success).reshape(len(tests), num),
        "logged_returns": logged_returns,  # of the training tasks
        "test_logged_returns": test_returns,  # for the eye alone
        "train_tasks": split.train,
        "test_tasks": tests,
        "task_params": run.family.task_params,
    }


def pairs_of(points: Any) -> Any:
    """Each point with each of its nearest neighbours, once."""
    distance = np.linalg.norm(points[:, None] - points, axis=-1)
    np.fill_diagonal(distance, np.inf)
    nearest = np.argsort(distance, axis=1)[:, :NEIGHBOURS]
    found = [(min(i, j), max(i, j)) for i, row in enumerate(nearest) for j in row]
    return np.unique(np.array(found), axis=0)


if __name__ == "__main__":
    main()
