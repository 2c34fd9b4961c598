"""The figures of a run."""

from pathlib import Path

from idaq.run_dir import RunDir


def write_figures(run: RunDir) -> list[Path]:
    return []
