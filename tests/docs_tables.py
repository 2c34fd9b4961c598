"""The tables of README and docs, made from the raw results.

`python -m tests.docs_tables` writes them between their markers; a test compares.
"""

import json
import re
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from idaq.bench.paper import dataset_return, published, published_score

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


def ours(family: str, run: str) -> dict[str, str]:
    """Method: mean and interval, as text."""
    summary = json.loads((ROOT / "results" / family / run / "summary.json").read_text())
    return {
        row["method"]: f"{row['mean']:.2f} [{row['ci95'][0]:.2f}, {row['ci95'][1]:.2f}]"
        for row in summary["rows"]
    }


def paper(family: str, method: str) -> str:
    """The paper's number, as text."""
    number = published(family, method)
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
        summary = json.loads((place / "summary.json").read_text())
        found[place.name] = {
            row["method"]: row | {"paper": published_score(f"ml1/{place.name}", row["method"])}
            for row in summary["rows"]
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
            low, high = row["score_ci95"]
            cells.append(f"{row['score']:.2f} [{low:.2f}, {high:.2f}]")
            cells.append(f"{row['paper'].mean:.2f} ± {row['paper'].ci95:.2f}")
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
        "speed": speed_table(),
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
