"""Measures the experts of all 50 ML1 sets, as metaworld scripts them and as they are fixed.

    python results/ml1-experts/measure.py results/ml1-experts/experts.jsonl --trajectories 1

One line of JSON is appended per set as it is finished; sets that are there already are left out.
"""

import argparse
import json
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from idaq.envs.metaworld.experts import FIXES, Fix, ml1_names
from idaq.envs.metaworld.sets import NUM_TASKS, Ml1Env, ScriptedExpert


def episode(env: Ml1Env, expert: ScriptedExpert, task: int, seeds: list[int]) -> tuple[float, bool]:
    """Return, and whether there was success at any step."""
    rng = np.random.default_rng(seeds)
    obs, info = env.reset(options={"task": task})
    expert.reset()
    total, succeeded, truncated = 0.0, False, False
    while not truncated:
        obs, reward, _, truncated, info = env.step(expert.act(obs, info, rng))
        total += reward
        succeeded = succeeded or info["success"]
    return total, succeeded


def measured(task_set: str, fix: Fix, seed: int, num_trajectories: int) -> dict[str, Any]:
    """Success rate and mean returns over all tasks."""
    env = Ml1Env(task_set)
    expert = ScriptedExpert(task_set, env, fix)
    episodes = [
        episode(env, expert, task, [seed, task, trajectory])
        for task in range(NUM_TASKS)
        for trajectory in range(num_trajectories)
    ]
    env.close()
    returns = np.array([total for total, _ in episodes])
    successes = np.array([succeeded for _, succeeded in episodes])
    return {
        "success": float(successes.mean()),
        "return": round(float(returns.mean()), 2),
        "return_of_successes": (
            round(float(returns[successes].mean()), 2) if successes.any() else None
        ),
    }


def line(task_set: str, seed: int, num_trajectories: int) -> dict[str, Any]:
    """What is known about one set's expert."""
    script = Fix()
    fix = FIXES.get(task_set, script)
    before = measured(task_set, script, seed, num_trajectories)
    after = before if fix == script else measured(task_set, fix, seed, num_trajectories)
    changed = {key: value for key, value in asdict(fix).items() if value != getattr(script, key)}
    return {
        "set": task_set,
        "fix": changed,
        "before": before,
        "after": after,
        "tasks": NUM_TASKS,
        "trajectories": num_trajectories,
        "seed": seed,
        "metaworld": version("metaworld"),
        "mujoco": version("mujoco"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="lines are appended to this file")
    parser.add_argument("--trajectories", type=int, default=1, help="episodes per task")
    parser.add_argument("--seed", type=int, default=1, help="the fixes were chosen with 0")
    parser.add_argument("--sets", nargs="*", default=ml1_names(), help="which; all, if not given")
    options = parser.parse_args()
    lines = options.out.read_text().splitlines() if options.out.exists() else []
    done = {json.loads(text)["set"] for text in lines}
    for task_set in options.sets:
        if task_set not in done:
            result = line(task_set, options.seed, options.trajectories)
            with options.out.open("a") as file:
                file.write(json.dumps(result) + "\n")
            print(f"{task_set}: {result['before']} -> {result['after']}", flush=True)


if __name__ == "__main__":
    main()
