"""Saved results are loaded, or it is said which ones there are."""

from pathlib import Path

import numpy as np
import pytest

from idaq.errors import IdaqError
from idaq.runs.directory import RunDir
from idaq.runs.results import load_results, save_arrays
from idaq.storage.atomic import write_json


def saved(place: Path, names: tuple[str, ...], seeds: tuple[int, ...]) -> RunDir:
    run = RunDir(place)
    for name in names:
        run.adapt(name).mkdir(parents=True)
        write_json(run.adapt_config_file(name), {})
        for seed in seeds:
            save_arrays(run.result_file(name, seed), {"returns": np.zeros((2, 3))})
    return run


def test_results_that_are_not_there(tmp_path: Path) -> None:
    run = saved(tmp_path, ("posterior", "mine"), (0, 12))
    assert load_results(run, "mine", 12)["returns"].shape == (2, 3)
    for name, seed, there in (("mine", 1, "seed-000, seed-012"), ("yours", 0, "mine, posterior")):
        message = f"no results '{name}' of seed {seed} in '{tmp_path}'. There are: {there}."
        with pytest.raises(IdaqError) as caught:
            load_results(run, name, seed)
        assert message in str(caught.value)
    with pytest.raises(IdaqError, match="Adapt its agents first"):
        load_results(tmp_path / "none", "mine", 0)
