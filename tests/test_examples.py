"""Extensions: each example is one file, and can do whatever built-in components can.

It works as a script and as an entry point of an installed package, with the same results: it is
trained, resumed, adapted, reported under its own label and timed, and the package does not know it.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

import idaq as package
from idaq import registry
from idaq.algos.entries import make_algorithm
from idaq.bench.speed.cases import cases, update_operations
from idaq.bench.speed.measure import measure_case
from idaq.registry import PLACES, registry_of
from idaq.storage import checkpoint
from tests.products import products_of_update
from tests.program import EPISODES, TRAINING, Program, idaq, no_figures, results

__all__ = ["idaq", "no_figures"]  # fixtures

EXAMPLES = Path(__file__).parent.parent / "examples"
METHODS = ("idaq-prediction-error", "posterior")
EVERY_UPDATE = ("--set", "train.log_every_updates=1", "train.checkpoint_every_updates=2")


class Example(NamedTuple):
    """An example's file, and what it adds."""

    file: str
    kind: str  # of the entry
    name: str
    family: str  # that it runs on
    options: tuple[str, ...]
    subject: str  # the name of its runs
    case: str  # its name in `idaq bench speed`
    components: tuple[str, ...] = ()  # that its runs name
    small: tuple[str, ...] = (*TRAINING, "--methods", *METHODS)


ADDED = (
    Example(
        "02_iql_learner",
        "learner",
        "iql",
        "point-robot",
        ("--set", "algorithm.learner.kind=iql"),
        "point-robot, FOCAL with IQL",
        "FOCAL with IQL (default), Point",
        ("learner iql",),
    ),
    Example(
        "03_club_objective",
        "objective",
        "club",
        "point-robot",
        ("--algorithm", "club"),
        "point-robot, FOCAL+CLUB",
        "FOCAL+CLUB (default), Point",
        ("judge ensemble", "learner td3-bc", "objective club"),
    ),
    Example(
        "04_turned_robot_family",
        "task family",
        "turned-robot",
        "turned-robot",
        (),
        "turned-robot",
        "FOCAL (default), turned-robot",
    ),
    Example(
        "05_table_algorithm",
        "algorithm",
        "table",
        "point-robot",
        ("--algorithm", "table"),
        "point-robot, table",
        "table (default), Point",
        ("algorithm table",),
        (
            "--updates",
            "5",
            "--set",
            "algorithm.hidden=[8]",
            "algorithm.batch_size=4",
            *EVERY_UPDATE,
        ),
    ),
)


@pytest.fixture(params=ADDED, ids=lambda example: example.file)
def example(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Example]:
    """An installed example: a module, and metadata that declares its entry point."""
    added: Example = request.param
    place, module = tmp_path / "site-packages", f"my_{added.name.replace('-', '_')}"
    metadata = place / f"{module}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    attribute = "FAMILY" if added.kind == "task family" else "ENTRY"
    (metadata / "entry_points.txt").write_text(
        f"[{registry_of(added.kind).group}]\n{added.name} = {module}:{attribute}\n"
    )
    shutil.copy(EXAMPLES / f"{added.file}.py", place / f"{module}.py")
    monkeypatch.syspath_prepend(place)
    registry._entry_points.cache_clear()
    with ExitStack() as stack:
        for kind in PLACES:
            stack.enter_context(registry_of(kind).registered())
        yield added
    monkeypatch.delitem(sys.modules, module, raising=False)
    registry._entry_points.cache_clear()


def command(example: Example, out: Path) -> tuple[str, ...]:
    """The command `idaq run` on a small scale."""
    job = ("run", example.family, *example.options, *example.small, *EPISODES)
    return (*job, "--trajectories", "2", "--seeds", "1", "--json", "--out", str(out))


def test_every_example_is_tested() -> None:
    files = {file.stem for file in EXAMPLES.glob("*.py")}
    assert files == {"01_point_robot", *(example.file for example in ADDED)}


def test_it_is_known_by_its_name(example: Example) -> None:
    known = registry_of(example.kind)
    assert example.name in known
    assert not known.is_built_in(example.name)
    assert example.name in list(known)


def test_a_script_and_an_installed_one_are_the_same(
    example: Example, idaq: Program, tmp_path: Path
) -> None:
    """`run` by the script, then by the entry point, interrupted and resumed."""
    script = (sys.executable, str(EXAMPLES / f"{example.file}.py"))
    done = subprocess.run(
        [*script, *command(example, tmp_path / "one")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr

    save, other = checkpoint.save, tmp_path / "other"

    def interrupted(file: Path, *arguments: object) -> None:
        save(file, *arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "save", interrupted)
        stopped = idaq(*command(example, other))
    assert stopped.code == 130, stopped.err
    assert list((other / "train").iterdir()), "there is something to go on with"
    resumed = idaq(*command(example, other), "--resume")
    assert resumed.code == 0, resumed.err
    assert json.loads(resumed.out)["rows"] == json.loads(done.stdout)["rows"]
    assert results(other) == results(tmp_path / "one")

    components = package.Run.open(other).identity.components
    assert list(components) == list(example.components)
    if components:
        assert str(components[f"{example.kind} {example.name}"]).startswith("source ")

    # adapt again, report, and write the page
    again = idaq("adapt", other, "--method", "posterior", *EPISODES, "--name", "again", "--json")
    assert again.code == 0, again.err
    means = {row["method"]: row["mean"] for row in json.loads(again.out)["rows"]}
    assert means["again"] == means["posterior"]
    assert example.subject in idaq("report", other).out.replace("\n", " ")
    page = tmp_path / "page.html"
    assert idaq("report", other, "--html", page).code == 0
    assert f'"subject":"{example.subject}"' in page.read_text()


def test_its_operations_are_counted(example: Example) -> None:
    (case,) = [case for case in cases() if case.name == example.case]
    algorithm = make_algorithm(case.config, case.spec)
    counted = update_operations(algorithm)
    assert counted is not None
    # some products with a single column are not compiled as products
    assert 0.97 * counted <= products_of_update(algorithm) <= 1.01 * counted, example.name


@pytest.mark.slow
def test_its_speed_is_measured(example: Example) -> None:
    (case,) = [case for case in cases() if case.name == example.case]
    (row,) = measure_case(case, 1)
    assert row["name"] == example.case
    assert row["updates_per_second"] > 0.0
    assert 0.0 < row["share_of_matmul"] < 1.0
    assert row["profile"]["shares"].keys() >= {"products"}
