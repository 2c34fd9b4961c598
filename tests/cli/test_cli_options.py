"""Options that parse and make no sense: refused before anything is written."""

import itertools
from pathlib import Path

import pytest

from tests.program import JOB, METHODS, RUN, TRAINING, Program


def refuse_run(refused: Program, tmp_path: Path, *arguments: str, names: tuple[str, ...]) -> None:
    """A refused `idaq run`, below a directory that does not exist yet."""
    out = tmp_path / "new" / "run"
    refused("run", "point-robot", *JOB, "--out", out, *arguments, names=names)


@pytest.mark.parametrize("command", ["run", "collect"])
def test_unknown_family(refused: Program, tmp_path: Path, command: str) -> None:
    out = tmp_path / "new"
    outcome = refused(command, "point-robt", "--out", out, names=("point-robt",))
    assert "Did you mean 'point-robot' or 'point-robot-sparse'? `idaq list`" in outcome.err


def test_unknown_method(refused: Program, tmp_path: Path, run: Path) -> None:
    names = ("'idaq-retrun'", "Did you mean 'idaq-return'?", "expert-context")
    refuse_run(refused, tmp_path, "--methods", "posterior", "idaq-retrun", names=names)
    refused("adapt", run, "--method", "idaq-retrun", names=names)


@pytest.mark.parametrize(
    ("option", "value", "name"),
    [
        ("--seeds", "0", "--seeds is 0"),
        ("--seeds", "-2", "--seeds is -2"),
        ("--seeds", "1000000000", "--seeds"),
        ("--first-seed", "-1", "Seed -1"),
        ("--first-seed", "4294967296", "Seed 4294967296"),
        ("--first-seed", "4294967295", "Seed 4294967297"),
        ("--seeds-at-once", "-1", "--seeds-at-once"),
        ("--updates", "0", "num_updates is 0"),
        ("--updates", "-5", "num_updates is -5"),
        ("--trajectories", "0", "--trajectories is 0"),
        ("--trajectories", "-1", "--trajectories is -1"),
        ("--trajectories", "1000000000", "--trajectories"),
        ("--data-seed", "-1", "Seed -1"),
        ("--data-seed", "99999999999999999999", "Seed"),
        ("--ensemble-size", "1", "at least 2"),
        ("--ensemble-size", "-1", "L is -1"),
        ("--k", "0", "--k is 0"),
        ("--k", "-1", "k is -1"),
        ("--k", "100.5", "k is 100.5"),
        ("--k", "nan", "--k is nan"),
        ("--k", "inf", "k is inf"),
        ("--n-r", "0", "--n-r is 0"),
        ("--n-i", "0", "--n-i is 0"),
        ("--n-e", "0", "--n-e is 0"),
        ("--n-e", "3", "a multiple of --n-e (3)"),
        ("--candidates", "0", "--candidates is 0"),
        ("--expert-episodes", "0", "--expert-episodes is 0"),
        ("--expert-episodes", "3", "--trajectories"),
    ],
)
def test_run_options_out_of_range(
    refused: Program, tmp_path: Path, option: str, value: str, name: str
) -> None:
    refuse_run(refused, tmp_path, option, value, names=(name,))


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("--episodes", "1"), ("--episodes is 1. It must be at least 2.",)),
        (("--episodes", "-3"), ("--episodes is -3. It must be at least 2.",)),
        (("--n-r", "5"), ("--episodes is given, and --n-r as well",)),
        (("--n-i", "5"), ("--episodes is given, and --n-i as well",)),
        (("--n-r", "5", "--n-i", "5"), ("--n-r and --n-i as well", "Give the whole budget")),
        (("--n-e", "2"), ("a multiple of --n-e (2), and one more: 9 or 11",)),
        (("--n-e", "10"), ("--episodes is 10", "at least 11")),
        (("--n-e", "0"), ("--n-e is 0",)),
    ],
)
def test_a_budget_that_cannot_be_split(
    refused: Program, tmp_path: Path, run: Path, arguments: tuple[str, ...], names: tuple[str, ...]
) -> None:
    out = ("--out", tmp_path / "new" / "run")
    refused("run", "point-robot", *TRAINING, "--episodes", "10", *arguments, *out, names=names)
    refused("adapt", run, "--method", METHODS[0], "--episodes", "10", *arguments, names=names)


def test_methods_that_need_models_are_refused_before_training_without(
    refused: Program, tmp_path: Path
) -> None:
    names = ("idaq-prediction-error", "--ensemble-size")
    refused("run", "point-robot", "--out", tmp_path / "a", "--ensemble-size", "0", names=names)


@pytest.mark.parametrize(
    ("option", "value", "name"),
    [
        ("--k", "nan", "--k is nan"),
        ("--k", "0", "--k is 0"),
        ("--n-r", "-1", "--n-r is -1"),
        ("--n-i", "0", "--n-i is 0"),
        ("--n-e", "0", "--n-e is 0"),
        ("--name", "", "--name"),
        ("--name", "..", "--name"),
        ("--name", "../outside", "--name"),
        ("--name", "a/b", "--name"),
        ("--name", ".hidden", "--name"),
        ("--name", "idaq-return", "--name"),
        ("--data", "anywhere", "takes no --data"),
    ],
)
def test_adapt_options_out_of_range(
    refused: Program, run: Path, option: str, value: str, name: str
) -> None:
    refused("adapt", run, "--method", METHODS[0], option, value, names=(name,))


