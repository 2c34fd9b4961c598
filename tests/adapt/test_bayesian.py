"""The search `bayesian` against its equations in NumPy, and what it does in a whole adaptation."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from idaq.adapt.bayesian import believe, choose, expected_gain
from idaq.adapt.methods import make_adapter
from idaq.adapt.search import Tried
from idaq.algos.entries import ALGORITHMS, EMBEDDING
from idaq.errors import IdaqError
from idaq.settings import AdaptConfig
from tests import fakes, tiny
from tests.adapt.cases import OFFSETS

Floats = NDArray[np.float64]
PRIOR = np.random.default_rng(5).normal(size=(12, 3))
LOGGED = 10.0


def tried_of(
    y: list[float], *, logged: float = LOGGED, contradiction: Floats | None = None, num: int = 6
) -> Tried:
    """The first training tasks and a point between two of them were tried, with these results."""
    hypotheses = np.concatenate([PRIOR[: num - 1], 0.5 * (PRIOR[:1] + PRIOR[7:8])])
    values = np.full(num, np.nan)
    values[: len(y)] = y
    against = np.zeros(len(PRIOR)) if contradiction is None else contradiction
    return Tried(
        prior=jnp.asarray(PRIOR, jnp.float32),
        posterior=jnp.full(3, 0.25),
        hypotheses=jnp.asarray(hypotheses, jnp.float32),
        was_tried=jnp.arange(num) < len(y),
        uncertainty=jnp.asarray(-values, jnp.float32),
        logged_uncertainty=jnp.asarray(-logged),
        contradiction=jnp.asarray(against, jnp.float32),
        num_left=jnp.asarray(3),
    )


def distances(a: Floats, b: Floats) -> Floats:
    return np.asarray(np.linalg.norm(a[:, None] - b, axis=-1))


def kernel(x: Floats) -> Floats:
    return np.asarray(0.5 * np.exp(-0.5 * (x / 0.6) ** 2) + 0.5 * np.exp(-x))


def oracle(tried: Tried) -> tuple[Floats, Floats, Floats, float]:
    """Candidates, means, deviations and the scale, written out without masks."""
    judged = np.asarray(tried.was_tried) & ~np.isnan(np.asarray(tried.uncertainty))
    z = np.asarray(tried.hypotheses, np.float64)[judged]
    y = -np.asarray(tried.uncertainty, np.float64)[judged]
    prior = np.asarray(tried.prior, np.float64)
    between = distances(prior, prior)
    unit = np.median([between[i, j] for i in range(len(prior)) for j in range(i)])
    halfway = []
    for i in range(len(prior)):
        for j in sorted(range(len(prior)), key=lambda j: between[i, j])[1:5]:
            halfway.append((prior[i] + prior[j]) / 2)
    posterior = np.asarray(tried.posterior, np.float64)[None]
    candidates = np.concatenate([prior, np.array(halfway), posterior])
    level = y.mean()
    scale = max(y.std(), -float(tried.logged_uncertainty) - level)

    def prior_mean(points: Floats) -> Floats:
        weight = np.exp(-0.5 * (distances(points, prior) / (0.1 * unit)) ** 2)
        weight /= weight.sum(axis=1, keepdims=True)
        return np.asarray(-0.1 * weight @ np.asarray(tried.contradiction, np.float64))

    inverse = np.linalg.inv(kernel(distances(z, z) / unit) + 0.01 * np.eye(len(z)))
    with_tried = kernel(distances(candidates, z) / unit)
    residual = (y - level) / scale - prior_mean(z)
    mean = prior_mean(candidates) + with_tried @ inverse @ residual
    variance = 1.0 - np.einsum("ci,ij,cj->c", with_tried, inverse, with_tried)
    return candidates, level + scale * mean, scale * np.sqrt(np.maximum(variance, 1e-6)), scale


CASES = {
    "far below the logs": tried_of([1.0, 2.0, 0.5, 1.5]),
    "one try": tried_of([4.0]),
    "above the logs": tried_of([12.0, 15.0, 11.0, 14.0, 13.0, 16.0]),
    "no error in the logs": tried_of([-3.0, -1.0, -2.5], logged=0.0),
    "contradicted": tried_of([1.0, 5.0, 2.0], contradiction=np.linspace(-4.0, 20.0, 12)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_belief_is_the_gaussian_process_of_its_equations(name: str) -> None:
    tried = CASES[name]
    candidates, mean, deviation, scale = oracle(tried)
    belief = jax.jit(believe)(tried)
    order = np.lexsort(np.asarray(belief.candidates, np.float64).round(4).T)
    expected = np.lexsort(candidates.round(4).T)
    for ours, theirs in (
        (belief.candidates, candidates),
        (belief.mean, mean),
        (belief.deviation, deviation),
    ):
        ours_sorted = np.asarray(ours)[order]
        np.testing.assert_allclose(ours_sorted, theirs[expected], rtol=2e-3, atol=2e-3)
    assert float(belief.scale) == pytest.approx(scale, rel=1e-5)
    z = np.asarray(tried.hypotheses)[np.asarray(tried.was_tried)]
    is_new = distances(candidates, z).min(axis=1) > 1e-5
    upper = np.where(is_new, mean + deviation, -np.inf)
    np.testing.assert_allclose(choose(tried), candidates[upper.argmax()], atol=1e-5)
    y = -np.asarray(tried.uncertainty)[np.asarray(tried.was_tried)]
    above = (mean - y.max()) / deviation
    gain = deviation * (above * norm.cdf(above) + norm.pdf(above)) / scale
    assert float(expected_gain(tried)) == pytest.approx(gain[is_new].max(), rel=5e-3, abs=1e-4)


def test_the_first_is_the_middle() -> None:
    middle = distances(PRIOR, PRIOR).mean(axis=1).argmin()
    np.testing.assert_allclose(choose(tried_of([])), PRIOR[middle], rtol=1e-6)
    assert np.isinf(expected_gain(tried_of([])))


def test_failures_that_differ_little_do_not_hold_it() -> None:
    """Far below the logs, what is unlike all tries comes next; else, what is like the best."""
    y = [1.0, 1.1, 1.0, 0.9]
    best = PRIOR[1]
    far = np.linalg.norm(choose(tried_of(y)) - best)
    near = np.linalg.norm(choose(tried_of(y, logged=1.0)) - best)
    assert near < far


def test_what_the_logs_contradict_is_not_tried() -> None:
    y = [1.0, 5.0, 2.0]
    chosen = np.asarray(choose(tried_of(y)))
    around = np.linalg.norm(PRIOR - chosen, axis=1).argmin()
    against = np.zeros(len(PRIOR))
    against[np.linalg.norm(PRIOR - chosen, axis=1).argsort()[:2]] = 100.0
    assert around in against.nonzero()[0]
    other = np.asarray(choose(tried_of(y, contradiction=against)))
    assert np.linalg.norm(other - chosen) > 1e-3


def test_repeats_and_missing_judgements_are_no_trouble() -> None:
    """With n_e > 1 one hypothesis stands there twice, and the last has no value yet."""
    tried = tried_of([1.0, 2.0, 3.0])
    hypotheses = tried.hypotheses.at[1].set(tried.hypotheses[0])
    repeated = tried._replace(
        hypotheses=hypotheses, uncertainty=tried.uncertainty.at[1].set(-1.0).at[2].set(jnp.nan)
    )
    belief = believe(repeated)
    assert np.isfinite(belief.mean).all()
    assert np.isfinite(belief.deviation).all()
    assert not np.asarray(belief.is_new)[[0, 2]].any()


def test_equal_embeddings_are_no_trouble() -> None:
    same = tried_of([1.0, 2.0])._replace(
        prior=jnp.ones((12, 3)), posterior=jnp.ones(3), hypotheses=jnp.ones((6, 3))
    )
    assert np.isfinite(choose(same)).all()
    np.testing.assert_array_equal(choose(same), np.ones(3))
    assert float(expected_gain(same)) == 0.0


# --- In a whole adaptation --------------------------------------------------------------------

GOALS = fakes.Targets(tuple((float(x), 0.5) for x in range(6)))


def adapted(method: str = "idaq-return", **changes: Any) -> Any:
    options: Any = {"num_reference_episodes": 4, "num_iterative_episodes": 6} | changes
    config = AdaptConfig(
        reference="bayesian", iterate="bayesian", accept="improvement", final="best", **options
    )
    prior = tuple((float(x), 0.0) for x in range(8))
    entry = replace(ALGORITHMS["macaw"], name="acts-as-believed", offers=frozenset({EMBEDDING}))
    with ALGORITHMS.registered(entry):
        return fakes.adapt(method, config, GOALS, [fakes.agent(prior, OFFSETS)] * 2)


def test_agents_without_embeddings_are_refused() -> None:
    config = AdaptConfig(reference="bayesian", iterate="bayesian")
    with pytest.raises(IdaqError, match="'bayesian', which needs what 'macaw' does not offer"):
        make_adapter("idaq-return", config, tiny.EVERY["macaw"])


def test_no_hypothesis_is_run_twice_before_the_last() -> None:
    hypotheses = adapted()["hypotheses"]
    for rows in hypotheses.reshape(-1, *hypotheses.shape[2:]):
        tries = {tuple(row) for row in rows[:-1].round(5).tolist()}
        assert len(tries) == len(rows) - 1
        assert tuple(rows[-1].round(5).tolist()) in tries


def test_all_tasks_begin_in_the_middle_and_the_reference_stage_adapts() -> None:
    hypotheses = adapted()["hypotheses"]
    first = hypotheses[:, :, 0].reshape(-1, 2)
    assert (first == first[0]).all()
    second = hypotheses[0, :, 2].tolist()
    assert len({tuple(each) for each in second}) > 1, "what was tried decides what comes next"


def test_a_search_that_has_seen_enough_stops() -> None:
    whole, stopped = adapted(), adapted(stop_below=0.3)
    used = stopped["num_used"]
    assert "num_used" not in whole
    assert used.min() >= 2
    assert used.max() <= 10
    assert (used < 10).any()
    for seed, task in np.ndindex(*used.shape):
        num = int(used[seed, task])
        rows = stopped["hypotheses"][seed, task]
        np.testing.assert_array_equal(rows[: num - 1], whole["hypotheses"][seed, task, : num - 1])
        returns = stopped["returns"][seed, task]
        best = rows[returns[: num - 1].argmax()]
        np.testing.assert_array_equal(rows[num - 1 :], np.broadcast_to(best, rows[num - 1 :].shape))


@pytest.mark.parametrize("repeats", [1, 2])
def test_any_budget_and_any_number_of_repeats(repeats: int) -> None:
    for num in (1, 3):
        changes: dict[str, Any] = {
            "num_reference_episodes": num * repeats,
            "num_iterative_episodes": 1,
            "episodes_per_hypothesis": repeats,
        }
        results = adapted(**changes)
        assert np.isfinite(results["returns"]).all()
        pairs = results["hypotheses"][:, :, :-1].reshape(2, GOALS.num_tasks, num, repeats, 2)
        assert (pairs == pairs[:, :, :, :1]).all()
