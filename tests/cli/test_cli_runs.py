"""Run directories that are missing, in the way, of something else, or damaged."""

import json
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.program import EPISODES, RUN, TRAINING, Program, change_json, tree

Damage = Callable[[Path], object]
AGAIN = (*RUN, "--seeds", "2", "--resume")
METHOD = "idaq-prediction-error"
ADAPT = ("--method", METHOD, "--name", "again", *EPISODES)


@pytest.mark.parametrize("command", ["adapt", "report"])
def test_no_run_directory(refused: Program, tmp_path: Path, data: Path, command: str) -> None:
    refused(command, tmp_path / "nowhere", names=("nowhere", "run.json", "idaq run"))
    refused(command, tmp_path, names=("run.json",))
    refused(command, data, names=(data, "run.json"))
    refused(command, data / "rewards.npy", names=("rewards.npy",))


def test_an_existing_run_needs_resume(refused: Program, run: Path, data: Path) -> None:
    names = (run, "--resume", "--out")
    refused(*RUN, "--seeds", "2", "--out", run, names=names)
    refused("train", "--data", data, "--out", run, *TRAINING, names=names)


def test_existing_results_need_resume(refused: Program, run: Path) -> None:
    names = (run / "adapt" / METHOD, "--resume", "--name")
    refused("adapt", run, "--method", METHOD, names=names)


def test_out_that_is_something_else(refused: Program, tmp_path: Path, data: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    for place in (file, tmp_path / "full", data):
        for resume in ((), ("--resume",)):
            refused(*RUN, "--out", place, *resume, names=(place, "no run directory", "--out"))
            train = ("train", "--data", data, "--out", place, *TRAINING)
            refused(*train, *resume, names=(place, "no run directory"))
    for below in (file / "run", file / "deep" / "run"):
        refused(*RUN, "--out", below, names=(below, "ot a directory"))


def test_an_empty_directory_may_become_a_run(idaq: Program, tmp_path: Path) -> None:
    place = tmp_path / "empty"
    place.mkdir()
    assert idaq(*RUN, "--seeds", "1", "--out", place).code == 0


def test_a_finished_run_is_printed(idaq: Program, run: Path) -> None:
    before = {name: seen for name, seen in tree(run).items() if "seed-" in name or "data" in name}
    outcome = idaq(*AGAIN, "--out", run, "--json")
    assert outcome.code == 0
    assert json.loads(outcome.out) == json.loads((run / "summary.json").read_text())
    assert before.items() <= tree(run).items(), "nothing is computed again"
    again = ("adapt", run, "--method", METHOD, *EPISODES, "--resume", "--json")
    assert idaq(*again).out == outcome.out


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (("--updates", "6"), "num_updates"),
        (("--set", "algorithm.latent_dim=3"), "latent_dim"),
        (("--trajectories", "3"), "trajectories"),
        (("--data-seed", "1"), "data.seed"),
        (("--k", "50"), "keep_percent"),
        (("--split", "validation"), "split"),
    ],
)
def test_resume_with_another_configuration(
    refused: Program, run: Path, change: tuple[str, str], name: str
) -> None:
    refused(*AGAIN, *change, "--out", run, names=(run, name, "--out"))


@pytest.mark.parametrize("change", [("--seeds", "1"), ("--first-seed", "1")])
def test_resume_without_seeds_that_there_are(
    idaq: Program, run: Path, change: tuple[str, str]
) -> None:
    before = tree(run)
    outcome = idaq(*AGAIN, *change, "--out", run)
    assert outcome.code == 2
    assert "has seeds [0, 1]" in outcome.err
    assert "--first-seed 0 --seeds 2" in outcome.err
    assert tree(run) == before


def test_resume_as_another_family(refused: Program, run: Path) -> None:
    sparse = ("run", "point-robot-sparse", *AGAIN[2:])
    refused(*sparse, "--out", run, names=(run, "'point-robot'", "'point-robot-sparse'"))


def test_resume_of_results_with_other_options(refused: Program, run: Path) -> None:
    adapt = ("adapt", run, "--method", METHOD, "--n-r", "3", "--resume")
    refused(*adapt, names=(run / "adapt" / METHOD, "other options", "--name"))


def test_models_that_were_not_trained(refused: Program, run: Path) -> None:
    change_json(run / "run.json", "identity", "config", "algorithm", "ensemble", to=None)
    names = ("idaq-prediction-variance", "--ensemble-size")
    refused("adapt", run, "--method", "idaq-prediction-variance", names=names)


def test_adapt_before_training_ended(refused: Program, run: Path) -> None:
    (run / "seeds/seed-001/agent.safetensors").unlink()
    refused("adapt", run, *ADAPT, names=("not finished training", "[1]", "--resume"))
    (run / "seeds.json").unlink()
    refused("adapt", run, *ADAPT, names=("not finished training", "--resume"))


