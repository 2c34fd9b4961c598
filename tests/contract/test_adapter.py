"""What every adapter keeps, on a real agent, by shapes alone."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from idaq.adapt.base import Adapter
from idaq.adapt.methods import make_adapter, methods_of
from idaq.algos.base import Algorithm
from idaq.algos.context_based import ContextBased
from idaq.settings import AdaptConfig
from tests import tiny


def _with_logs(algorithm: Any) -> ContextBased:
    """The same, whose agents remember a few logged transitions."""
    return tiny.context_based(replace(algorithm.config, logged_rows=4))


ALGORITHMS = {
    "focal": _with_logs(tiny.EVERY["td3-bc+models"]),
    "op-cl": _with_logs(tiny.EVERY["op-cl, sac-brac+models"]),
    "macaw": tiny.EVERY["macaw"],
    "borel": tiny.EVERY["borel, policy"],
}
PAIRS = [(name, method) for name in ALGORITHMS for method in methods_of(name)]
CONFIGS = {
    "default": AdaptConfig(num_reference_episodes=3, num_iterative_episodes=2),
    "greedy": AdaptConfig(
        num_reference_episodes=3,
        num_iterative_episodes=2,
        reference="farthest-first",
        accept="improvement",
        final="best",
    ),
    "repeated": AdaptConfig(
        num_reference_episodes=4, num_iterative_episodes=3, episodes_per_hypothesis=2
    ),
}


@pytest.fixture(params=PAIRS, ids="-".join)
def pair(request: pytest.FixtureRequest) -> tuple[str, str]:
    """An algorithm and one of its methods."""
    algorithm, method = request.param
    return str(algorithm), str(method)


@pytest.fixture
def method(pair: tuple[str, str]) -> str:
    return pair[1]


@pytest.fixture
def algorithm(pair: tuple[str, str]) -> Algorithm:
    return ALGORITHMS[pair[0]]


@pytest.fixture(params=CONFIGS)
def adapter(request: pytest.FixtureRequest, algorithm: Algorithm, method: str) -> Adapter:
    return make_adapter(method, CONFIGS[request.param], algorithm)


def shapes(function: Any, *arguments: Any) -> Any:
    return jax.eval_shape(function, *arguments)


def test_budget_and_version(adapter: Adapter, method: str) -> None:
    config: Any = adapter.config  # type: ignore[attr-defined]
    expected = 1 if method == "expert-context" else config.num_episodes
    assert adapter.num_episodes == expected
    assert isinstance(adapter.version, int)
    assert adapter.version >= 1


def test_verbs_fit_together(adapter: Adapter, algorithm: Algorithm, method: str) -> None:
    """The state keeps its structure, and hypotheses are those of the algorithm."""
    agent = algorithm.agent_shapes(len(tiny.TRAIN_TASKS))
    given = tiny.episodes(1) if method == "expert-context" else None
    episode = jax.tree.map(lambda x: x[0], tiny.episodes(1))
    state = shapes(adapter.init, agent, jax.random.key(0), given)
    proposed = shapes(adapter.propose, agent, state)
    committed = shapes(adapter.commit, agent, state)
    for hypothesis in (proposed, committed):
        assert (hypothesis.shape, hypothesis.dtype) == (agent.prior.shape[1:], jnp.float32)
    after = shapes(adapter.observe, agent, state, proposed, episode)
    assert tiny.same_structure(after, state)
    for new, old in zip(jax.tree.leaves(after), jax.tree.leaves(state), strict=True):
        assert (new.shape, new.dtype) == (old.shape, old.dtype)

    record = shapes(adapter.record, state)
    assert (record["kept"].shape, record["kept"].dtype) == ((adapter.num_episodes,), jnp.bool_)
    if method.startswith("idaq-"):
        assert record["uncertainty"].shape == (adapter.num_episodes,)
        assert (record["threshold"].shape, record["tied"].shape) == ((), ())
