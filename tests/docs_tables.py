"""The tables of README and docs, made from the raw results.

`python -m tests.docs_tables` writes them below their markers; a test compares.
"""

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from idaq.algos.entries import PAPER_METHODS
from idaq.behaviour.ladder import ladder_rows, load_ladder
from idaq.behaviour.quality import shipped_policies
from idaq.bench.paper import Published
from idaq.bench.published import dataset_return, published, published_score
from idaq.bench.speed.profile import KINDS
from idaq.envs import get_family
from idaq.report.results import MethodResults, load_run
from idaq.runs.directory import RunDir
from idaq.runs.results import load_results
from idaq.runs.run import Run
from idaq.runs.statistics import normalised_score
from idaq.storage.checked import read_json
from idaq.storage.describe import successful_return
from tests.docs_cells import ROOT, markdown, summary_rows, with_interval
from tests.docs_search_tables import search_tables

DOCS = [ROOT / "README.md", ROOT / "results" / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
FAMILIES = ("point-robot", "point-robot-sparse")
NAMES = {
    "idaq-return": "IDAQ, return",
    "idaq-prediction-error": "IDAQ, prediction error",
    "idaq-prediction-variance": "IDAQ, prediction variance",
    "posterior": "posterior sampling (FOCAL)",
    "expert-context": "expert context",
    "idaq-return-released-code": "IDAQ, return, the released code's rules",
    "idaq-return-farthest-first": "IDAQ, return, the released code's rules, `farthest-first`",
}
BLOCK = re.compile(r"<!-- table: ([a-z0-9.-]+) -->(?:\n\|[^\n]*)*")


def ours(family: str, run: str) -> dict[str, str]:
    """Mean and interval by method, as text."""
    rows = summary_rows(f"{family}/{run}")
    return {row["method"]: with_interval(row["mean"], row["ci95"]) for row in rows}


def score_cells(row: dict[str, Any], number: Published | None) -> list[str]:
    """The score, the paper's, and the success."""
    score = with_interval(row["score"], row["score_ci95"])
    return [score, as_text(number), f"{row['success']:.2f}"]


def paper(family: str, method: str) -> str:
    """The paper's number, as text."""
    return as_text(published(family, method))


def as_text(number: Published | None) -> str:
    """One of the paper's numbers."""
    return f"{number.mean:.2f} ± {number.ci95:.2f}" if number else "-"


def default_table(run: str) -> str:
    """Both Point-Robot families, ours and the paper's."""
    results = {family: ours(family, run) for family in FAMILIES}
    rows = [
        [
            NAMES[method],
            *(cell for each in FAMILIES for cell in (results[each][method], paper(each, method))),
        ]
        for method in PAPER_METHODS
    ]
    return markdown(("", "Point-Robot", "paper", "Point-Robot-Sparse", "paper"), rows)


def paper_preset_table() -> str:
    """Preset `paper` on both Point-Robot families, with both discounts."""
    rows = []
    results = {
        (family, run): ours(family, run)
        for family in FAMILIES
        for run in ("paper", "paper-discount-0.9")
    }
    for method in results[FAMILIES[0], "paper"]:
        cells = [NAMES[method]]
        for family in FAMILIES:
            other = results[family, "paper-discount-0.9"].get(method, "-")
            cells += [results[family, "paper"][method], other, paper(family, method)]
        rows.append(cells)
    same = ("discount 0.9", "paper")
    return markdown(("", "Point-Robot", *same, "Point-Robot-Sparse", *same), rows)


BENCH_METHODS = (  # of the experiment `mujoco`
    ("focal", "idaq-return", "IDAQ, return"),
    ("focal", "posterior", "FOCAL"),
    ("macaw", "fine-tuning", "MACAW"),
    ("borel", "belief", "BOReL"),
)


def bench_table() -> str:
    """The cells of the experiment `mujoco` that were run at scale `paper`."""
    rows = []
    for algorithm, method, label in BENCH_METHODS:
        cells = [label]
        for family in FAMILIES:
            pattern = f"{family}-{algorithm}-*"
            (place,) = (ROOT / "results" / "bench" / "paper" / "cells").glob(pattern)
            found = {
                row["method"]: row for row in summary_rows(str(place.relative_to(ROOT / "results")))
            }
            row = found[method]
            number = published(family, method, algorithm)
            cells += [with_interval(row["mean"], row["ci95"]), as_text(number)]
        rows.append(cells)
    return markdown(("", "Point-Robot", "paper", "Point-Robot-Sparse", "paper"), rows)


ML1_METHODS = ("idaq-return", "posterior", "expert-context")


@cache
def ml1_rows() -> dict[str, dict[str, dict[str, Any]]]:
    """The row of the summary, with the paper's score, by set and method."""
    found = {}
    for place in sorted((ROOT / "results" / "ml1" / "default").iterdir()):
        found[place.name] = {
            row["method"]: row | {"paper": published_score(f"ml1/{place.name}", row["method"])}
            for row in summary_rows(f"ml1/default/{place.name}")
        }
    return found


def ml1_table() -> str:
    """Score and success on the ML1 sets that were run, ours and the paper's."""
    rows = [
        [name, *(c for each in ML1_METHODS for c in score_cells(of[each], of[each]["paper"]))]
        for name, of in ml1_rows().items()
    ]
    means = [f"{mean:.2f}" for method in ML1_METHODS for mean in ml1_means(method)]
    beside = ("paper", "success")
    return markdown(
        ("set", "IDAQ, return", *beside, "posterior", *beside, "expert context", *beside),
        [*rows, ["**mean, scores capped at 1**", *means]],
    )


def ml1_means(method: str) -> tuple[float, float, float]:
    """Means over the sets: our score and the paper's, capped at 1, and our success."""
    rows = [rows[method] for rows in ml1_rows().values()]
    return (
        fmean(row["score_capped"] for row in rows),
        fmean(min(row["paper"].mean, 1.0) for row in rows),
        fmean(row["success"] for row in rows),
    )


def ml1_means_table() -> str:
    """The last line of the table `ml1`, method by method."""
    rows = [[NAMES[each], *(f"{mean:.2f}" for mean in ml1_means(each))] for each in ML1_METHODS]
    return markdown(("", "score", "paper", "success"), rows)


ML1_PRESET_RUNS = ("focal-paper-300000", "focal-paper", "default")
ML1_PRESET_METHODS = ("idaq-return", "idaq-return-released", "posterior", "expert-context")


def ml1_presets_table() -> str:
    """Both presets on the ML1 sets that were run with `paper`, below the paper's own scores."""
    rows = []
    for name in ("reach", "push", "drawer-close"):
        theirs = [published_score(f"ml1/{name}", method) for method in ML1_PRESET_METHODS]
        rows.append([name, "the paper's", "-", *(c for x in theirs for c in (as_text(x), "-"))])
        for directory in ML1_PRESET_RUNS:
            place = ROOT / "results" / "ml1" / directory / name
            if not place.is_dir():
                continue
            run = Run.open(place)
            num_updates = run.identity.config["train"]["num_updates"]
            what = f"`{run.identity.preset}`, {num_updates:,}"
            of = {row["method"]: row for row in summary_rows(f"ml1/{directory}/{name}")}
            cells = [
                cell
                for method in ML1_PRESET_METHODS
                for cell in (score_cells(of[method], None)[::2] if method in of else ("-", "-"))
            ]
            rows.append([name, what, str(len(run.seeds())), *cells])
    headings = ["IDAQ, return", "the released code's rules", "posterior", "expert context"]
    beside = (cell for heading in headings for cell in (heading, "success"))
    return markdown(("set", "preset, updates", "seeds", *beside), rows)


def ml1_curve_table() -> str:
    """Expert context during the training of preset `paper`: score and success."""
    columns: dict[str, dict[tuple[int, int], list[str]]] = {}
    for file, run, name in (
        ("reach", "focal-paper/reach", "reach"),
        ("reach-300000", "focal-paper-300000/reach", "reach"),
        ("push", "focal-paper/push", "push"),
    ):
        dataset = read_json(RunDir(ROOT / "results" / "ml1" / run).dataset_file)
        with np.load(ROOT / "results" / "ml1" / "focal-paper-curves" / f"{file}.npz") as arrays:
            for kind, words in (("train", "training tasks"), ("test", "test tasks")):
                column = columns.setdefault(f"{name}, {words}", {})
                if f"{kind}_returns" not in arrays:
                    continue
                experts = [successful_return(dataset, row) for row in arrays[f"{kind}_tasks"]]
                scores = arrays[f"{kind}_returns"] / np.asarray(experts, np.float64)[:, None]
                success = arrays[f"{kind}_success"]
                for place, updates in enumerate(arrays["updates"].tolist()):
                    cells = [f"{x[place].mean():.2f}" for x in (scores, success)]
                    column[updates, len(arrays["seeds"])] = cells
    points = sorted({point for column in columns.values() for point in column})
    rows = [
        [f"{updates:,}", str(seeds)]
        + [c for column in columns.values() for c in column.get((updates, seeds), ["-", "-"])]
        for updates, seeds in points
    ]
    return markdown(("updates", "seeds", *(c for name in columns for c in (name, "success"))), rows)


def cheetah_table() -> str:
    """Cheetah-Vel, ours and the paper's."""
    rows = [
        (NAMES[method], result, paper("cheetah-vel", method))
        for method, result in ours("cheetah-vel", "default").items()
    ]
    return markdown(("", "Cheetah-Vel", "paper"), rows)


def medium_table() -> str:
    """Both sets with data of medium quality, ours and the paper's."""
    rows: dict[str, list[str]] = {}
    for name in ("sweep", "peg-insert-side"):
        for row in summary_rows(f"ml1/medium/{name}"):
            method = row["method"]
            number = published_score(f"ml1/{name}", method, quality="medium")
            rows.setdefault(method, [NAMES[method]]).extend(score_cells(row, number))
    beside = ("paper", "success")
    return markdown(("", "sweep", *beside, "peg-insert-side", *beside), rows.values())


def op_cl_table() -> str:
    """OP+CL on ML1 with and without IDAQ, ours and the paper's."""
    rows = []
    for name in ("push", "reach", "drawer-close"):
        cells = [name]
        found = {row["method"]: row for row in summary_rows(f"ml1/op-cl/{name}")}
        for method in ("idaq-return", "posterior"):
            number = published_score(f"ml1/{name}", method, "op-cl")
            cells += score_cells(found[method], number)
        rows.append(cells)
    beside = ("paper", "success")
    return markdown(("set", "OP+CL+IDAQ", *beside, "OP+CL", *beside), rows)


MACAW_METHODS = {
    "idaq-return": "gradient-based IDAQ (`idaq-return`)",
    "idaq-return-paper-rules": "the same by the paper's rules",
    "posterior": "`posterior`",
    "expert-context": "`expert-context`",
    "fine-tuning": "`fine-tuning`",
}


def macaw_table() -> str:
    """MACAW on the families without scores, ours and the paper's."""
    rows = [[name] for name in (*MACAW_METHODS.values(), "the initialisation")]
    headings = [""]
    for family in (*FAMILIES, "cheetah-vel"):
        result = ours(family, "macaw")
        for row, method in zip(rows, MACAW_METHODS, strict=False):
            row += [result[method], as_text(published(family, method, "macaw"))]
        before = by_task(f"{family}/macaw", "fine-tuning", "returns")[..., 0]
        rows[-1] += [f"{before.mean():.2f}", "-"]
        headings += [family, "paper"]
    return markdown(headings, rows)


MACAW_TRIALS = {
    "version-1": "version 1",
    "rate-0.01": "version 2, first inner rate 0.01 (chosen)",
    "rate-0.03": "0.03",
    "rate-0.1": "0.1",
}


def macaw_trials_table() -> str:
    """Expert context and gradient-based IDAQ on held-out training tasks."""
    rows = []
    for trial, name in MACAW_TRIALS.items():
        row = [name]
        for family in FAMILIES:
            result = ours("tuning/macaw-point-robot", f"{trial}/{family}")
            row += [result["expert-context"], result["idaq-return"]]
        rows.append(row)
    headings = [f"{family}, {what}" for family in FAMILIES for what in ("given context", "IDAQ")]
    return markdown(("", *headings), rows)


MACAW_FINE_TUNING = {"1e-3": "1e-3", "1e-4": "1e-4", "1e-5": "1e-5, the authors' (chosen)"}


def macaw_fine_tuning_table() -> str:
    """The final return of fine-tuning on held-out training tasks, by its rate."""
    families = (*FAMILIES, "push", "drawer-close")
    rows = [[label] for label in (*MACAW_FINE_TUNING.values(), "after the step alone")]
    for family in families:
        for rate, row in zip(MACAW_FINE_TUNING, rows, strict=False):
            run = f"tuning/macaw-fine-tuning/rate-{rate}/{family}"
            online = fine_tuning(run)
            returns = online.seed_means().mean(axis=0)
            row.append(f"{returns[-1]:.2f}")
        rows[-1].append(f"{returns[online.num_reference_episodes]:.2f}")
    return markdown(("rate", *families), rows)


def fine_tuning(run: str) -> MethodResults:
    """The results of `fine-tuning` in a committed run."""
    return load_run(RunDir(ROOT / "results" / run)).methods["fine-tuning"]


def by_task(run: str, method: str, name: str) -> np.ndarray[Any, np.dtype[np.floating[Any]]]:
    """An array of a committed run's results, by seed, task and episode."""
    place = Run.open(ROOT / "results" / run)
    return np.stack([load_results(place, method, seed)[name] for seed in place.seeds()])


def episode_scores(run: str, method: MethodResults) -> list[float]:
    """The score of every episode in a committed run, averaged over seeds and tasks."""
    dataset, scores = read_json(RunDir(ROOT / "results" / run).dataset_file), []
    for results in method.seeds:
        expert = successful_return(dataset, results["tasks"].tolist())
        assert expert is not None
        scores.append(normalised_score(results["returns"].T, expert))
    return [float(score) for score in np.mean(scores, axis=0)]


MACAW_SETS = ("drawer-close", "window-close", "door-lock", "faucet-close", "lever-pull")


def macaw_ml1_table(directory: str, idaq: dict[str, str], more_sets: Sequence[str] = ()) -> str:
    """MACAW on ML1, ours and the paper's: five sets and their mean, and more sets.

    `idaq` maps the methods of gradient-based IDAQ to the headings of their columns.
    """
    headings = ("set", *idaq.values(), "`expert-context`", "paper", "`fine-tuning`", "paper")
    rows, numbers = [], []
    for name in (*MACAW_SETS, *more_sets):
        run = f"ml1/{directory}/{name}"
        of = {row["method"]: row for row in summary_rows(run)}
        texts = [score_cells(of[method], None)[0] for method in idaq]
        values = [of[method]["score"] for method in idaq]
        for method in ("expert-context", "fine-tuning"):
            theirs = published_score(f"ml1/{name}", method, "macaw")
            assert theirs is not None
            texts += score_cells(of[method], theirs)[:2]
            values += [of[method]["score"], theirs.mean]
        online = fine_tuning(run)
        scores = episode_scores(run, online)
        stages = [scores[0], scores[online.num_reference_episodes]]
        rows.append([name, *texts, *(f"{score:.2f}" for score in stages)])
        numbers.append(values + stages)
    means = np.mean(numbers[: len(MACAW_SETS)], axis=0)
    rows.insert(len(MACAW_SETS), ["**mean of the five**", *(f"{mean:.2f}" for mean in means)])
    return markdown((*headings, "before the step", "after the step alone"), rows)


BOREL_SPARSE = {
    "borel-oracle-replay": ("yes", "replay", "ours"),
    "borel-no-oracle-replay": ("no", "replay", "ours"),
    "borel-no-oracle": ("no", "expert", "ours"),
    "borel-paper": ("no", "expert", "preset `paper`"),
}


def borel_table() -> str:
    """BOReL on the sparse family with and without the oracle, ours and the paper's."""
    rows = []
    for run, setting in BOREL_SPARSE.items():
        result = ours("point-robot-sparse", run)
        first = by_task(f"point-robot-sparse/{run}", "belief", "returns")[..., 0].mean()
        number = published("point-robot-sparse", "belief", "borel") if "paper" in run else None
        cells = (f"{first:.2f}", result["belief"], as_text(number), result["expert-context"])
        rows.append((*setting, *cells))
    settings = ("oracle", "data", "settings")
    return markdown((*settings, "first episode", "`belief`", "paper", "`expert-context`"), rows)


def borel_trials_table() -> str:
    """The trials by which the settings of the table `borel` were chosen."""
    rows = []
    for run, name in (("small", "GRU 64, learner 2 x 128"), ("large", "GRU 128, learner 2 x 256")):
        place = f"tuning/borel-point-robot-sparse/{run}"
        (row,) = summary_rows(place)
        seeds = by_task(place, "belief", "returns")[..., -1].mean(axis=1)
        config = Run.open(ROOT / "results" / place).identity.config
        updates = (config["algorithm"]["vae_updates"], config["train"]["num_updates"])
        result = with_interval(row["mean"], row["ci95"])
        each = ", ".join(f"{seed:.1f}" for seed in seeds)
        rows.append((name, *(f"{number:,}" for number in updates), result, each))
    return markdown(("networks", "first phase", "updates", "`belief`", "by seed"), rows)


def ladder_table(name: str) -> str:
    """The rungs that come with the package."""
    family = get_family(name)
    place = shipped_policies(family)
    assert place is not None
    rows = [
        (
            f"{row['updates']:,}",
            f"{row['steps']:,}",
            f"{row['return']:.2f}",
            f"{row['mode_return']:.2f}",
            "-" if row["success"] is None else f"{row['success']:.2f}",
            f"{row['progress']:.2f}",
            "yes" if "medium" in row["logs"] else "",
        )
        for row in ladder_rows(load_ladder(place, family))
    ]
    return markdown(
        ("updates", "steps", "drawn actions", "mode", "success", "progress", "medium"), rows
    )


def attempts_table() -> str:
    """What SAC reached on peg-insert-side without and with demonstrations."""
    rows = []
    for attempt, place in (
        ("the settings above without demonstrations", "peg-insert-side-plain-1"),
        ("learning rate 1e-3, 10,000 updates per round", "peg-insert-side-plain-2"),
        ("reward scale 1, seed 1", "peg-insert-side-plain-3"),
        ("ten rounds of demonstrations", "peg-insert-side"),
    ):
        file = ROOT / "results" / "behaviour" / "ml1" / place / "ladder.json"
        rungs = json.loads(file.read_text())["rungs"]
        best = max(rungs, key=lambda rung: float(rung["mean_return"]))
        steps, success = rungs[-1]["steps"], best["success"]
        rows.append((attempt, f"{steps:,}", f"{best['mean_return']:.0f}", f"{success:.2f}"))
    return markdown(("attempt", "steps", "best return", "success"), rows)


def example_table(columns: dict[str, str]) -> str:
    """Runs of the examples, by the headings of their columns."""
    found = {heading: ours(*run.split("/")) for heading, run in columns.items()}
    names = NAMES | {"posterior": "posterior sampling"}
    first, *_ = found.values()
    rows = [[names[each], *(of.get(each, "-") for of in found.values())] for each in first]
    return markdown(("", *found), rows)


@cache
def speed_result() -> dict[str, Any]:
    """What `idaq bench speed` measured on two CPU cores."""
    result = json.loads((ROOT / "results" / "speed" / "cpu-two-cores.json").read_text())
    assert isinstance(result, dict)
    return result


def speed_table() -> str:
    """The speed of updates, also as a share of the matmul rate, and of adaptation."""
    rows = [
        (
            row["name"],
            f"{row['seconds_per_update']:.4f}",
            f"{row['updates_per_second']:.1f}",
            f"{row['gflop_per_update']:.1f}",
            f"{row['share_of_matmul']:.0%}",
            str(row["authors_seconds_per_update"] or "-"),
        )
        for row in speed_result()["learners"]
    ]
    models = speed_result()["models_alone"]
    rows.append(
        (
            "the 4 + 4 models alone, ML1",
            f"{models['seconds_per_update']:.4f}",
            "-",
            f"{models['gflop_per_update']:.1f}",
            f"{models['share_of_matmul']:.0%}",
            "-",
        )
    )
    for row in speed_result()["adaptation"]:
        name = f"IDAQ, {row['tasks']} task{'s' * (row['tasks'] > 1)} at once"
        time = f"{row['microseconds_per_step']:.1f} µs per environment step"
        rows.append((f"{name}: {time}", "", "", "", "", "110 to 144 µs"))
    measured = ("s/update", "updates/s", "GFLOP", "of matmul rate", "authors' code, s")
    return markdown(("learner, shapes", *measured), rows)


def profile_table() -> str:
    """Where the time of those updates goes."""
    rows = [
        (
            row["name"],
            *(f"{row['profile']['shares'][kind]:.0%}" for kind in KINDS),
            f"{row['profile']['products_share_of_matmul']:.0%}",
        )
        for row in speed_result()["learners"]
        if "profile" in row
    ]
    return markdown(("learner, shapes", *KINDS, "rate in products"), rows)


def stepping_table() -> str:
    """Simulators' steps per second, of the same run."""
    rows = [
        (
            row["family"],
            f"{row['one_worker_steps_s']:,.0f}",
            str(row["workers"]),
            f"{row['steps_s']:,.0f}",
            f"{row['share_of_all_cores']:.0%}",
        )
        for row in speed_result()["stepping"]
    ]
    rates = ("one worker, steps/s", "workers", "steps/s", "of one worker's rate x workers")
    return markdown(("simulator", *rates), rows)


def ml1_experts_table() -> str:
    """The experts of the 50 sets, as scripted and as fixed, beside the paper's data."""
    rows = []
    text = (ROOT / "results" / "ml1-experts" / "experts.jsonl").read_text()
    for row in sorted(map(json.loads, text.splitlines()), key=lambda row: row["set"]):
        before, after = row["before"], row["after"]
        published_return = dataset_return(f"ml1/{row['set']}")
        assert published_return is not None
        ratio = after["return"] / published_return
        old = (f"{before['success']:.2f}", f"{before['return']:.0f}") if row["fix"] else ("-", "-")
        far = "**" if abs(ratio - 1.0) > 0.15 else ""
        new = (f"{after['success']:.2f}", f"{after['return']:.0f}")
        beside = (f"{published_return:.0f}", f"{far}{ratio:.2f}{far}")
        rows.append((row["set"], old[0], new[0], old[1], new[1], *beside))
    both = ("success before", "success", "return before", "return")
    return markdown(("set", *both, "paper's", "ratio"), rows)


def tables() -> dict[str, str]:
    """Every table by its marker."""
    return {
        **search_tables(),
        "default": default_table("bayesian"),
        "default-before": default_table("default"),
        "bench-point-robots": bench_table(),
        "default-seeds-0": default_table("default-seeds-0"),
        "paper": paper_preset_table(),
        "ml1": ml1_table(),
        "ml1-means": ml1_means_table(),
        "ml1-presets": ml1_presets_table(),
        "ml1-curve": ml1_curve_table(),
        "cheetah-vel": cheetah_table(),
        "ml1-medium": medium_table(),
        "op-cl": op_cl_table(),
        "macaw": macaw_table(),
        "macaw-ml1": macaw_ml1_table(
            "macaw", {"idaq-return": "gradient-based IDAQ"}, ("push", "reach")
        ),
        "macaw-ml1-paper": macaw_ml1_table(
            "macaw-paper",
            {
                "idaq-return": "gradient-based IDAQ",
                "idaq-return-default-rules": "by the rules of `default`",
            },
        ),
        "macaw-trials": macaw_trials_table(),
        "macaw-fine-tuning": macaw_fine_tuning_table(),
        "borel": borel_table(),
        "borel-trials": borel_trials_table(),
        "ladder-cheetah-vel": ladder_table("cheetah-vel"),
        "ladder-sweep": ladder_table("ml1/sweep"),
        "ladder-peg-insert-side": ladder_table("ml1/peg-insert-side"),
        "peg-insert-side-attempts": attempts_table(),
        "example-learner": example_table(
            {"FOCAL with IQL": "examples/iql", "FOCAL": "point-robot/default"}
        ),
        "example-objective": example_table(
            {"FOCAL+CLUB": "examples/club", "FOCAL": "point-robot/default"}
        ),
        "example-family": example_table(
            {
                "FOCAL, (s, a, r, s')": "examples/turned-robot",
                "FOCAL, (s, a, r)": "examples/turned-robot-without-next-obs",
            }
        ),
        "example-algorithm": example_table(
            {"table": "examples/table", "FOCAL": "point-robot/default"}
        ),
        "speed": speed_table(),
        "profile": profile_table(),
        "stepping": stepping_table(),
        "ml1-experts": ml1_experts_table(),
    }


def with_tables(text: str) -> str:
    """A page's text with its tables made from the results."""
    current = tables()
    return BLOCK.sub(lambda m: f"<!-- table: {m[1]} -->\n{current[m[1]]}", text)


def pages() -> list[Path]:
    """The pages that have tables."""
    return [page for page in DOCS if "<!-- table:" in page.read_text()]


if __name__ == "__main__":
    for page in pages():
        page.write_text(with_tables(page.read_text()))
