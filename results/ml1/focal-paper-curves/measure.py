"""Learning curves of preset `paper` on ML1: expert context, by the agents of every N updates.

    python results/ml1/focal-paper-curves/measure.py ml1/reach RUN FILE --updates 30000 --every 5000

trains a new run in RUN and writes FILE: on ten training tasks and the test tasks of every seed,
[points, seeds, tasks], what an agent returns that is given a logged episode of the task.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from idaq.adapt.methods import make_adapter
from idaq.engine.logged_episodes import expert_episodes
from idaq.engine.meta_test import evaluate
from idaq.engine.pool import WorkerPool
from idaq.envs import get_family
from idaq.runs.adapt_stage import adaptation_key, load_agent, rollouts_of
from idaq.runs.collect_stage import collect
from idaq.runs.job import Job
from idaq.runs.resolve import resolve
from idaq.runs.train_stage import Seeds, train

NUM_TASKS = 10  # of the training tasks
METHOD = "expert-context"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("family")
    parser.add_argument("run", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--updates", type=int, default=300_000)
    parser.add_argument("--every", type=int, default=50_000)
    parser.add_argument("--first-seed", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--trajectories", type=int, default=45)
    options = parser.parse_args()
    family, config = get_family(options.family), resolve("paper", options.family)
    job = Job(
        run=options.run,
        family=family,
        preset="paper",
        config=replace(config, train=replace(config.train, num_updates=options.updates)),
        methods=[METHOD],
        seeds=Seeds(count=options.seeds, first=options.first_seed),
        trajectories=options.trajectories,
    ).checked()
    with WorkerPool() as pool, job.claimed() as run:
        dataset = collect(run, pool, trajectories=job.trajectories, seed=job.data_seed)
        train(run, dataset, job.seeds, agents_every_updates=options.every)
        updates = np.arange(options.every, options.updates + 1, options.every)
        arrays = {"updates": updates, "seeds": np.asarray(run.seeds())}
        adapter = make_adapter(METHOD, job.config.adapt, run.algorithm)
        rollouts = rollouts_of(run, pool)
        seeds = run.seeds()
        splits = [run.split_of(seed) for seed in seeds]
        keys = jnp.stack([adaptation_key(seed) for seed in seeds])
        step = len(splits[0].train) // NUM_TASKS
        for kind, each in (
            ("train", [split.train[::step][:NUM_TASKS] for split in splits]),
            ("test", [split.test for split in splits]),
        ):
            given = [
                expert_episodes(dataset, family, tasks, seed, job.config.adapt.num_expert_episodes)
                for tasks, seed in zip(each, seeds, strict=True)
            ]
            points = []
            for num in updates.tolist():
                agents = [
                    load_agent(run, seed, len(split.train), num)
                    for seed, split in zip(seeds, splits, strict=True)
                ]
                results = evaluate(
                    rollouts,
                    adapter,
                    jax.tree.map(lambda *leaves: jnp.stack(leaves), *agents),
                    jnp.asarray(np.stack(each), jnp.int32),
                    keys,
                    jax.tree.map(lambda *leaves: jnp.stack(leaves), *given),
                )
                points.append(results)
            arrays[f"{kind}_tasks"] = np.stack(each)
            for name in ("returns", "success"):
                arrays[f"{kind}_{name}"] = np.stack([point[name][..., -1] for point in points])
    np.savez_compressed(options.file, **arrays)


if __name__ == "__main__":
    main()
