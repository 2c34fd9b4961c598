"""Rooms: an import points upward in this list, never down.

`from idaq.runs import ...` in `src/idaq/bench/` points upward, since `runs` comes before `bench` in
the list. Imports inside functions and imports only for type checkers count as well.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOMS = (
    *("storage", "importers", "envs", "nets", "learners", "judges", "objectives", "algos"),
    *("adapt", "engine", "behaviour", "runs", "bench", "report", "theory", "cli"),
)
EVERYBODYS = {"types", "errors", "config", "registry", "settings"}
PACKAGE = Path(__file__).resolve().parents[1] / "src" / "idaq"
REPORT_READS = {"report", "runs", "bench", "storage"} | EVERYBODYS
RUNS_THAT_READ = {"directory", "labels", "results", "run", "statistics", "summary"}


def imports(file: Path) -> Iterator[str]:
    """The modules below `idaq` that a file imports, as dotted names."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative imports say less"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported_rooms(file: Path) -> set[str]:
    names = [name.split(".") for name in imports(file)]
    return {parts[1] for parts in names if parts[0] == "idaq" and len(parts) > 1}


def room_files() -> Iterator[tuple[str, Path]]:
    for room in ROOMS:
        yield from ((room, file) for file in sorted((PACKAGE / room).rglob("*.py")))


def test_imports_point_upward() -> None:
    down = {
        (file.relative_to(PACKAGE).as_posix(), other)
        for room, file in room_files()
        for other in imported_rooms(file) - EVERYBODYS
        if other in ROOMS and ROOMS.index(other) > ROOMS.index(room)
    }
    assert down == set(), "these point down"


def test_algorithms_know_no_environments_and_adaptation_no_training() -> None:
    """These are above them in the list all the same."""
    for room, stranger in (("algos", "envs"), ("algos", "storage"), ("adapt", "envs")):
        files = sorted((PACKAGE / room).rglob("*.py"))
        assert files
        assert [file for file in files if stranger in imported_rooms(file)] == []


def test_every_import_is_of_a_room_or_everybodys() -> None:
    unknown = {
        (file.relative_to(PACKAGE).as_posix(), other)
        for _, file in room_files()
        for other in imported_rooms(file) - EVERYBODYS - set(ROOMS)
    }
    assert unknown == set()


def test_every_package_is_a_room() -> None:
    packages = {file.parent.name for file in PACKAGE.glob("*/__init__.py")}
    assert packages - set(ROOMS) - {"testing"} == set()


def test_the_page_shows_the_rooms_in_their_order() -> None:
    page = PACKAGE.parents[1] / "docs" / "architecture.md"
    (plan,) = re.findall(r"```text\n(types .*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    first, _, *rooms = plan.splitlines()
    assert set(first.split()) >= EVERYBODYS
    there = [room for room in ROOMS if (PACKAGE / room).is_dir()]
    assert [line.split()[0] for line in rooms] == there


def test_the_top_level_is_for_what_is_everybodys() -> None:
    assert {file.stem for file in PACKAGE.glob("*.py")} == {"__init__"} | EVERYBODYS
    assert len(list(PACKAGE.glob("*.py"))) <= 6


def test_no_file_is_two_things() -> None:
    """Longer ones probably are."""
    long = {file.name for file in PACKAGE.rglob("*.py") if len(file.read_text().splitlines()) > 400}
    assert long == set()


def test_the_library_speaks_of_arguments() -> None:
    """The command line adds its dashes (`idaq.cli.flags`); `ray start --head` is Ray's own."""
    for file in PACKAGE.rglob("*.py"):
        if file.parent.name == "cli":
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "IdaqError":
                texts = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant)]
                said = [str(t) for t in texts if re.search(r"(^|[ '`])--[a-z]", str(t))]
                assert [text for text in said if "ray start --head" not in text] == [], file


def test_reports_read_runs_and_benchmarks_alone() -> None:
    """They run nothing: no simulator, no agent, no adapter."""
    for file in (PACKAGE / "report").rglob("*.py"):
        assert imported_rooms(file) <= REPORT_READS, file
        seen = {name for name in imports(file) if name.startswith("idaq.runs.")}
        assert {name.split(".")[2] for name in seen} <= {*RUNS_THAT_READ, "replay"}, file
        replayed = {name for name in seen if name.split(".")[2] == "replay"}
        assert replayed <= {"idaq.runs.replay.Film", "idaq.runs.replay.Footage"}, file


def test_theory_stands_alone() -> None:
    for file in (PACKAGE / "theory").rglob("*.py"):
        assert imported_rooms(file) <= {"theory", "errors", "config", "storage"}, file


def test_no_two_modules_need_each_other() -> None:
    """Not even inside functions: what two modules share belongs in a third one."""
    modules = {_name(file): file for file in PACKAGE.rglob("*.py")}
    graph = {name: _needs(name, file, modules) for name, file in modules.items()}
    while leaves := {name for name, needs in graph.items() if not needs & set(graph)}:
        graph = {name: needs for name, needs in graph.items() if name not in leaves}
    assert graph == {}, "these are in a circle, or lead to one"


def _needs(name: str, file: Path, modules: dict[str, Path]) -> set[str]:
    if name == "idaq":  # its public names are imported only when they are used
        return set()
    return {_module(each, modules) for each in imports(file)} - {"", name}


def _name(file: Path) -> str:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _module(imported: str, modules: dict[str, Path]) -> str:
    """The module of an imported name: `idaq.envs.family` for `idaq.envs.family.Spec`."""
    while imported and imported not in modules:
        imported = imported.rpartition(".")[0]
    return "" if imported == "idaq" else imported
