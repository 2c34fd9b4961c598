"""Training metrics: JSON lines are the record, TensorBoard event files are made from them.

Lines after the last checkpoint are dropped when training resumes from it, so that the record of
an interrupted run is that of an uninterrupted one.
"""

import json
import shutil
from pathlib import Path
from typing import Any

FILE_NAME = "metrics.jsonl"


class MetricsLog:
    """One seed's metrics."""

    def __init__(self, directory: Path, from_update: int) -> None:
        """Continue after `from_update`; what was logged later is dropped."""
        directory.mkdir(parents=True, exist_ok=True)
        self._file = directory / FILE_NAME
        kept = [row for row in read_metrics(self._file) if row["update"] <= from_update]
        self._file.write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
        self._events = _event_writer(directory / "tensorboard")
        for row in kept:
            self._write_events(row)

    def write(self, update: int, values: dict[str, float]) -> None:
        row = {"update": update, **values}
        with self._file.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(row) + "\n")
        self._write_events(row)

    def close(self) -> None:
        if self._events is not None:
            self._events.close()

    def _write_events(self, row: dict[str, Any]) -> None:
        if self._events is None:
            return
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [
            Summary.Value(tag=f"train/{name}", simple_value=value)
            for name, value in row.items()
            if name != "update"
        ]
        self._events.add_event(Event(step=row["update"], summary=Summary(value=values)))


def read_metrics(file: Path) -> list[dict[str, Any]]:
    """All whole lines; a last line that was cut off is not one."""
    if not file.is_file():
        return []
    rows = []
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except json.JSONDecodeError:
            break
    return rows


def _event_writer(directory: Path) -> Any:
    """A TensorBoard writer, or None where the tensorboard package is not installed."""
    try:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
    except ImportError:
        return None
    shutil.rmtree(directory, ignore_errors=True)
    return EventFileWriter(str(directory))
