"""The tables of README and docs, made from the raw results.

`python -m tests.docs_tables` writes them between their markers; a test compares.
"""

import json
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from idaq.behaviour.ladder import ladder_rows, load_ladder
from idaq.behaviour.quality import shipped_policies
from idaq.bench.paper import Published, dataset_return, published, published_score
from idaq.envs import get_family

ROOT = Path(__file__).parent.parent
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


def summary_rows(run: str) -> list[dict[str, Any]]:
    """The methods of a committed run."""
    rows = json.loads((ROOT / "results" / run / "summary.json").read_text())["rows"]
    assert isinstance(rows, list)
    return rows


def with_interval(mean: float, ci95: Sequence[float]) -> str:
    """A mean and its interval, as text."""
    return f"{mean:.2f} [{ci95[0]:.2f}, {ci95[1]:.2f}]"


def ours(family: str, run: str) -> dict[str, str]:
    """Method: mean and interval, as text."""
    rows = summary_rows(f"{family}/{run}")
    return {row["method"]: with_interval(row["mean"], row["ci95"]) for row in rows}


def paper(family: str, method: str) -> str:
    """The paper's number, as text."""
    return as_text(published(family, method))


def as_text(number: Published | None) -> str:
    """One of the paper's numbers."""
    return f"{number.mean:.2f} ± {number.ci95:.2f}" if number else "-"


