"""README and docs agree with the results and the code."""

import importlib
import pkgutil
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import idaq as package
from idaq.registry import PLACES, registry_of
from idaq.runs import api as pipeline
from idaq.runs.resolve import resolve
from tests.docs_cells import ROOT
from tests.docs_tables import DOCS, pages, with_tables
from tests.program import EPISODES, Program, idaq, no_figures

__all__ = ["idaq", "no_figures"]  # fixtures

PYTHON = re.compile(r"^```python\n(.*?)^```\n(?:\n```console\n\$ (.*?)\n```)?", re.M | re.S)
ELSEWHERE = {"README.md", "theory.md"}  # the Python of these is tested by other tests


@pytest.fixture(autouse=True)
def own_entries() -> Iterator[None]:
    """Forget whatever a page registers."""
    with ExitStack() as stack:
        for kind in PLACES:
            stack.enter_context(registry_of(kind).registered())
        yield


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_tables_are_those_of_the_results(page: Path) -> None:
    assert page.read_text() == with_tables(page.read_text())


def test_links_lead_somewhere() -> None:
    for page in DOCS:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_links_lead_to_headings_that_are_there() -> None:
    for page in DOCS:
        for target, heading in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text()):
            text = (page.parent / target if target else page).read_text()
            titles = re.findall(r"^#+ (.*)$", text, re.M)
            anchors = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles]
            assert heading in anchors, f"{page.name}: {target}#{heading}"


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_what_it_names_exists(page: Path) -> None:
    """Modules, functions and groups of entry points, such as `idaq.runs.statistics`."""
    groups = {registry_of(kind).group for kind in PLACES}
    names = set(re.findall(r"(?<![\w/.])idaq(?:\.[A-Za-z_]\w*)+", page.read_text()))
    for name in sorted(names - groups):
        pkgutil.resolve_name(name)


def blocks() -> list[Any]:
    """The Python of the pages, each block with the command below it."""
    return [
        pytest.param(code, command, id=f"{page.name}-{number}")
        for page in DOCS
        if page.name not in ELSEWHERE
        for number, (code, command) in enumerate(PYTHON.findall(page.read_text()))
    ]


@pytest.mark.parametrize(("code", "command"), blocks())
def test_python_in_the_docs_runs(
    code: str, command: str, idaq: Program, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each block as a module; if it is a script, with its command, on a small scale."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    name = f"page_{abs(hash(code))}"
    (tmp_path / f"{name}.py").write_text(code)
    importlib.import_module(name)
    assert bool(command) == ("sys.exit(main())" in code), "a script comes with a command"
    if command:
        small = ("--updates", "2", "--trajectories", "2", "--seeds", "1", *EPISODES)
        outcome = idaq(*shlex.split(command)[2:], *small, "--out", "run")
        assert outcome.code == 0, outcome.err


def shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `run_all` quick, whatever its options."""
    full = pipeline.run_all

    def quick(run: Any, family: Any, **options: Any) -> Any:
        config = options.pop("config", None) or resolve("default", family.name)
        config = package.override(config, "train.num_updates=2")
        options["seeds"] = package.Seeds(count=1)
        return full(run, family, config=config, trajectories=2, quiet=True, **options)

    monkeypatch.setattr(pipeline, "run_all", quick)


def test_python_in_the_readme_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shrunk(monkeypatch)
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "idaq-return" in printed
    assert "(20, 20)" in printed


def test_the_first_example_runs(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The others have tests of their own (`tests/test_examples.py`)."""
    example = ROOT / "examples" / "01_point_robot.py"
    shrunk(monkeypatch)
    monkeypatch.setattr(sys, "argv", [str(example), str(tmp_path / "run")])
    runpy.run_path(str(example), run_name="__main__")
    assert "idaq-return" in capsys.readouterr().out


def test_every_command_is_in_the_readme() -> None:
    text = (ROOT / "README.md").read_text()
    for command in (
        "list",
        "run",
        "collect",
        "behaviour",
        "train",
        "adapt",
        "report",
        "bench speed",
        "theory",
    ):
        assert f"`idaq {command}" in text
