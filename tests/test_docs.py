"""What README and docs say is what the results and the code say."""

import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

import idaq
from idaq.algos.resolve import resolve
from idaq.runs import api as pipeline
from tests.docs_tables import ROOT, pages, with_tables


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_tables_are_those_of_the_results(page: Path) -> None:
    assert page.read_text() == with_tables(page.read_text())


def test_links_lead_somewhere() -> None:
    for page in (ROOT / "README.md", *ROOT.glob("docs/*.md"), ROOT / "results" / "README.md"):
        for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `run_all` quick, whatever it is asked for."""
    full = pipeline.run_all

    def quick(run: Any, family: Any, **options: Any) -> Any:
        config = options.pop("config", None) or resolve("default", family.name)
        config = idaq.override(config, "train.num_updates=2")
        options["seeds"] = idaq.Seeds(count=1)
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