def default_table(run: str) -> str:
    """Both families, ours and the paper's."""
    results = {family: ours(family, run) for family in FAMILIES}
    lines = [
        "| | Point-Robot | paper | Point-Robot-Sparse | paper |",
        "|---|---|---|---|---|",
    ]
    for method in results[FAMILIES[0]]:
        cells = [
            cell for family in FAMILIES for cell in (results[family][method], paper(family, method))
        ]
        lines.append(f"| {NAMES[method]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def paper_preset_table() -> str:
    """Both families and both discounts of the preset `paper`."""
    lines = [
        "| | Point-Robot | discount 0.9 | paper | Point-Robot-Sparse | discount 0.9 | paper |",
        "|---|---|---|---|---|---|---|",
    ]
    results = {
        (family, run): ours(family, run)
        for family in FAMILIES
        for run in ("paper", "paper-discount-0.9")
    }
    for method in results[FAMILIES[0], "paper"]:
        cells = [
            cell
            for family in FAMILIES
            for cell in (
                results[family, "paper"][method],
                results[family, "paper-discount-0.9"].get(method, "-"),
                paper(family, method),
            )
        ]
        lines.append(f"| {NAMES[method]} | {' | '.join(cells)} |")
    return "\n".join(lines)


ML1_METHODS = ("idaq-return", "posterior", "expert-context")


@cache
def ml1_rows() -> dict[str, dict[str, dict[str, Any]]]:
    """Set, method: the row of its summary, with the paper's score."""
    found = {}
    for place in sorted((ROOT / "results" / "ml1" / "default").iterdir()):
        found[place.name] = {
            row["method"]: row | {"paper": published_score(f"ml1/{place.name}", row["method"])}
            for row in summary_rows(f"ml1/default/{place.name}")
        }
    return found


def ml1_table() -> str:
    """Score and success on the ML1 sets that were run, ours and the paper's."""
    lines = [
        "| set | IDAQ, return | paper | success | posterior | paper | success "
        "| expert context | paper | success |",
        "|---|" + "---|" * 3 * len(ML1_METHODS),
    ]
    for name, rows in ml1_rows().items():
        cells = []
        for row in (rows[method] for method in ML1_METHODS):
            cells.append(with_interval(row["score"], row["score_ci95"]))
            cells.append(as_text(row["paper"]))
            cells.append(f"{row['success']:.2f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    means = [f"{mean:.2f}" for method in ML1_METHODS for mean in ml1_means(method)]
    return "\n".join([*lines, f"| **mean, scores capped at 1** | {' | '.join(means)} |"])


def ml1_means(method: str) -> tuple[float, float, float]:
    """Over the sets: our score and the paper's, capped at 1, and our success."""
    rows = [rows[method] for rows in ml1_rows().values()]
    return (
        fmean(row["score_capped"] for row in rows),
        fmean(min(row["paper"].mean, 1.0) for row in rows),
        fmean(row["success"] for row in rows),
    )


def ml1_means_table() -> str:
    """The last line of that table, method by method."""
    lines = ["| | score | paper | success |", "|---|---|---|---|"]
    for method in ML1_METHODS:
        cells = [f"{mean:.2f}" for mean in ml1_means(method)]
        lines.append(f"| {NAMES[method]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cheetah_table() -> str:
    """Cheetah-Vel, ours and the paper's."""
    lines = ["| | Cheetah-Vel | paper |", "|---|---|---|"]
    for method, result in ours("cheetah-vel", "default").items():
        lines.append(f"| {NAMES[method]} | {result} | {paper('cheetah-vel', method)} |")
    return "\n".join(lines)


def medium_table() -> str:
    """Both sets with data of medium quality, ours and the paper's."""
    lines = [
        "| | sweep | paper | success | peg-insert-side | paper | success |",
        "|---|---|---|---|---|---|---|",
    ]
    cells: dict[str, list[str]] = {}
    for name in ("sweep", "peg-insert-side"):
        for row in summary_rows(f"ml1/medium/{name}"):
            number = published_score(f"ml1/{name}", row["method"], quality="medium")
            score = with_interval(row["score"], row["score_ci95"])
            cells.setdefault(row["method"], []).extend(
                (score, as_text(number), f"{row['success']:.2f}")
            )
    lines += [f"| {NAMES[method]} | {' | '.join(each)} |" for method, each in cells.items()]
    return "\n".join(lines)


def op_cl_table() -> str:
    """OP+CL on ML1 with IDAQ and without, ours and the paper's."""
    lines = [
        "| set | OP+CL+IDAQ | paper | success | OP+CL | paper | success |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in ("push", "reach", "drawer-close"):
        cells = []
        rows = {row["method"]: row for row in summary_rows(f"ml1/op-cl/{name}")}
        for row in (rows["idaq-return"], rows["posterior"]):
            number = published_score(f"ml1/{name}", row["method"], "op-cl")
            score = with_interval(row["score"], row["score_ci95"])
            cells += [score, as_text(number), f"{row['success']:.2f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def ladder_table(name: str) -> str:
    """The rungs that come with the package."""
    family = get_family(name)
    place = shipped_policies(family)
    assert place is not None
    lines = [
        "| updates | steps | drawn actions | mode | success | progress | medium |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in ladder_rows(load_ladder(place, family)):
        success = "-" if row["success"] is None else f"{row['success']:.2f}"
        lines.append(
            f"| {row['updates']:,} | {row['steps']:,} | {row['return']:.2f} "
            f"| {row['mode_return']:.2f} | {success} | {row['progress']:.2f} "
            f"| {'yes' if 'medium' in row['logs'] else ''} |"
        )
    return "\n".join(lines)


def attempts_table() -> str:
    """What SAC reached on peg-insert-side without demonstrations and with them."""
    lines = ["| attempt | steps | best return | success |", "|---|---|---|---|"]
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
        lines.append(f"| {attempt} | {steps:,} | {best['mean_return']:.0f} | {success:.2f} |")
    return "\n".join(lines)


def speed_table() -> str:
    """What `idaq bench speed` measured on two CPU cores."""
    result = json.loads((ROOT / "results" / "speed" / "cpu-two-cores.json").read_text())
    lines = [
        "| learner, shapes | s/update | updates/s | GFLOP | of matmul rate | authors' code, s |",
        "|---|---|---|---|---|---|",
    ]
    for row in result["learners"]:
        authors = row["authors_seconds_per_update"]
        lines.append(
            f"| {row['name']} | {row['seconds_per_update']:.4f} | {row['updates_per_second']:.1f} "
            f"| {row['gflop_per_update']:.1f} | {row['share_of_matmul']:.0%} | {authors or '-'} |"
        )
    models = result["models_alone"]
    lines.append(
        f"| the 4 + 4 models alone, ML1 | {models['seconds_per_update']:.4f} | - "
        f"| {models['gflop_per_update']:.1f} | {models['share_of_matmul']:.0%} | - |"
    )
    for row in result["adaptation"]:
        lines.append(
            f"| IDAQ, {row['tasks']} task{'s' * (row['tasks'] > 1)} at once: "
            f"{row['microseconds_per_step']:.1f} µs per environment step | | | | | 110 to 144 µs |"
        )
    return "\n".join(lines)


def stepping_table() -> str:
    """Simulators' steps per second, of the same run."""
    result = json.loads((ROOT / "results" / "speed" / "cpu-two-cores.json").read_text())
    lines = [
        "| simulator | one worker, steps/s | workers | steps/s | of one worker's rate x workers |",
        "|---|---|---|---|---|",
    ]
    for row in result["stepping"]:
        lines.append(
            f"| {row['family']} | {row['one_worker_steps_s']:,.0f} | {row['workers']} "
            f"| {row['steps_s']:,.0f} | {row['share_of_all_cores']:.0%} |"
        )
    return "\n".join(lines)


def ml1_experts_table() -> str:
    """The experts of the 50 sets, as scripted and as mended, beside the paper's data."""
    lines = [
        "| set | success before | success | return before | return | paper's | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    text = (ROOT / "results" / "ml1-experts" / "experts.jsonl").read_text()
    for row in sorted(map(json.loads, text.splitlines()), key=lambda row: row["set"]):
        before, after = row["before"], row["after"]
        published_return = dataset_return(row["set"])
        assert published_return is not None
        ratio = after["return"] / published_return
        old = (f"{before['success']:.2f}", f"{before['return']:.0f}") if row["mend"] else ("-", "-")
        far = "**" if abs(ratio - 1.0) > 0.15 else ""
        lines.append(
            f"| {row['set']} | {old[0]} | {after['success']:.2f} | {old[1]} "
            f"| {after['return']:.0f} | {published_return:.0f} | {far}{ratio:.2f}{far} |"
        )
    return "\n".join(lines)


def tables() -> dict[str, str]:
    """Marker: table."""
    return {
        "default": default_table("default"),
        "default-seeds-0": default_table("default-seeds-0"),
        "paper": paper_preset_table(),
        "ml1": ml1_table(),
        "ml1-means": ml1_means_table(),
        "cheetah-vel": cheetah_table(),
        "ml1-medium": medium_table(),
        "op-cl": op_cl_table(),
        "ladder-cheetah-vel": ladder_table("cheetah-vel"),
        "ladder-sweep": ladder_table("ml1/sweep"),
        "ladder-peg-insert-side": ladder_table("ml1/peg-insert-side"),
        "peg-insert-side-attempts": attempts_table(),
        "speed": speed_table(),
        "stepping": stepping_table(),
        "ml1-experts": ml1_experts_table(),
    }


def with_tables(text: str) -> str:
    """A page with its tables as the results have them."""
    current = tables()
    return BLOCK.sub(lambda m: f"<!-- table: {m[1]} -->\n{current[m[1]]}", text)


def pages() -> list[Path]:
    """The pages that have tables."""
    return [
        page
        for page in (ROOT / "README.md", *ROOT.glob("docs/*.md"))
        if "<!-- table:" in page.read_text()
    ]


if __name__ == "__main__":
    for page in pages():
        page.write_text(with_tables(page.read_text()))
