"""`idaq bench` and the page of a benchmark, as their users call them."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from idaq.bench.cells import make_cells
from idaq.bench.experiments import EXPERIMENTS, SCALES, Column, Experiment, get_experiment, row
from idaq.bench.paper import Published
from idaq.bench.runner import run_cells
from idaq.bench.tables import Entry, ResultTable, aggregates, render
from idaq.cli import main
from idaq.cli.bench import Bench
from tests.bench.small import TINY
from tests.program import Program, check_help, tree

SMOKE = ("--scale", "smoke")
COMMANDS = ("list", "run", "status", "table", "figure", "speed")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, compile_cache: Path) -> Path:
    """`mujoco` on both Point-Robots with every algorithm, done; not to be changed."""
    place = tmp_path_factory.mktemp("bench") / "results"
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SCALES, "smoke", TINY)
        assert main(["bench", "run", "mujoco", *SMOKE, "--results", str(place)]) == 0
    return place


def test_every_command_is_tested() -> None:
    union = Bench.__dataclass_fields__["command"].type
    assert [each.__metadata__[0].name for each in union.__args__] == list(COMMANDS)  # type: ignore[union-attr]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_clean(idaq: Program, command: str) -> None:
    check_help(idaq("bench", command, "--help"))


def test_list(idaq: Program) -> None:
    listed = json.loads(idaq("bench", "list", "--json").out)
    assert [each["name"] for each in listed] == list(EXPERIMENTS)
    shown = idaq("bench", "list").out
    for name in EXPERIMENTS:
        assert name in shown
    assert "not in this version" in shown


def test_what_is_done_is_not_done_again(idaq: Program, bench: Path, tiny: None) -> None:
    before = tree(bench)
    outcome = idaq("bench", "run", "mujoco", *SMOKE, "--results", bench)
    assert outcome.code == 0
    assert tree(bench) == before
    assert outcome.out.startswith("mujoco: 6 of 6 cells done")
    assert f"idaq bench table mujoco --scale smoke --results {bench}" in outcome.err


def test_what_is_not_available_is_said_and_skipped(
    idaq: Program, bench: Path, tiny: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("idaq.bench.available.ALGORITHMS", {"focal": None, "borel": None})
    before = tree(bench)
    command = ("mujoco", *SMOKE, "--results", bench)
    outcome = idaq("bench", "run", *command)
    assert outcome.code == 0
    assert tree(bench) == before
    assert outcome.out.startswith("mujoco: 4 of 6 cells done")
    for family in ("point-robot", "point-robot-sparse"):
        assert f"{family}/macaw: not available, no algorithm 'macaw'" in outcome.err
    states = {
        row["name"]: row for row in json.loads(idaq("bench", "status", *command, "--json").out)
    }
    assert states["point-robot/macaw"]["state"] == "unavailable"
    assert "in this version" in states["point-robot/macaw"]["note"]
    markdown = idaq("bench", "table", *command, "--format", "md").out
    assert "- point-robot, MACAW: no algorithm 'macaw' in this version" in markdown


def test_status(idaq: Program, bench: Path, tiny: None) -> None:
    states = json.loads(idaq("bench", "status", "mujoco", *SMOKE, "--results", bench, "--json").out)
    families, algorithms = ("point-robot", "point-robot-sparse"), ("focal", "macaw", "borel")
    assert {each["name"] for each in states} == {f"{f}/{a}" for f in families for a in algorithms}
    for each in states:
        assert each["state"] == "done"
        assert Path(each["directory"], "run.json").is_file()
    shown = idaq("bench", "status", "mujoco", *SMOKE, "--results", bench).out
    assert "6 done" in shown


def test_without_a_scale_what_has_been_done_is_shown(
    idaq: Program, bench: Path, tiny: None, tmp_path: Path
) -> None:
    for verb in ("status", "table"):
        for more in ((), ("--only", "sparse")):
            command = ("bench", verb, "mujoco", "--results", bench, *more)
            assert idaq(*command).out == idaq(*command, *SMOKE).out, command
    nothing = idaq("bench", "status", "mujoco", "--results", tmp_path / "nothing").out
    assert "mujoco, scale fast" in nothing
    only = ("--only", "cheetah-vel")  # no row of scale smoke
    assert "cheetah-vel/focal" in idaq("bench", "status", "mujoco", "--results", bench, *only).out
    wrong = idaq("bench", "status", "mujoco", "--results", bench, "--only", "nowhere")
    assert wrong.code == 2
    assert "'nowhere' matches no cell" in wrong.err


def test_a_table_in_three_formats(idaq: Program, bench: Path, tiny: None) -> None:
    def table(form: str) -> str:
        command = ("bench", "table", "mujoco", *SMOKE, "--results", bench, "--format", form)
        outcome = idaq(*command)
        assert outcome.code == 0, outcome.err
        return outcome.out

    lines = list(csv.DictReader(io.StringIO(table("csv"))))
    ours = {(line["environment"], line["method"]): line for line in lines}
    idaq_line = ours["point-robot", "IDAQ"]
    assert (idaq_line["paper"], idaq_line["paper_ci95"], idaq_line["seeds"]) == (
        "-5.1",
        "0.26",
        "2",
    )
    mean = float(idaq_line["mean"])
    assert float(idaq_line["ci95_low"]) <= mean <= float(idaq_line["ci95_high"])
    assert ours["point-robot", "MACAW"]["paper"] == "-14.61"
    assert np.isfinite(float(ours["point-robot", "MACAW"]["mean"]))
    markdown = table("md")
    assert f"| point-robot | {mean:.2f} [" in markdown
    assert "-5.10 ± 0.26" in markdown
    latex = table("latex")
    assert latex.count(r"\begin{tabular}") == latex.count(r"\end{tabular}") == 1
    assert r"$-$5.10 $\pm$ 0.26" in latex
    rows = [line for line in latex.splitlines() if line.startswith("point-robot")]
    assert {line.count("&") for line in rows} == {8}


def test_fewer_seeds_in_a_table(idaq: Program, bench: Path, tiny: None) -> None:
    command = ("bench", "table", "mujoco", *SMOKE, "--results", bench, "--format", "csv")
    one = idaq(*command, "--seeds", "1").out
    line = next(csv.DictReader(io.StringIO(one)))
    assert (line["seeds"], line["ci95_low"]) == ("1", "")
    assert one != idaq(*command).out


def test_datasets_are_an_experiment(idaq: Program, bench: Path, tiny: None, tmp_path: Path) -> None:
    """No agent is trained; the data of another experiment is used."""
    command = ("--scale", "smoke", "--only", "point-robot", "--results", bench)
    assert idaq("bench", "run", "dataset-returns", *command).code == 0
    out = idaq("bench", "table", "dataset-returns", *command, "--format", "csv").out
    line = next(csv.DictReader(io.StringIO(out)))
    assert float(line["mean"]) == pytest.approx(-5.72, abs=0.3)
    assert line["paper"] == "-5.72"


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("run", "mujco"), ("mujco", "Did you mean 'mujoco'")),
        (("run", "mujoco", "--address", "x:1"), ("--address", "--engine ray")),
        (("status", "mujoco", "--only", "zzz"), ("--only", "zzz")),
        (("table", "mujoco", "--seeds", "0"), ("--seeds", "at least 1")),
        (("figure", "mujoco"), ("is a table", "idaq bench table mujoco")),
        (("speed", "--updates", "0"), ("--updates",)),
    ],
)
def test_mistakes(
    refused: Program, tmp_path: Path, arguments: tuple[str, ...], names: tuple[str, ...]
) -> None:
    place = () if arguments[0] == "speed" else ("--results", tmp_path / "none")
    refused("bench", *arguments, *place, names=names)


def test_failed_cells_are_named(
    idaq: Program, tmp_path: Path, tiny: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object, **options: object) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr("idaq.bench.stages.collect", broken)
    command = ("mujoco", *SMOKE, "--only", "point-robot/focal", "--results", tmp_path)
    outcome = idaq("bench", "run", *command)
    assert outcome.code == 2
    assert "1 of 1 cells failed. point-robot/focal: " in outcome.err
    assert "the disk is gone" in outcome.err
    assert "failed" in idaq("bench", "status", *command).out


# --- The page -------------------------------------------------------------------------------


def test_the_page_of_a_benchmark(idaq: Program, bench: Path, tiny: None, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "page.html"
    outcome = idaq("report", bench, "--html", out)
    assert outcome.code == 0
    assert f"page: {out}" in outcome.err
    data = json.loads(out.read_text().split('id="data">')[1].split("</script>")[0])
    shown = {each["name"]: each for each in data["experiments"]}
    assert "mujoco" in shown
    entry = next(r for r in shown["mujoco"]["rows"] if r["name"] == "point-robot")["entries"][0]
    assert entry["paper"] == -5.1
    assert entry["interval"][0] <= entry["value"] <= entry["interval"][1]
    assert len(data["runs"]) == 6


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ((), ("No RUN is given",)),
        (("--html", "page.html"), ("No RUN is given",)),
        (("nothing", "--html", "page.html"), ("no run in", "nothing")),
        (("--serve", "nothing"), ("no directory", "nothing")),
    ],
)
def test_pages_of_nothing(
    refused: Program, arguments: tuple[str, ...], names: tuple[str, ...]
) -> None:
    refused("report", *arguments, names=names)


# --- Statistics over sets -------------------------------------------------------------------


def made_up(num_sets: int) -> ResultTable:
    """Scores of two methods, the first better by 0.5 everywhere; a third has none."""
    columns = tuple(Column(name=name, method=name) for name in ("good", "bad", "absent"))
    sets = ("push", "reach", "soccer", "sweep", "assembly")[:num_sets]
    rows = (*map(row, sets), row("point-robot"))
    experiment = Experiment(name="x", title="X", rows=rows, columns=columns, smoke=())
    rng = np.random.default_rng(0)
    entries = {}
    for each in rows:
        base = rng.uniform(0.0, 0.2, 4)
        entries[each.name, "good"] = Entry(base + 0.5, Published(0.4, 0.1))
        entries[each.name, "bad"] = Entry(base, Published(0.2, 0.1))
        entries[each.name, "absent"] = Entry(None, None, "not there")
    return ResultTable(experiment, rows, columns, entries)


def test_aggregates_are_over_ml1_sets_alone() -> None:
    sets, found = aggregates(made_up(5))
    assert len(sets) == 5
    assert list(found) == ["good", "bad"]
    good, bad = found["good"], found["bad"]
    assert good.mean == pytest.approx(bad.mean + 0.5)
    assert good.interquartile_mean == pytest.approx(bad.interquartile_mean + 0.5)
    assert good.improvement is None
    assert bad.improvement == 1.0
    assert good.paper_mean == pytest.approx(0.4)
    assert bad.paper_mean == pytest.approx(0.2)
    text = render(made_up(5), "md")
    assert "| *mean, 5 sets* |" in text
    assert "| *P(good is better), 5 sets* | - | - | 1.00 [1.00, 1.00] | - | - | - |" in text


def test_one_set_is_no_statistic() -> None:
    assert aggregates(made_up(1)) == ([], {})
    assert "mean," not in render(made_up(1), "md")


def test_run_cells_in_python(bench: Path, tiny: None) -> None:
    """The command's twin."""
    cells = make_cells(get_experiment("mujoco"), "smoke", only="focal")
    statuses = run_cells(bench, cells, quiet=True)
    assert {status.state for status in statuses.values()} == {"done"}
