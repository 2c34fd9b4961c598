"""How many small wrong changes the tests notice: `python -m tests.mutants`.

Lines of the tested rooms are drawn at random. One mutant of each line is put into a copy of the
source, and the tests of its room run against the copy until one fails, those named like the module
first. Survivors are shown. `equivalent_mutants.json` lists mutants that change no behaviour, with
reasons; these are skipped.
"""

import argparse
import difflib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.mutation import Mutant, mutants_of

ROOT = Path(__file__).parent.parent
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.json")
ROOMS = {  # a source below src/idaq, then its tests: directories and files
    "adapt": ("adapt", "adapt", "contract/test_adapter.py"),
    "algos": ("algos", "algos", "objectives", "contract/test_algorithm.py"),
    "objectives": ("objectives", "objectives", "algos/test_focal.py", "algos/test_op_cl.py"),
    "learners": ("learners", "learners", "algos/test_operations.py"),
    "judges": ("judges", "judges", "algos/test_focal.py", "algos/test_operations.py"),
    "storage": ("storage", "storage"),
    "summary": ("runs/summary.py", "runs"),
}
LEAST_SHARE = 0.9
SLOWER, LEAST_SECONDS = 3.0, 60.0  # time limit: times as long as without a mutant, and at least
NO_TESTS = 5  # pytest's exit code
QUICK_TO_COMPILE = "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0"
Drawn = list[tuple[str, Mutant]]


class Verdict(NamedTuple):
    """What became of a mutant."""

    room: str
    mutant: Mutant
    killed: bool


def sources(room: str) -> list[Path]:
    """The source files of a room; none if there is no such room."""
    place = ROOT / "src" / "idaq" / ROOMS[room][0]
    return sorted(place.rglob("*.py")) if place.is_dir() else [place] * place.is_file()


def draw(rooms: Sequence[str], num: int, seed: int) -> Drawn:
    """Mutants of different lines, uniformly over the lines that have any."""
    skipped = {(each["file"], each["before"], each["after"]) for each in equivalent()}
    by_line: dict[tuple[str, str, int], list[Mutant]] = defaultdict(list)
    for room in rooms:
        for path in sources(room):
            name = path.relative_to(ROOT / "src").as_posix()
            for mutant in mutants_of(name, path.read_bytes()):
                if (name, mutant.before.strip(), mutant.after.strip()) not in skipped:
                    by_line[room, name, mutant.line].append(mutant)
    rng = random.Random(seed)
    lines = rng.sample(sorted(by_line), min(num, len(by_line)))
    return [(line[0], rng.choice(by_line[line])) for line in lines]


def equivalent() -> list[dict[str, str]]:
    """The mutants that change no behaviour."""
    listed: list[dict[str, str]] = json.loads(EQUIVALENT.read_text(encoding="utf-8"))
    return listed


def ordered_tests(room: str, module: str = "") -> list[str]:
    """The files of a room's tests, those named like the module or its package first."""
    names = [Path(part).stem for part in Path(module).parts[2:]]
    places = [ROOT / "tests" / place for place in ROOMS[room][1:]]
    files = [file for place in places for file in ([place] if place.is_file() else _tests(place))]
    files.sort(key=lambda file: not any(name in file.stem for name in names))
    return [file.relative_to(ROOT).as_posix() for file in files]


def _tests(place: Path) -> list[Path]:
    return sorted(place.rglob("test_*.py"))


class Copy:
    """A copy of the source that the tests import, and the programs compiled for it."""

    def __init__(self, place: Path) -> None:
        self._src = place / "src"
        self._environment = os.environ | {
            "PYTHONPATH": str(self._src),
            "PYTHONDONTWRITEBYTECODE": "1",
            "IDAQ_TEST_CACHE": str(place / "cache"),
            "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {QUICK_TO_COMPILE}",
        }
        shutil.copytree(ROOT / "src", self._src, ignore=shutil.ignore_patterns("__pycache__"))

    def passes(self, tests: Sequence[str], seconds: float | None = None) -> bool:
        """Whether the tests pass; tests that take too long do not."""
        options = ["-x", "-q", "-p", "no:cacheprovider"]
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=ROOT,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if code == NO_TESTS:
            raise SystemExit(f"there are no tests in {' '.join(tests)}")
        return code == 0

    def survives(self, mutant: Mutant, tests: Sequence[str], seconds: float) -> bool:
        """Whether the tests pass with a mutant, which is undone afterwards."""
        file = self._src / mutant.file
        source = file.read_bytes()
        file.write_bytes(mutant.apply(source))
        try:
            return self.passes(tests, seconds)
        finally:
            file.write_bytes(source)


def difference(mutant: Mutant) -> str:
    """What a mutant changes, as a diff."""
    before, after = mutant.before.splitlines(), mutant.after.splitlines()
    lines = [*difflib.unified_diff(before, after, lineterm="", n=0)][3:]
    return "\n".join([f"{mutant.file}:{mutant.line}", *(f"  {line}" for line in lines)])


def judge(drawn: Drawn) -> list[Verdict]:
    """Run the tests of every mutant."""
    found = []
    with tempfile.TemporaryDirectory(prefix="mutants-") as place:
        copy = Copy(Path(place))
        limits: dict[str, float] = {}
        for number, (room, mutant) in enumerate(sorted(drawn, key=lambda pair: pair[0]), 1):
            if room not in limits:
                started = time.monotonic()
                if not copy.passes(ordered_tests(room)):
                    raise SystemExit(f"the tests of {room} fail without any mutant")
                limits[room] = max(LEAST_SECONDS, SLOWER * (time.monotonic() - started))
            killed = not copy.survives(mutant, ordered_tests(room, mutant.file), limits[room])
            found.append(Verdict(room, mutant, killed))
            said = "killed" if killed else f"SURVIVED\n{difference(mutant)}"
            print(f"{number}/{len(drawn)} {mutant.file}:{mutant.line} {said}", flush=True)
    return found


def report(verdicts: Sequence[Verdict], file: Path | None) -> float:
    """Print the survivors and the counts; return the share of mutants that were killed."""
    rooms: dict[str, dict[str, int]] = {}
    for room, _, killed in verdicts:
        counts = rooms.setdefault(room, {"killed": 0, "survived": 0})
        counts["killed" if killed else "survived"] += 1
    survivors = [mutant for _, mutant, killed in verdicts if not killed]
    for mutant in survivors:
        print(difference(mutant))
    for room, counts in rooms.items():
        print(f"{room:10} {counts['killed']:4} killed, {counts['survived']:3} survived")
    share = 1.0 - len(survivors) / max(len(verdicts), 1)
    print(f"{share:.0%} of {len(verdicts)} mutants were killed")
    if file is not None:
        fields = ("file", "line", "before", "after")
        left = [{name: getattr(mutant, name) for name in fields} for mutant in survivors]
        text = json.dumps({"share": share, "rooms": rooms, "survivors": left}, indent=2)
        file.write_text(text + "\n", encoding="utf-8")
    return share


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 if enough mutants were killed."""
    here = [room for room in ROOMS if sources(room)]
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--room", choices=here, action="append", help="default: all of them")
    parser.add_argument("--num", type=int, default=100, help="mutants to draw")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--json", type=Path, help="write the counts and the survivors here")
    chosen = parser.parse_args(arguments)
    share = report(judge(draw(chosen.room or here, chosen.num, chosen.seed)), chosen.json)
    return 0 if share >= LEAST_SHARE else 1


if __name__ == "__main__":
    sys.exit(main())