def test_more_expert_episodes_than_there_are(refused: Program, run: Path) -> None:
    adapt = ("adapt", run, "--method", "expert-context", "--name", "many")
    refused(*adapt, "--expert-episodes", "3", names=("2 episodes and 3",))


def _text(name: str, text: str) -> Damage:
    return lambda run: (run / name).write_text(text)


def _value(*keys: str, to: Any) -> Damage:
    return lambda run: change_json(run / "run.json", *keys, to=to)


def _cut(name: str, size: int) -> Damage:
    def damage(run: Path) -> None:
        contents = (run / name).read_bytes()
        (run / name).write_bytes(contents[:size] if size else b"")

    return damage


def _flip(name: str, place: int) -> Damage:
    def damage(run: Path) -> None:
        contents = bytearray((run / name).read_bytes())
        contents[place] ^= 1
        (run / name).write_bytes(contents)

    return damage


def _copy(name: str, to: str) -> Damage:
    return lambda run: shutil.copyfile(run / name, run / to)


AGENT = "seeds/seed-000/agent.safetensors"
RESULT = "adapt/expert-context/seed-001.npz"


def _arrays(**arrays: Any) -> Damage:
    return lambda run: np.savez(run / RESULT, **arrays)


def _flip_a_return(run: Path) -> None:
    with zipfile.ZipFile(run / RESULT) as archive:
        member = archive.getinfo("returns.npy")
    header = (run / RESULT).read_bytes()[member.header_offset :][:30]
    lengths = sum(struct.unpack("<HH", header[26:]))  # of the name and the extra field
    _flip(RESULT, member.header_offset + 30 + lengths + member.compress_size // 2)(run)


def _save(file: Path) -> None:
    with file.open("wb") as stream:
        np.save(stream, np.zeros(3))


MANIFEST_DAMAGES: dict[str, tuple[Damage, str]] = {
    "not JSON": (_text("run.json", "{"), "run.json' is not valid JSON"),
    "empty": (_text("run.json", ""), "run.json' is not valid JSON"),
    "list": (_text("run.json", "[]"), "run.json' holds no JSON object"),
    "version": (_value("format_version", to=7), "format version 7"),
    "no identity": (_text("run.json", '{"format_version": 1}'), "does not say what the run is"),
    "identity": (_value("identity", to=[]), "does not say what the run is"),
    "provenance": (_value("provenance", to=None), "does not say what the run is"),
    "family": (_value("identity", "family", to=["point-robot"]), "'family'"),
    "unknown family": (_value("identity", "family", to="point-rob"), "'point-rob'"),
    "family version": (_value("identity", "family_version", to=0), "version 0 of 'point-robot'"),
    "unknown algorithm": (_value("identity", "algo", to="foca"), "'foca'"),
    "algorithm version": (_value("identity", "algo_version", to=0), "version 0 of 'focal'"),
    "no algorithm version": (_value("identity", "algo_version", to=None), "'algo_version'"),
    "split": (_value("identity", "split", to=None), "'split'"),
    "config": (_value("identity", "config", to=[]), "'config'"),
    "config empty": (_value("identity", "config", to={}), "run.json': config"),
    "config value": (_value("identity", "config", "algorithm", "latent_dim", to="2"), "latent_dim"),
    "config bound": (_value("identity", "config", "algorithm", "latent_dim", to=0), "latent_dim"),
    "learner": (
        _value("identity", "config", "algorithm", "learner", "kind", to=[]),
        "learner.kind",
    ),
    "hidden": (
        _value("identity", "config", "algorithm", "encoder_hidden", to="8"),
        "encoder_hidden",
    ),
    "seeds not JSON": (_text("seeds.json", "[[0"), "seeds.json' is not valid JSON"),
    "seeds object": (_text("seeds.json", "{}"), "seeds.json' does not list"),
    "seeds flat": (_text("seeds.json", "[0, 1]"), "seeds.json' does not list"),
    "seeds empty group": (_text("seeds.json", "[[0], []]"), "seeds.json' does not list"),
    "seeds words": (_text("seeds.json", '[["0"]]'), "seeds.json' does not list"),
    "seeds negative": (_text("seeds.json", "[[-1]]"), "seeds.json' does not list"),
}
AGENT_DAMAGES: dict[str, tuple[Damage, str]] = {
    "agent empty": (_cut(AGENT, 0), f"{AGENT}' cannot be read"),
    "agent cut": (_cut(AGENT, -50), f"{AGENT}' cannot be read"),
    "agent header": (_flip(AGENT, 30), AGENT),
    "agent weight": (_flip(AGENT, -1), f"{AGENT}' is damaged"),
    "agent text": (_text(AGENT, "weights"), f"{AGENT}' cannot be read"),
    "agent results": (_copy(RESULT, AGENT), f"{AGENT}' cannot be read"),
    "agent of another seed": (_copy("seeds/seed-001/agent.safetensors", AGENT), AGENT),
}
RESULT_DAMAGES: dict[str, tuple[Damage, str]] = {
    "results empty": (_cut(RESULT, 0), f"{RESULT}' cannot be read"),
    "results cut": (_cut(RESULT, -30), f"{RESULT}' cannot be read"),
    "results flipped": (_flip_a_return, f"{RESULT}' cannot be read"),
    "results text": (_text(RESULT, "results"), f"{RESULT}' cannot be read"),
    "results without returns": (_arrays(tasks=np.zeros(3)), f"{RESULT}' has no finite returns"),
    "results flat": (_arrays(returns=np.zeros(3)), f"{RESULT}' has no finite returns"),
    "results NaN": (_arrays(returns=np.full((20, 1), np.nan)), f"{RESULT}' has no finite returns"),
    "results in a plain array": (lambda run: _save(run / RESULT), f"{RESULT}' cannot be read"),
    "results of fewer tasks": (_arrays(returns=np.zeros((3, 1))), "expert-context"),
}


@pytest.mark.parametrize("name", MANIFEST_DAMAGES)
def test_damaged_descriptions(refused: Program, run: Path, name: str) -> None:
    damage, message = MANIFEST_DAMAGES[name]
    damage(run)
    refused("adapt", run, *ADAPT, names=(message,))


@pytest.mark.parametrize("name", AGENT_DAMAGES)
def test_damaged_agents(refused: Program, run: Path, name: str) -> None:
    damage, message = AGENT_DAMAGES[name]
    damage(run)
    refused("adapt", run, *ADAPT, names=(message,))


@pytest.mark.parametrize("name", RESULT_DAMAGES)
def test_damaged_results(refused: Program, run: Path, name: str) -> None:
    damage, message = RESULT_DAMAGES[name]
    damage(run)
    outcome = refused("report", run, names=(message,))
    assert "--resume" in outcome.err


def test_damaged_results_are_made_again(idaq: Program, run: Path) -> None:
    """What the message says helps."""
    before = tree(run)[RESULT][1]
    _cut(RESULT, 100)(run)
    assert idaq(*AGAIN, "--out", run).code == 2
    (run / RESULT).unlink()
    assert idaq(*AGAIN, "--out", run).code == 0
    assert tree(run)[RESULT][1] == before


@pytest.mark.parametrize("damage", [_text("timing.json", "{"), _text("timing.json", "[]")])
def test_damaged_times(idaq: Program, run: Path, damage: Damage) -> None:
    """They are begun anew: a finished adaptation does not fail because of them."""
    damage(run)
    assert idaq("adapt", run, *ADAPT).code == 0
    assert isinstance(json.loads((run / "timing.json").read_text()), dict)


@pytest.mark.parametrize("size", [0, 40, -10])
def test_damaged_checkpoint(idaq: Program, run: Path, size: int) -> None:
    """A checkpoint that cannot be read stops the run; without it the training starts anew."""
    whole = tree(run)[AGENT][1]
    checkpoint = run / "train" / "seeds-000-000.safetensors"
    checkpoint.parent.mkdir()
    checkpoint.write_bytes((run / AGENT).read_bytes()[: size or None])
    (run / AGENT).unlink()
    outcome = idaq(*AGAIN, "--out", run)
    assert outcome.code == 2
    assert str(checkpoint) in outcome.err
    assert "Traceback" not in outcome.err
    checkpoint.unlink()
    assert idaq(*AGAIN, "--out", run).code == 0
    assert tree(run)[AGENT][1] == whole
    assert not checkpoint.parent.exists()


@pytest.mark.parametrize("seed", range(3))
def test_random_damage_never_shows_a_traceback(
    idaq: Program, run: Path, tmp_path: Path, seed: int
) -> None:
    """Bytes changed anywhere in a run's own files: it works, or it says what is wrong."""
    rng = np.random.default_rng(seed)
    files = [run / name for name in tree(run) if (run / name).is_file() and name != ".lock"]
    for trial in range(12):
        victim = files[rng.integers(len(files))]
        original = victim.read_bytes()
        contents = bytearray(original)
        for place in rng.integers(len(contents), size=3):
            contents[place] = rng.integers(256)
        victim.write_bytes(contents)
        for command in (("adapt", run, *ADAPT, "--name", f"t{trial}"), ("report", run)):
            outcome = idaq(*command)
            assert outcome.code in (0, 2), victim
            assert "Traceback" not in outcome.err
        victim.write_bytes(original)
