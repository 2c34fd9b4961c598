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

# Imports that still point down, and modules that still need each other: these may only shrink.
EXCEPTIONS: set[tuple[str, str]] = set()
REPORT_READS = {"report", "runs", "bench", "storage"} | EVERYBODYS
REPORT_EXCEPTIONS: set[tuple[str, str]] = set()
CIRCLES: set[tuple[str, str]] = set()


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
    assert down - EXCEPTIONS == set(), "these point down"
    assert EXCEPTIONS - down == set(), "these do not any more: take them off the table"


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
    others = {
        (file.relative_to(PACKAGE).as_posix(), other)
        for file in (PACKAGE / "report").rglob("*.py")
        for other in imported_rooms(file) - REPORT_READS
    }
    assert others == REPORT_EXCEPTIONS


def test_theory_stands_alone() -> None:
    for file in (PACKAGE / "theory").rglob("*.py"):
        assert imported_rooms(file) <= {"theory", "errors", "config", "storage"}, file


def test_no_two_modules_need_each_other() -> None:
    """Not even inside functions: what two modules share belongs in a third one."""
    modules = {_name(file): file for file in PACKAGE.rglob("*.py")}
    graph = {name: _needs(name, file, modules) for name, file in modules.items()}
    for importer, imported in CIRCLES:
        assert imported in graph[importer], "take it off the table"
        graph[importer].remove(imported)
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
