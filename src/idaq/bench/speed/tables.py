"""The figures of `idaq bench speed` as tables for people."""

import statistics

from rich import box
from rich.table import Table

from idaq.bench.speed.profile import KINDS
from idaq.bench.speed.stepping import NUM_SIMULATORS
from idaq.config import Json


def speed_tables(result: Json) -> list[Table]:
    """The figures of `measure` as tables for people."""
    learners = _table(
        f"Meta-updates on {result['device']}",
        ("learner, shapes", "s/update", "updates/s", "GFLOP", "of matmul", "authors' s"),
    )
    for row in result["learners"]:
        authors = row["authors_seconds_per_update"]
        learners.add_row(
            row["name"],
            f"{row['seconds_per_update']:.4f}",
            f"{row['updates_per_second']:,.1f}",
            _or_dash(row["gflop_per_update"], "{:.1f}"),
            _or_dash(row["share_of_matmul"], "{:.0%}"),
            _or_dash(authors, "{:.2f}"),
        )
    models = result["models_alone"]
    rate = statistics.mean(row["matmul_gflop_s"] for row in result["learners"])
    learners.caption = (
        f"matmul rate of this machine: {rate:,.0f} GFLOP/s\n"
        f"the 4 + 4 models alone: {models['seconds_per_update']:.3f} s/update, "
        f"{models['share_of_matmul']:.0%} of the matmul rate"
    )
    profiles = _table("Where their time goes", ("learner, shapes", *KINDS, "rate"))
    for row in result["learners"]:
        if profile := row.get("profile"):
            shares = [f"{profile['shares'][kind]:.0%}" for kind in KINDS]
            rate_text = _or_dash(profile["products_share_of_matmul"], "{:.0%}")
            profiles.add_row(row["name"], *shares, rate_text)
    profiles.caption = "rate: of the matmul rate, while in products"
    adaptation = _table(
        "IDAQ adaptation on Point-Robot",
        ("tasks at once", "environment steps", "µs per step, all included"),
    )
    for row in result["adaptation"]:
        adaptation.add_row(
            str(row["tasks"]), f"{row['steps']:,}", f"{row['microseconds_per_step']:.1f}"
        )
    memory = ", ".join(f"{k} {v:,.0f} MB" for k, v in result["peak_memory_mb"].items())
    adaptation.caption = f"authors' code: 110 to 144 µs overhead per step\npeak memory: {memory}"
    stepping = _table(
        "Simulators in worker processes", ("family", "workers", "steps/s", "one worker", "of all")
    )
    for row in result["stepping"]:
        stepping.add_row(
            row["family"],
            str(row["workers"]),
            f"{row['steps_s']:,.0f}",
            f"{row['one_worker_steps_s']:,.0f}",
            f"{row['share_of_all_cores']:.0%}",
        )
    if len(result["stepping"]) < NUM_SIMULATORS:
        stepping.caption = "the others are not installed: idaq[metaworld], idaq[mujoco]"
    return [learners, *([profiles] if profiles.rows else []), adaptation, stepping]


def _or_dash(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def _table(title: str, headings: tuple[str, ...]) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=(0, 1, 0, 0),
    )
    for index, heading in enumerate(headings):
        table.add_column(heading, justify="right" if index else "left", no_wrap=True)
    return table
