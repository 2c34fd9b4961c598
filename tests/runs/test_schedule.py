"""Work whose stages overlap: the order, errors that end one piece, and bugs that end all."""

import threading
from concurrent.futures import CancelledError
from typing import Any

import pytest

from idaq.runs.schedule import run_overlapping


class Pool:
    """Something to close; then whatever waits for it gives up."""

    def __init__(self) -> None:
        self.closed = threading.Event()

    def close(self) -> None:
        self.closed.set()


class Piece:
    """Work that logs what it does, and in which thread."""

    def __init__(self, name: str, log: list[tuple[str, str, str]], fails: str = "") -> None:
        self.name, self.log, self.fails = name, log, fails
        self.settled: list[Exception | None] = []

    def _do(self, stage: str) -> None:
        thread = threading.current_thread().name.partition("_")[0]
        self.log.append((self.name, stage, thread))
        if stage == self.fails:
            raise ValueError(f"{self.name} {stage}")

    def prepare(self) -> None:
        self._do("prepare")

    def train(self) -> None:
        self._do("train")

    def finish(self) -> None:
        self._do("finish")

    def settle(self, error: Exception | None) -> None:
        self.settled.append(error)


def run(works: list[Any]) -> Pool:
    pool: Any = Pool()
    run_overlapping(works, pool)
    return pool  # type: ignore[no-any-return]


def test_a_single_one_needs_no_threads() -> None:
    log: list[tuple[str, str, str]] = []
    work = Piece("a", log)
    pool = run([work])
    assert log == [("a", stage, "MainThread") for stage in ("prepare", "train", "finish")]
    assert work.settled == [None]
    assert not pool.closed.is_set(), "whoever made the pool closes it"


def test_stages_have_threads_of_their_own_and_keep_their_order() -> None:
    log: list[tuple[str, str, str]] = []
    works = [Piece(name, log) for name in "abc"]
    assert run(works).closed.is_set()
    threads = {"prepare": "collect", "train": "MainThread", "finish": "adapt"}
    for stage, thread in threads.items():
        assert [each for each in log if each[1] == stage] == [(n, stage, thread) for n in "abc"]
    assert [work.settled for work in works] == [[None]] * 3


def test_the_next_one_is_prepared_while_one_trains() -> None:
    log: list[tuple[str, str, str]] = []
    prepared, trained = threading.Event(), threading.Event()

    class First(Piece):
        def train(self) -> None:
            assert prepared.wait(10), "the second one's data does not wait for this training"
            super().train()

        def finish(self) -> None:
            assert trained.wait(10), "the second one's training does not wait for this"
            super().finish()

    class Second(Piece):
        def prepare(self) -> None:
            super().prepare()
            prepared.set()

        def train(self) -> None:
            super().train()
            trained.set()

    works = [First("a", log), Second("b", log)]
    run(works)
    assert [work.settled for work in works] == [[None], [None]]


@pytest.mark.parametrize("stage", ["prepare", "train", "finish"])
@pytest.mark.parametrize("failing", range(3))
def test_what_fails_stops_no_other(stage: str, failing: int) -> None:
    log: list[tuple[str, str, str]] = []
    works = [Piece(name, log, stage if i == failing else "") for i, name in enumerate("abc")]
    run(works)
    for index, work in enumerate(works):
        (error,) = work.settled
        assert (str(error) == f"{work.name} {stage}") == (index == failing)
    stages = [each for name, each, _ in log if name == works[failing].name]
    assert stages == ["prepare", "train", "finish"][: len(stages)]
    assert stages[-1] == stage, "nothing after it"


@pytest.mark.parametrize("num", [1, 3])
@pytest.mark.parametrize("stage", ["prepare", "train", "finish"])
def test_what_settling_raises_ends_everything(stage: str, num: int) -> None:
    class Bug(Piece):
        def settle(self, error: Exception | None) -> None:
            if error is not None:
                raise error

    log: list[tuple[str, str, str]] = []
    works = [Bug("a", log, stage), *(Piece(name, log) for name in "bc"[: num - 1])]
    with pytest.raises(ValueError, match=f"a {stage}"):
        run(works)
    assert not [t for t in threading.enumerate() if t.name.startswith(("collect", "adapt"))]
    if stage != "finish":
        assert "train" not in [each for name, each, _ in log if name != "a"]


def test_an_interrupt_closes_the_pool_before_it_waits_for_threads() -> None:
    """The threads wait for the pool; work that has not begun never begins."""
    log: list[tuple[str, str, str]] = []
    pool: Any = Pool()

    class Stopped(Piece):
        def train(self) -> None:
            raise KeyboardInterrupt

    class Waiting(Piece):
        def prepare(self) -> None:
            if not pool.closed.wait(10):
                raise AssertionError("the pool was not closed")
            raise CancelledError

    works = [Stopped("a", log), Waiting("b", log), Piece("c", log)]
    with pytest.raises(KeyboardInterrupt):
        run_overlapping(works, pool)
    assert [name for name, _, _ in log] == ["a"]
    assert [work.settled for work in works] == [[], [], []]
