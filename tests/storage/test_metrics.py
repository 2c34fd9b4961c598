"""The record of training: whole lines, from where training goes on, and events made from them."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from idaq.errors import IdaqError
from idaq.storage.metrics import EVENT_FILE_NAME, FILE_NAME, MetricsLog, read_metrics

ROWS = [{"update": n, "loss": 1.0 / n, "q": float(n)} for n in (10, 20, 30)]


def write(place: Path, rows: list[dict[str, Any]], from_update: int = 0) -> None:
    with MetricsLog(place, from_update) as log:
        for row in rows:
            log.write(row["update"], {name: row[name] for name in row if name != "update"})


def events(place: Path) -> list[dict[str, float]]:
    """What TensorBoard would show."""
    loader: Any = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    found = []
    for event in loader.RawEventFileLoader(str(place / EVENT_FILE_NAME)).Load():
        kind: Any = pytest.importorskip("tensorboard.compat.proto.event_pb2").Event
        parsed = kind.FromString(event)
        if parsed.summary.value:
            values = {value.tag: value.simple_value for value in parsed.summary.value}
            found.append({"update": parsed.step, **values})
    return found


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert read_metrics(tmp_path / FILE_NAME) == []
    write(tmp_path, ROWS)
    assert read_metrics(tmp_path / FILE_NAME) == ROWS
    expected = [{"update": r["update"], "train/loss": r["loss"], "train/q": r["q"]} for r in ROWS]
    assert events(tmp_path) == [pytest.approx(each) for each in expected]


def test_an_event_file_says_what_it_is(tmp_path: Path) -> None:
    write(tmp_path, [])
    assert b"brain.Event:2" in (tmp_path / EVENT_FILE_NAME).read_bytes()


@pytest.mark.parametrize(("from_update", "num"), [(0, 0), (10, 1), (15, 1), (29, 2), (30, 3)])
def test_going_on_drops_what_came_later(tmp_path: Path, from_update: int, num: int) -> None:
    write(tmp_path, ROWS)
    more = [{"update": 40, "loss": 0.5, "q": 4.0}]
    write(tmp_path, more, from_update)
    assert read_metrics(tmp_path / FILE_NAME) == ROWS[:num] + more
    assert [event["update"] for event in events(tmp_path)] == [*[10, 20, 30][:num], 40]


@pytest.mark.parametrize(
    "rest", ['{"update": 40, "lo', '"text"', "[1]", '{"loss": 1.0}', '{"update": "40"}', "\x00"]
)
def test_reading_ends_where_a_line_is_not_whole(tmp_path: Path, rest: str) -> None:
    write(tmp_path, ROWS)
    with (tmp_path / FILE_NAME).open("a", encoding="utf-8") as stream:
        stream.write(rest + '\n{"update": 50}\n')
    assert read_metrics(tmp_path / FILE_NAME) == ROWS


def test_every_line_is_on_the_disk_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / FILE_NAME
    with MetricsLog(tmp_path, 0) as log:
        seen = []

        def fsync(descriptor: int) -> None:
            assert os.fstat(descriptor).st_ino == file.stat().st_ino
            seen.append(len(read_metrics(file)))

        monkeypatch.setattr(os, "fsync", fsync)
        for number in (1, 2):
            log.write(number, {"loss": 0.0})
            assert len(events(tmp_path)) == number
    assert seen == [1, 2]


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    with MetricsLog(tmp_path / "seed", 0) as log:
        (tmp_path / "seed" / FILE_NAME).unlink()
        (tmp_path / "seed" / FILE_NAME).mkdir()
        with pytest.raises(IdaqError, match=rf"{FILE_NAME}' cannot be written"):
            log.write(1, {"loss": 0.0})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "tensorboard").write_text("in the way")
    with pytest.raises(IdaqError, match=r"/other' cannot be written"):
        MetricsLog(tmp_path / "other", 0)


def test_the_record_does_without_tensorboard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto.event_pb2", None)
    write(tmp_path, ROWS)
    assert read_metrics(tmp_path / FILE_NAME) == ROWS
    assert not (tmp_path / EVENT_FILE_NAME).exists()


def test_a_line_that_is_no_text_ends_the_reading(tmp_path: Path) -> None:
    write(tmp_path, ROWS)
    with (tmp_path / FILE_NAME).open("ab") as stream:
        stream.write(b'{"update": 40, "\xff\xfe')
    assert read_metrics(tmp_path / FILE_NAME) == ROWS
