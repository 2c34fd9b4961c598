"""One self-contained HTML page of some runs: no network, no server, no framework."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from idaq.config import Json
from idaq.report.bench_payload import bench_payload, is_bench
from idaq.report.payload import (
    MAX_PATH_BYTES,
    POSITION_SCALE,
    Budget,
    Unreadable,
    find_runs,
    run_payload,
)
from idaq.storage.outputs import PAGE, check_output, output_file

SCRIPTS = ("dom.js", "charts.js", "tables.js", "explorer.js", "main.js")


def write_page(places: Sequence[Path], out: Path) -> Path:
    """Write the page of the runs that the places are or hold; overwrite only such a page."""
    check_output(out, PAGE)
    page = render_page(page_payload(places))
    with output_file(out, PAGE) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return out


def page_payload(places: Sequence[Path]) -> Json:
    """Everything that the page shows; without places, an empty one."""
    runs = find_runs(places) if places else {}
    budget, unreadable = Budget(MAX_PATH_BYTES), Unreadable()
    shown = unreadable.without(runs, lambda name: run_payload(runs[name], name, budget))
    benches = [bench_payload(place, unreadable) for place in places if is_bench(place)]
    return {
        "version": version("idaq"),
        "made": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "positionScale": POSITION_SCALE,
        "live": False,
        "runs": shown,
        "experiments": [experiment for bench in benches for experiment in bench],
        "unreadable": unreadable.found,
    }


def render_page(payload: Json) -> str:
    """The page with its styles, scripts and data inside."""
    folder = files("idaq.report").joinpath("page")

    def read(name: str) -> str:
        return folder.joinpath(name).read_text(encoding="utf-8")

    data = json.dumps(payload, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    page = read("page.html").replace("/*CSS*/", read("page.css"))
    page = page.replace("/*JS*/", "\n".join(map(read, SCRIPTS)))
    return page.replace("/*DATA*/", data)
