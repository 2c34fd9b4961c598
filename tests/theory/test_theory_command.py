"""The command: arguments, output, exit status, figures."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from idaq.cli import theory as command_module
from idaq.cli.theory import parse_v, theory
from idaq.theory import Check, print_table, write_figures


@pytest.mark.parametrize(
    ("text", "expected"), [("3..10", range(3, 11)), ("5", range(5, 6)), (" 4 .. 6 ", range(4, 7))]
)
def test_ranges(text: str, expected: range) -> None:
    assert parse_v(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("many", "Write it as 3..10"),
        ("", "Write it as 3..10"),
        ("3...10", "Write it as 3..10"),
        ("3..-1", "Write it as 3..10"),
        ("9..4", "Write the smaller number first: 4..9"),
        ("2..5", "Start at 3"),
        ("3..40", "Stop at 12"),
    ],
)
def test_bad_ranges_say_what_to_do(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="--v") as caught:
        parse_v(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_names_and_places_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"There is no check 'gap'. Did you mean evaluation-gap"):
        theory(check="gap")
    with pytest.raises(ValueError, match=r"no check 'nope'\. `idaq theory` shows them all\.$"):
        theory(check="nope")
    occupied = tmp_path / "file"
    occupied.write_text("")
    with pytest.raises(ValueError, match="Give a directory"):
        theory(check="shift-exists", v="3", figure=occupied)


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert theory(check="shift-exists", v="3..4", json=True) == 0
    printed = json.loads(capsys.readouterr().out)
    assert list(printed) == ["checks"]
    (check,) = printed["checks"]
    assert check["name"] == "shift-exists"
    assert check["computed"] == "1 against 1/3, 1/4 for v = 3..4"
    assert check["holds"] is True
    assert check["vacuous"] is False


def test_json_of_a_vacuous_bound(capsys: pytest.CaptureFixture[str]) -> None:
    assert theory(check="leave-bound-doors", v="3", json=True) == 0
    (check,) = json.loads(capsys.readouterr().out)["checks"]
    assert check["vacuous"] is True
    assert check["holds"] is None


def test_a_statement_that_is_false_as_printed_is_no_failure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert theory(check="shift-as-printed", v="3") == 0
    assert "false" in capsys.readouterr().out


def test_a_statement_that_should_hold_and_does_not_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = Check(name="gap", statement="s", paper="1", computed="2", holds=False)
    monkeypatch.setattr(command_module, "run_checks", lambda *_, **__: [broken])
    assert theory(v="3") == 1
    assert "gap" in capsys.readouterr().out


def test_table() -> None:
    text = io.StringIO()
    checks = [
        Check(name="a", statement="says [a]", paper="1", computed="1", holds=True, note="noted"),
        Check(name="b", statement="says b", paper="1", computed="2", holds=False),
        Check(name="c", statement="says c", paper="9", computed="1", holds=None, vacuous=True),
    ]
    print_table(checks, Console(file=text, width=120))
    printed = text.getvalue()
    for expected in ("says [a]", "noted", "holds", "false", "vacuous"):
        assert expected in printed
    assert printed.rstrip().endswith("1 hold, 1 false, 1 vacuous")
    quiet = io.StringIO()
    print_table(checks, Console(file=quiet, width=120), notes=False)
    assert "noted" not in quiet.getvalue()


def test_figures(tmp_path: Path) -> None:
    paths = write_figures(tmp_path / "new" / "figures", range(3, 6))
    assert [path.name for path in paths] == ["gap.png", "leave_probability.png", "adaptation.png"]
    for path in paths:
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size > 20_000


def test_figures_from_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert theory(check="shift-exists", v="3", json=True, figure=tmp_path) == 0
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)["checks"]) == 1
    assert captured.err.count("wrote") == 3


def test_importing_the_theory_needs_neither_jax_nor_matplotlib() -> None:
    script = (
        "import sys, idaq.theory, idaq.cli.theory; "
        "assert not {'jax', 'matplotlib', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