@pytest.mark.parametrize(
    ("option", "value", "name"),
    [
        ("--trajectories", "0", "--trajectories is 0"),
        ("--trajectories", "100000", "--trajectories is 100000"),
        ("--seed", "-1", "Seed -1"),
    ],
)
def test_collect_options_out_of_range(
    refused: Program, tmp_path: Path, option: str, value: str, name: str
) -> None:
    refused(
        "collect", "point-robot", "--out", tmp_path / "new" / "data", option, value, names=(name,)
    )


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ("algorithm.latent_dim", "is not an assignment"),
        ("algorithm.latent_dims=2", "'algorithm.latent_dims'"),
        ("algorithm.learner.kind.x=2", "goes deeper"),
        ("train.num_updates.x=2", "goes deeper"),
        ("nothing=1", "algorithm, train, adapt"),
        ("=1", "There is no setting"),
        ("algorithm=1", "focal, op-cl, macaw, borel"),
        ("algorithm={}", "focal, op-cl, macaw, borel"),
        ("train={}", "lacks"),
        ("algorithm.latent_dim=", "type int"),
        ("algorithm.latent_dim=two", "type int"),
        ("algorithm.latent_dim=2.0", "type int"),
        ("algorithm.latent_dim=true", "type int"),
        ("algorithm.latent_dim=null", "type int"),
        ("algorithm.latent_dim=0", "latent_dim is 0"),
        ("algorithm.latent_dim=-4", "latent_dim is -4"),
        ("algorithm.latent_dim=1000000000", "latent_dim is 1000000000"),
        ("algorithm.encoder_hidden=8", "must be a list"),
        ("algorithm.encoder_hidden=[]", "encoder_hidden is ()"),
        ("algorithm.encoder_hidden=[8,0]", "encoder_hidden is (8, 0)"),
        ("algorithm.learner.hidden=[-8]", "hidden is (-8,)"),
        ("algorithm.learner.hidden=[8.5]", "type int"),
        ("algorithm.learner.kind=sac", "td3-bc"),
        ("algorithm.learner.learning_rate=0", "learning_rate is 0"),
        ("algorithm.learner.learning_rate=NaN", "learning_rate is nan"),
        ("algorithm.learner.learning_rate=1e999", "learning_rate is inf"),
        ("algorithm.learner.discount=1.5", "discount is 1.5"),
        ("algorithm.learner.target_rate=0", "target_rate is 0"),
        ("algorithm.batch_size=0", "batch_size is 0"),
        ("algorithm.meta_batch_size=0", "meta_batch_size is 0"),
        ("algorithm.context_size=-1", "context_size is -1"),
        ("algorithm.std_floor=0", "std_floor is 0"),
        ("algorithm.normalise=1", "type bool"),
        ("algorithm.ensemble.size=1", "size is 1"),
        ("algorithm.ensemble.hidden=[0]", "hidden is (0,)"),
        ("train.log_every_updates=0", "log_every_updates is 0"),
        ("train.checkpoint_every_updates=0", "checkpoint_every_updates is 0"),
        ("adapt.keep_percent=NaN", "--k is nan"),
        ("adapt.final=last", "posterior, best"),
        ("adapt.final=[]", "posterior, best"),
    ],
)
def test_settings_that_make_no_sense(
    refused: Program, tmp_path: Path, setting: str, name: str
) -> None:
    refuse_run(refused, tmp_path, "--set", setting, names=(name,))


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ("algorithm.learner.dual_steps=0", "dual_steps is 0"),
        ("algorithm.learner.alpha_init=-1", "alpha_init is -1"),
        ("algorithm.learner.reward_scale=0", "reward_scale is 0"),
        ("algorithm.learner.hidden=[]", "hidden is ()"),
        ("algorithm.learner.discount=-0.1", "discount is -0.1"),
    ],
)
def test_settings_of_the_paper_that_make_no_sense(
    refused: Program, tmp_path: Path, setting: str, name: str
) -> None:
    out = tmp_path / "new" / "run"
    refused(
        "run", "point-robot", "--preset", "paper", "--out", out, "--set", setting, names=(name,)
    )


def test_options_of_train_are_checked_too(refused: Program, tmp_path: Path, data: Path) -> None:
    train = ("train", "--data", data, "--out", tmp_path / "new", *TRAINING)
    refused(*train, "--seeds", "0", names=("--seeds is 0",))
    refused(*train, "--updates", "0", names=("num_updates is 0",))
    refused(*train, "--set", "algorithm.batch_size=0", names=("batch_size is 0",))
    refused(*train, "--set", "algorithm.frobs=0", names=("algorithm.frobs",))


def test_settings_given_together_and_apart_are_the_same(
    idaq: Program, run: Path, tmp_path: Path
) -> None:
    """`--set a --set b` keeps a: both forms resolve to what the run was made with."""
    settings = [RUN[i] for i in range(len(RUN)) if "=" in RUN[i]]
    others = [word for word in RUN if "=" not in word and word != "--set"]
    apart = itertools.chain.from_iterable(("--set", setting) for setting in settings)
    methods = itertools.chain.from_iterable(("--methods", method) for method in METHODS)
    plain = [word for word in others if word not in (*METHODS, "--methods")]
    outcome = idaq(*plain, *methods, *apart, "--seeds", "2", "--out", run, "--resume")
    assert outcome.code == 0, outcome.err
    outcome = idaq(*others, "--set", *settings, "--seeds", "2", "--out", run, "--resume")
    assert outcome.code == 0, outcome.err
