"""Algorithm 1 on an agent that acts as it believes: every decision replayed by hand."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idaq.adapt.methods import make_adapter
from tests import fakes, oracles
from tests.adapt.cases import CASES, OFFSETS, PRIORS, TARGETS, options, posterior, results


def replay(case: str, seed: int, task: int, **mutations: Any) -> oracles.Replay:
    """What should have happened in one task, given its returns."""
    method, _, changes = CASES[case]
    config, found = options(**changes), results(case)
    returns = found["returns"][seed, task].astype(np.float64)
    repeats = config.episodes_per_hypothesis

    def quantify(hypothesis: oracles.Floats, numbers: list[int]) -> float:
        if method == "idaq-return":
            return float(-np.mean(returns[numbers]))
        sizes = {"idaq-prediction-error": 7.0 / 12.0, "idaq-prediction-variance": 1.5}
        return sizes[method] * float(np.linalg.norm(hypothesis))

    settings: dict[str, Any] = {
        "num_reference": config.num_reference_episodes,
        "num_iterative": config.num_iterative_episodes,
        "repeats": repeats,
        "keep_percent": int(config.keep_percent),
        "improvement": config.accept == "improvement",
        "best": config.final == "best",
        "untried": list(PRIORS[seed]) if config.iterate != "posterior" else None,
        "logs": _logs(method) if config.iterate == "search" else None,
    }
    reference = found["hypotheses"][seed, task, : config.num_reference_episodes : repeats]
    return oracles.replay_idaq(list(reference.astype(np.float64)), quantify, **settings | mutations)


def _logs(method: str) -> float:
    return -fakes.LOGGED_RETURN if method == "idaq-return" else 0.0


def agrees(case: str, seed: int, task: int, **mutations: Any) -> bool:
    expected, found = replay(case, seed, task, **mutations), results(case)
    if len(expected.kept) != found["kept"].shape[2]:
        return False
    return (
        oracles.agree(found["hypotheses"][seed, task], np.asarray(expected.hypotheses))
        and oracles.agree(found["uncertainty"][seed, task], expected.uncertainty)
        and found["kept"][seed, task].tolist() == expected.kept
        and oracles.agree(found["threshold"][seed, task], expected.threshold)
        and oracles.agree(found["thresholds"][seed, task], expected.thresholds)
        and bool(found["tied"][seed, task]) == expected.tied
    )


PLACES = [(seed, task) for seed in range(len(PRIORS)) for task in range(len(TARGETS))]


@pytest.mark.parametrize("case", CASES)
def test_every_decision(case: str) -> None:
    for seed, task in PLACES:
        assert agrees(case, seed, task), f"seed {seed}, task {task}"


@pytest.mark.parametrize(
    ("case", "mutation"),
    [
        ("paper", {"keep_percent": 26}),
        ("paper, half kept", {"keep_percent": 51}),
        ("paper, half kept", {"improvement": True}),
        ("improvement", {"improvement": False}),
        ("threshold, best", {"best": False}),
        ("paper, half kept", {"best": True}),
        ("prediction error", {"keep_percent": 51}),
        ("untried", {"untried": None}),
        ("search", {"logs": None}),
        ("search", {"logs": -1e6}),
        ("search, best", {"logs": 1e6}),
        ("search by prediction error", {"logs": None}),
    ],
)
def test_decisions_fail_under_a_mutated_constant(case: str, mutation: dict[str, Any]) -> None:
    assert not all(agrees(case, seed, task, **mutation) for seed, task in PLACES)


def test_two_episodes_of_a_hypothesis_share_one_uncertainty() -> None:
    """Their mean, and they are kept or dropped together; the final episode stands alone."""
    found = results("two episodes each")
    pairs = {name: found[name][..., :-1].reshape(3, 6, 4, 2) for name in ("uncertainty", "kept")}
    for value in pairs.values():
        np.testing.assert_array_equal(value[..., 0], value[..., 1])
    returns = found["returns"][..., :-1].reshape(3, 6, 4, 2)
    assert oracles.agree(pairs["uncertainty"][..., 0], -returns.mean(axis=-1))
    assert not oracles.agree(pairs["uncertainty"][..., 0], -returns[..., 0])
    assert oracles.agree(found["uncertainty"][..., -1], -found["returns"][..., -1])


@pytest.mark.parametrize("case", CASES)
def test_budget(case: str) -> None:
    config, found = options(**CASES[case][2]), results(case)
    num = config.num_reference_episodes + config.num_iterative_episodes
    for name in ("returns", "uncertainty", "kept", "success"):
        assert found[name].shape == (len(PRIORS), len(TARGETS), num)
    assert found["hypotheses"].shape == (len(PRIORS), len(TARGETS), num, 2)


@pytest.mark.parametrize("case", CASES)
def test_last_episode_runs_the_committed_hypothesis_and_never_joins(case: str) -> None:
    found = results(case)
    assert not found["kept"][..., -1].any()
    if CASES[case][2].get("final") == "best":
        best = np.argmin(found["uncertainty"][..., :-1], axis=-1)
        expected = np.take_along_axis(found["hypotheses"], best[..., None, None], axis=2)[:, :, 0]
    else:
        kept = found["kept"][..., None]
        expected = (found["hypotheses"] * kept).sum(axis=2) / kept.sum(axis=2)
    np.testing.assert_allclose(found["hypotheses"][:, :, -1], expected, rtol=1e-5, atol=1e-6)


def test_something_was_accepted_and_something_was_rejected() -> None:
    """The cases above are not all of one kind."""
    for case in ("paper, half kept", "improvement", "two episodes each"):
        start = options(**CASES[case][2]).num_reference_episodes
        iterative = results(case)["kept"][..., start:-1]
        assert iterative.any()
        assert not iterative.all()


def test_fixed_threshold_stays_and_improvement_tightens_it() -> None:
    fixed, moving = results("paper, half kept"), results("improvement")
    reference = np.sort(fixed["uncertainty"][..., :4], axis=-1)
    np.testing.assert_array_equal(fixed["threshold"], reference[..., 1])
    start = np.sort(moving["uncertainty"][..., :4], axis=-1)[..., 1]
    accepted = moving["kept"][..., 4:-1].any(axis=-1)
    assert accepted.any()
    assert (moving["threshold"][accepted] < start[accepted]).all()


def test_untried_runs_no_hypothesis_twice_while_there_are_others() -> None:
    """The prior has eight, so the first eight episodes all differ."""
    found = results("untried")["hypotheses"][:, :, :8].reshape(-1, 8, 2)
    for rows in found:
        assert len({tuple(row) for row in rows.tolist()}) == 8
    again = results("paper")["hypotheses"].reshape(-1, 8, 2)
    assert any(len({tuple(row) for row in rows.tolist()}) < 8 for rows in again)


def test_search_goes_far_until_an_episode_resembles_the_logs() -> None:
    """One good reference hypothesis, near one corner of the prior; or none."""
    prior = [(0.0, 0.0), (8.0, 0.0), (0.0, 8.0), (8.0, 8.0)]
    prior += [(1.0, 0.0), (0.0, 1.0), (4.0, 4.0), (7.0, 7.0)]
    # tasks by the corner; the last is far from all of them, so that nothing resembles the logs
    family = fakes.Targets(((0.0, 0.0), (8.0, 0.0), (0.0, 8.0), (8.0, 8.0), (40.0, 40.0)) * 2)
    config = options(iterate="search", accept="improvement", final="best", keep_percent=25.0)
    found = fakes.adapt("idaq-return", config, family, [fakes.agent(prior, OFFSETS)] * 3)
    fifth = found["hypotheses"][0, :, 4]
    assert (np.linalg.norm(fifth[[0, 5]], axis=-1) == 1.0).all()  # a neighbour of the good corner
    np.testing.assert_array_equal(fifth[[4, 9]], [(4.0, 4.0)] * 2)  # the farthest of what is left


def test_before_the_threshold_nothing_is_kept() -> None:
    """What there is to record of a budget of which nothing has been spent."""
    made = make_adapter("idaq-return", options(), fakes.ActsAsBelieved())
    agent = {"prior": jnp.asarray(PRIORS[0]), "reward_offsets": jnp.asarray(OFFSETS)}
    record = made.record(made.init(agent, jax.random.key(0), None))
    assert not record["kept"].any()
    assert not record["tied"]
    for name in ("uncertainty", "threshold", "thresholds"):
        assert np.isnan(record[name]).all(), name


def test_better_hypotheses_win_on_the_task() -> None:
    """Keeping the best episode beats believing all of them."""
    kept, believed = results("paper")["returns"], posterior("paper")["returns"]
    assert kept[..., -1].mean() > believed[..., -1].mean() + 1.0


# --- Ties and missing context ---------------------------------------------------------------

# eight hypotheses and six tasks, as in the cases, so that these run the programs of those
SQUARE = [(1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0)] * 2
CENTRED = fakes.Targets(((0.0, 0.0), (0.5, 0.5), (0.5, 0.25)) * 2)


def on_the_square(case: str, prior: Any = SQUARE, offsets: Any = OFFSETS) -> Any:
    """A case with another prior and other targets."""
    method, _, changes = CASES[case]
    return fakes.adapt(method, options(**changes), CENTRED, [fakes.agent(prior, offsets)] * 3)


def test_ties() -> None:
    """All four equally far from the first target; two equally near to the second."""
    found = on_the_square("paper")
    assert found["tied"].tolist() == [[True, False, False] * 2] * 3
    assert found["kept"][..., :4].sum(axis=-1).tolist() == [[4, 2, 1] * 2] * 3
    near = found["hypotheses"][0, 1, :4][found["kept"][0, 1, :4]]
    assert sorted(near.tolist()) == [[0.0, 1.0], [1.0, 0.0]]
    np.testing.assert_array_equal(found["hypotheses"][:, 0, 4], 0.0)  # the mean of all four
    np.testing.assert_array_equal(found["hypotheses"][:, 1, 4], 0.5)


@pytest.mark.parametrize("case", ["prediction error", "prediction error, best"])
def test_nothing_kept_is_the_zero_hypothesis(case: str) -> None:
    """Uncertainties that are no numbers keep nothing; the agent then acts without a belief."""
    found = on_the_square(case, offsets=(float("nan"), 0.0, 1.0))
    assert not found["kept"].any()
    assert not found["tied"].any()
    assert np.isnan(found["threshold"]).all()
    np.testing.assert_array_equal(found["hypotheses"][:, :, 4:], 0.0)
    assert np.isfinite(found["returns"]).all()


def test_an_episode_that_diverges_is_not_kept() -> None:
    """Half of the hypotheses act without bounds; the others are told apart as ever."""
    spoiled = [*SQUARE[:4], *[(float("inf"), 0.0)] * 4]
    found = on_the_square("released", prior=spoiled)
    infinite = np.isinf(found["hypotheses"]).any(axis=-1)
    some_finite = ~infinite[..., :4].all(axis=-1)
    assert infinite.any()
    assert some_finite.any()
    assert not found["kept"][infinite & some_finite[..., None]].any()
    assert np.isfinite(found["returns"][some_finite][..., -1]).all()


# --- Randomness -----------------------------------------------------------------------------


def test_same_key_same_result_and_another_key_another() -> None:
    method, family, changes = CASES["released"]
    agents = [fakes.agent(PRIORS[0], OFFSETS)] * 3
    first, again, other = (
        fakes.adapt(method, options(**changes), family, agents, seeds)
        for seeds in ((0, 1, 2), (0, 1, 2), (3, 4, 5))
    )
    for name, value in first.items():
        np.testing.assert_array_equal(value, again[name], err_msg=name)
    assert not np.array_equal(first["hypotheses"], other["hypotheses"])
    assert not np.array_equal(first["hypotheses"][0], first["hypotheses"][1])


def test_tasks_try_different_hypotheses() -> None:
    found = results("released")["hypotheses"][:, :, :4]
    assert not np.array_equal(found[:, 0], found[:, 1])


@pytest.mark.parametrize("case", ["paper", "two episodes each"])
def test_posterior_runs_the_same_reference_episodes(case: str) -> None:
    """Also with repeated hypotheses and noise: the same keys, the same episodes."""
    for name in ("hypotheses", "returns", "rewards", "success"):
        np.testing.assert_array_equal(
            results(case)[name][:, :, :4], posterior(case)[name][:, :, :4], err_msg=name
        )
