"""What surrounds a run: agents, settings of JAX, metadata, other systems, limits."""

import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors import safe_open

from idaq.bench.cells import make_cells
from idaq.bench.engines import ray
from idaq.bench.experiments import get_experiment
from idaq.runs.directory import RunDir
from idaq.storage import atomic, checkpoint
from idaq.storage.atomic import atomic_file, write_json
from idaq.storage.dataset import CHECKSUM, open_dataset, read_metadata
from tests.program import METHODS, RUN, TRAINING, Program, change_json, results, tree


def test_an_agent_of_nan_is_not_adapted(refused: Program, run: Path) -> None:
    file = RunDir(run).agent_file(0)
    with safe_open(file, framework="np") as content:
        arrays = {name: content.get_tensor(name) for name in content.keys()}  # noqa: SIM118
    forge_agent(file, {name: np.full_like(array, np.nan) for name, array in arrays.items()})
    adapt = ("adapt", run, "--method", METHODS[0], "--name", "again")
    refused(*adapt, names=(file, "not finite"))


def forge_agent(file: Path, arrays: dict[str, Any]) -> None:
    """An agent of other arrays, with a checksum that is right."""
    import safetensors.numpy

    with safe_open(file, framework="np") as content:
        header = json.loads(content.metadata()[checkpoint.HEADER_KEY])
    del header["sha256"]
    header["sha256"] = checkpoint._checksum(arrays, header)
    metadata = {checkpoint.HEADER_KEY: json.dumps(header, sort_keys=True)}
    file.write_bytes(safetensors.numpy.save(arrays, metadata))


def test_returns_of_nan_are_not_stored(
    idaq: Program, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def diverged(*arguments: Any) -> list[dict[str, Any]]:
        return [{"returns": np.full((20, 4), np.nan)}]

    monkeypatch.setattr("idaq.runs.adapt_stage.adapt_group", diverged)
    monkeypatch.setattr("idaq.runs.adapt_stage.check_own_code", lambda: None)
    outcome = idaq("adapt", run, "--method", METHODS[0], "--name", "again")
    assert outcome.code == 2
    assert "returns that are not finite" in outcome.err
    assert not (run / "adapt" / "again").exists()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("jax_enable_x64", True),
        ("jax_default_prng_impl", "rbg"),
        ("jax_threefry_partitionable", False),
    ],
)
def test_settings_that_change_all_numbers(
    refused: Program, data: Path, run: Path, tmp_path: Path, setting: str, value: object
) -> None:
    before = getattr(jax.config, setting)
    jax.config.update(setting, value)  # type: ignore[no-untyped-call]
    try:
        for command in (
            ("train", "--data", data, "--out", tmp_path / "new", *TRAINING),
            ("adapt", run, "--method", METHODS[0], "--name", "again"),
            ("collect", "point-robot", "--out", tmp_path / "new"),
        ):
            refused(*command, names=(setting, f"Unset {setting.upper()}"))
    finally:
        jax.config.update(setting, before)  # type: ignore[no-untyped-call]


def test_metadata_that_was_changed(refused: Program, data: Path, tmp_path: Path) -> None:
    """The family of equal size, for example: its rewards are others."""
    file = data / "metadata.json"
    metadata = json.loads(file.read_text())
    file.write_text(json.dumps(metadata | {"family": "point-robot-sparse"}))
    train = ("train", "--data", data, "--out", tmp_path / "new", *TRAINING)
    refused(*train, names=(file, "checksum"))


def test_datasets_of_older_versions_stay_readable(data: Path) -> None:
    """They have no checksum of their metadata, and the same fingerprint."""
    before = open_dataset(data).fingerprint
    change_json(data / "metadata.json", "quality", to="expert")
    assert CHECKSUM not in read_metadata(data)
    assert open_dataset(data).fingerprint == before


def test_temporary_names_of_other_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may have a process of the same id, which is at work on the same file."""
    file = tmp_path / "file"
    with monkeypatch.context() as patch:
        patch.setattr(atomic, "_this_system", lambda: "0123abcd")
        elsewhere = tmp_path / f".file.tmp-{os.getpid()}-0123abcd"
        with atomic_file(file) as theirs:
            assert theirs == elsewhere
            theirs.write_text("theirs")
            patch.undo()
            write_json(file, "ours")
            assert theirs.read_text() == "theirs"
    assert file.read_text() == "theirs"
    elsewhere.write_text("left behind")
    write_json(file, "ours")
    assert elsewhere.exists(), "it may be at work still"
    long_ago = time.time() - atomic.STALE_SECONDS - 60
    os.utime(elsewhere, (long_ago, long_ago))
    write_json(file, "ours")
    assert list(tree(tmp_path)) == ["file"]


def test_a_node_with_another_idaq(tmp_path: Path) -> None:
    (cell, *_) = make_cells(get_experiment("mujoco"), "smoke")
    error = ray._run_on_node(str(tmp_path), cell, 1, "another")
    assert "has another idaq. Install this one on all nodes" in str(error)
    assert tree(tmp_path) == {}


@pytest.mark.parametrize("at_once", [1, 3])
def test_a_seed_that_diverges_stops_no_other(
    idaq: Program, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """Alone or in a group, the others are trained to their end; their agents stay."""
    save_agents = "idaq.runs.train_stage._save_agents"
    module = sys.modules["idaq.runs.train_stage"]
    save = module._save_agents

    def diverged(run: Any, group: list[int], splits: Any, updates: Any, agents: list[Any]) -> None:
        if 0 in group:
            agents[group.index(0)] = jax.tree.map(lambda x: x * jnp.nan, agents[group.index(0)])
        save(run, group, splits, updates, agents)

    place = RunDir(tmp_path / "new")
    command = (*RUN, "--seeds", "3", "--seeds-at-once", at_once, "--out", place.path)
    with monkeypatch.context() as patch:
        patch.setattr(save_agents, diverged)
        outcome = idaq(*command)
    assert outcome.code == 2
    assert "seed 0 diverged within 5 updates" in outcome.err
    assert [place.agent_file(seed).exists() for seed in range(3)] == [False, True, True]
    if at_once == 1:
        assert idaq(*command, "--resume").code == 0
        assert results(place.path / "seeds/seed-001") == results(run / "seeds/seed-001")


def test_too_few_open_files(tmp_path: Path) -> None:
    """The remedy is not to free space."""
    program = "import sys; from idaq.cli import main; sys.exit(main())"
    outcome = subprocess.run(
        [sys.executable, "-c", program, "collect", "point-robot", "--out", tmp_path / "data"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12)),
        capture_output=True,
        text=True,
    )
    assert outcome.returncode == 2, outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert "ulimit -n" in outcome.stderr
