"""Mutants: which wrong changes are made, which are not, and what is reported."""

import ast
import json
from pathlib import Path

import pytest

from tests import mutants
from tests.mutation import mutants_of


def changes(source: str) -> set[str]:
    """The changed lines of all mutants."""
    return {mutant.after.strip() for mutant in mutants_of("file.py", source.encode())}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = a < b", {"x = (a <= b)", "x = (a >= b)"}),
        ("x = a != b", {"x = (a == b)"}),
        ("x = a is None", {"x = (a is not None)"}),
        ("x = a in b", {"x = (a not in b)"}),
        ("x = a + b", {"x = (a - b)"}),
        ("x = a**b", {"x = (a * b)"}),
        ("x = a and b", {"x = (a or b)"}),
        ("x = not a", {"x = a"}),
        ("x = -a", {"x = a"}),
        ("x = a if b else c", {"x = (a if not b else c)"}),
        ("x = 3", {"x = 4", "x = 2"}),
        ("x = 0.5", {"x = 1.0"}),
        ("x = f(0.5).y", {"x = (0.5).y", "x = f(1.0).y"}),
        ("x = 0.0", {"x = 1.0"}),
        ("x = True", {"x = False"}),
        ("x = min(a)", {"x = max(a)", "x = a"}),
        ("x = jnp.any(a, axis=b)", {"x = jnp.all(a, axis=b)", "x = jnp.any(a)", "x = a"}),
        ("x += a", {"pass"}),
        ("f()", {"pass"}),
        ("raise ValueError('wrong', 1 + 1)", {"pass"}),
        ("x = 'ü' + a < b", {"x = ('ü' + a <= b)", "x = ('ü' + a >= b)", "x = ('ü' - a) < b"}),
    ],
)
def test_changes(source: str, expected: set[str]) -> None:
    assert changes(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "import a\nfrom b import c",
        "__all__ = ['a' + b]",
        "version: int = 1",
        "FORMAT_VERSION = 3",
        "Kind = A | B",
        "x: Annotated[int, 3]",
        "def f(x: Literal[3]) -> Literal[4]:\n    '''Text.'''",
        "@partial(jit, static_argnums=0)\ndef f():\n    ...",
        "class A(Protocol):\n    x: int = 1",
        "x = f'{a + 1}'",
        "x = jnp.asarray(a, dtype=b)",
        "x = Kind(a, strict=True)",
        "sum: int\nmin = a",
    ],
)
def test_what_no_test_sees_is_left_alone(source: str) -> None:
    assert not changes(source)


def test_a_mutant_changes_its_stretch_alone() -> None:
    source = "def f(a, b):\n    return (\n        a  # first\n        + b\n    )\n"
    (mutant,) = mutants_of("file.py", source.encode())
    assert (
        mutant.apply(source.encode()).decode()
        == "def f(a, b):\n    return (\n        (a - b)\n    )\n"
    )
    assert (mutant.line, mutant.before) == (3, "        a  # first\n        + b")


# --- The whole command, on a made-up package ------------------------------------------------


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One room, half of which is tested."""
    for name, text in {
        "src/idaq/__init__.py": "",
        "src/idaq/room/__init__.py": "",
        "src/idaq/room/signs.py": (
            "def is_positive(x):\n    return x > 0\n\n\ndef is_negative(x):\n    return x < 0\n"
        ),
        "tests/room/test_all.py": "def test_nothing():\n    pass\n",
        "tests/room/test_signs.py": (
            "from idaq.room.signs import is_positive\n\n\ndef test_sign():\n"
            "    assert [is_positive(x) for x in (-1, 0, 0.5, 1)] == [False, False, True, True]\n"
        ),
    }.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "equivalent.json").write_text("[]")
    monkeypatch.setattr(mutants, "ROOT", tmp_path)
    monkeypatch.setattr(mutants, "EQUIVALENT", tmp_path / "equivalent.json")
    monkeypatch.setattr(mutants, "ROOMS", {"room": ("room", "room"), "none": ("no", "no")})
    return tmp_path


def test_survivors_are_shown_and_make_it_fail(
    package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in package.rglob("*.py")}
    assert mutants.main(["--json", str(package / "found.json")]) == 1
    printed = capsys.readouterr().out
    assert "room          1 killed,   1 survived" in printed
    assert "50% of 2 mutants were killed" in printed
    assert "-    return x < 0" in printed
    found = json.loads((package / "found.json").read_text())
    assert (found["share"], found["rooms"]) == (0.5, {"room": {"killed": 1, "survived": 1}})
    assert [each["line"] for each in found["survivors"]] == [6]
    assert {path: path.read_bytes() for path in package.rglob("*.py")} == before


def test_what_is_equivalent_is_not_drawn(package: Path) -> None:
    (drawn,) = [m for _, m in mutants.draw(["room"], 9, 0) if m.line == 6]
    everything = mutants_of(drawn.file, (package / "src" / drawn.file).read_bytes())
    listed = [
        {"file": m.file, "before": m.before.strip(), "after": m.after.strip(), "reason": "tested"}
        for m in everything
        if m.line == 6
    ]
    (package / "equivalent.json").write_text(json.dumps(listed))
    assert {m.line for _, m in mutants.draw(["room"], 9, 0)} == {2}


def test_tests_of_the_module_come_first(package: Path) -> None:
    assert mutants.ordered_tests("room", "idaq/room/signs.py") == [
        "tests/room/test_signs.py",
        "tests/room/test_all.py",
    ]


def test_tests_that_fail_without_a_mutant_say_nothing(package: Path) -> None:
    (package / "tests" / "room" / "test_all.py").write_text("def test():\n    assert False\n")
    with pytest.raises(SystemExit, match="the tests of room fail without any mutant"):
        mutants.main([])


def test_every_mutant_is_a_program() -> None:
    for path in mutants.sources("adapt"):
        for mutant in mutants_of(path.name, path.read_bytes()):
            ast.parse(mutant.apply(path.read_bytes()))


def test_the_draw_depends_on_its_seed_alone() -> None:
    here = [room for room in mutants.ROOMS if mutants.sources(room)]
    first = mutants.draw(here, 30, 1)
    assert first == mutants.draw(here, 30, 1)
    assert first != mutants.draw(here, 30, 2)
    assert len({(m.file, m.line) for _, m in first}) == 30
