"""Trials on held-out training tasks of some ML1 sets; one line of JSON per trial, set and method.

    python results/tuning/tune_ml1.py TRIALS.json OUT.jsonl DIRECTORY [SECONDS]

TRIALS.json names the sets, seeds, trajectories, common settings (`NAME=VALUE`), the trials with
settings of their own, and the adaptation methods. Data is collected once per set; while one trial
trains, the ones before adapt. What OUT.jsonl holds is not done again, and after SECONDS nothing new
is begun.
"""

import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from idaq.behaviour.collect import collect
from idaq.config import override
from idaq.engine.pool import WorkerPool
from idaq.envs import get_family
from idaq.runs.adapt_stage import adapt, rollouts_of
from idaq.runs.api import train_all
from idaq.runs.resolve import resolve, without_judge
from idaq.runs.run import Run
from idaq.runs.summary import summarise
from idaq.runs.train_stage import Seeds


class Tuning:
    """A list of trials and where they go."""

    def __init__(self, plan: dict[str, Any], out: Path, place: Path, seconds: float) -> None:
        self.plan, self.out, self.place = plan, out, place
        self.deadline = time.monotonic() + seconds
        self.lock = threading.Lock()
        lines = out.read_text().splitlines() if out.exists() else []
        self.done = {(row["set"], row["trial"], row["adapt"]) for row in map(json.loads, lines)}

    def run(self) -> None:
        """All trials, trial by trial and set by set."""
        sets = self.plan["sets"]
        with (
            WorkerPool() as pool,
            ThreadPoolExecutor(1) as collecting,
            ThreadPoolExecutor(3) as adapting,
        ):
            data = {name: collecting.submit(self.collect, name, pool) for name in sets}
            adapted = []
            for trial in self.plan["trials"]:
                for name in sets:
                    if time.monotonic() < self.deadline:
                        run = self.train(name, trial, data[name].result())
                        adapted.append(adapting.submit(self.adapt, name, trial, run, pool))
            for future in adapted:
                future.result()

    def collect(self, name: str, pool: WorkerPool) -> Path:
        path = self.place / "data" / name
        if not path.exists():
            num = self.plan["trajectories"]
            collect(get_family(f"ml1/{name}"), path, trajectories=num, pool=pool, quiet=True)
        return path

    def train(self, name: str, trial: dict[str, Any], data: Path) -> Run:
        config = resolve("default", f"ml1/{name}")
        for setting in self.settings(trial):
            config = override(config, setting)
        if not any("prediction" in each["method"] for each in self.plan["adapt"]):
            config = without_judge(config)
        seeds = Seeds(count=self.plan["seeds"], first=self.plan["first_seed"])
        place = self.place / trial["name"] / name
        return train_all(
            place, data, config=config, seeds=seeds, split="validation", resume=True, quiet=True
        )

    def adapt(self, name: str, trial: dict[str, Any], run: Run, pool: WorkerPool) -> None:
        rollouts = rollouts_of(run, pool)
        for each in self.plan["adapt"]:
            if (name, trial["name"], each["name"]) in self.done:
                continue
            if time.monotonic() > self.deadline:
                return
            config = run.config.adapt
            for setting in each.get("settings", []):
                config = override(config, setting)
            adapt(run, each["method"], rollouts, config=config, name=each["name"], resume=True)
            row = next(r for r in summarise(run)["rows"] if r["method"] == each["name"])
            self.write(
                {
                    "set": name,
                    "trial": trial["name"],
                    "adapt": each["name"],
                    "settings": [*self.settings(trial), *each.get("settings", [])],
                    "method": each["method"],
                    "trajectories": self.plan["trajectories"],
                    "split": "validation",
                    "seeds": run.seeds(),
                    **{key: row[key] for key in ("score", "score_ci95", "success", "success_ci95")},
                }
            )

    def settings(self, trial: dict[str, Any]) -> list[str]:
        return [*self.plan.get("settings", []), *trial.get("settings", [])]

    def write(self, row: dict[str, Any]) -> None:
        with self.lock, self.out.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(
            f"{row['trial']:24} {row['set']:18} {row['adapt']:16} "
            f"score {row['score']:.3f} success {row['success']:.3f}",
            flush=True,
        )


def main() -> None:
    plan, out, place = (Path(argument) for argument in sys.argv[1:4])
    seconds = float(sys.argv[4]) if len(sys.argv) > 4 else float("inf")
    Tuning(json.loads(plan.read_text()), out, place, seconds).run()


if __name__ == "__main__":
    main()
