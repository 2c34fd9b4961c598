"""Training metrics: JSON lines are the record, TensorBoard event files are made from them.

Lines after the last checkpoint are dropped when training resumes from it, so that the record of
an interrupted run equals that of an uninterrupted one.
"""

import json
import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from idaq.config import Json
from idaq.storage.atomic import atomic_file, writing
from idaq.storage.checked import is_count, open_regular

MAX_LINE_BYTES = 1 << 20
FILE_NAME = "metrics.jsonl"
EVENT_FILE_NAME = "tensorboard/events.out.tfevents.0.idaq"


class MetricsLog:
    """One seed's metrics: `with MetricsLog(directory, done) as log: log.write(n, values)`."""

    def __init__(self, directory: Path, from_update: int) -> None:
        """Continue after `from_update`; what was logged later is dropped."""
        self._file = directory / FILE_NAME
        kept = [row for row in read_metrics(self._file) if row["update"] <= from_update]
        with atomic_file(self._file) as temporary:
            temporary.write_text("".join(map(_line, kept)), encoding="utf-8")
        with writing(directory):
            self._events = _event_writer(directory / EVENT_FILE_NAME)
            for row in kept:
                self._write_event(row)

    def __enter__(self) -> Self:
        return self

    def write(self, update: int, values: dict[str, float]) -> None:
        row = {"update": update, **values}
        with writing(self._file), self._file.open("a", encoding="utf-8") as stream:
            stream.write(_line(row))
            stream.flush()
            os.fsync(stream.fileno())  # the record is never behind the checkpoint
            self._write_event(row)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._events is not None:
            with writing(self._file.parent / EVENT_FILE_NAME):
                self._events.close()

    def _write_event(self, row: Json) -> None:
        if self._events is None:
            return
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [
            Summary.Value(tag=f"train/{name}", simple_value=value)
            for name, value in row.items()
            if name != "update"
        ]
        event = Event(step=row["update"], summary=Summary(value=values))
        self._events.write(event.SerializeToString())
        self._events.flush()


def _line(row: Json) -> str:
    return json.dumps(row) + "\n"


def read_metrics(file: Path) -> list[Json]:
    """All lines before the first damaged one, which may be a last line that was cut off."""
    if not file.is_file():
        return []
    rows = []
    with open_regular(file) as stream:
        while line := stream.readline(MAX_LINE_BYTES):
            try:
                row = json.loads(line)  # metrics may be NaN
            except (ValueError, RecursionError):
                break
            if not isinstance(row, dict) or not _is_row(row):
                break
            rows.append(row)
    return rows


def _is_row(row: Json) -> bool:
    return is_count(row.get("update")) and all(
        isinstance(value, float) for name, value in row.items() if name != "update"
    )


def _event_writer(file: Path) -> Any:
    """A writer of a fresh event file, or None where the tensorboard package is not installed."""
    try:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter
    except ImportError:
        return None
    file.parent.mkdir(parents=True, exist_ok=True)
    file.unlink(missing_ok=True)  # it may be anything, such as a pipe
    writer = RecordWriter(file.open("wb"))
    writer.write(Event(file_version="brain.Event:2").SerializeToString())
    return writer
