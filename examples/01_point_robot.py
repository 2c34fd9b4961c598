"""The main job from Python: data, agents, adaptation, and a look at the raw results."""

import sys
from pathlib import Path

import idaq

out = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/example")
updates = sys.argv[2] if len(sys.argv) > 2 else "2000"

family = idaq.get_family("point-robot")
config = idaq.resolve("default", family.name)
config = idaq.override(config, f"train.num_updates={updates}")
run = idaq.RunDir(out)
methods = ("idaq-return", "posterior", "expert-context")
summary = idaq.run_all(run, family, config=config, methods=methods, seeds=idaq.Seeds(count=1))

for row in summary["rows"]:
    print(f"{row['method']:>15}: {row['mean']:.2f}")

results = idaq.load_results(run, "idaq-return", seed=0)
kept = results["kept"].sum(axis=1)  # per test task
print(f"episodes kept as context, per task: {kept.min()} to {kept.max()}")
print(f"return of the first and the last episode: {results['returns'][:, [0, -1]].mean(axis=0)}")
