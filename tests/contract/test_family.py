"""What every task family keeps."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idaq.behaviour.collect import ExpertPolicy
from idaq.engine.rollout import rollout
from idaq.envs import POINT_FAMILIES
from idaq.envs.family import JaxFamily
from tests import tiny


@pytest.fixture(params=POINT_FAMILIES)
def family(request: pytest.FixtureRequest) -> JaxFamily:
    return POINT_FAMILIES[str(request.param)]


def test_description(family: JaxFamily) -> None:
    assert POINT_FAMILIES[family.name] is family
    assert isinstance(hash(family), int)
    assert family.version >= 1
    assert len(family.task_params) == family.num_tasks
    spec = family.spec
    assert len(spec.action_low) == len(spec.action_high) == spec.action_dim
    assert all(low < high for low, high in zip(spec.action_low, spec.action_high, strict=True))
    assert len(np.unique(family.task_params, axis=0)) == family.num_tasks


def test_functions_have_the_announced_shapes(family: JaxFamily) -> None:
    spec, task, key = family.spec, jnp.asarray(3), jax.random.key(0)
    state, obs = jax.eval_shape(family.reset, task, key)
    assert (obs.shape, obs.dtype) == ((spec.obs_dim,), jnp.float32)
    action = jax.eval_shape(family.expert, task, obs, key)
    assert (action.shape, action.dtype) == ((spec.action_dim,), jnp.float32)
    after, step = jax.eval_shape(family.step, task, state, action, key)
    assert tiny.same_structure(after, state)
    assert (step.obs.shape, step.obs.dtype) == (obs.shape, obs.dtype)
    assert (step.reward.shape, step.reward.dtype) == ((), jnp.float32)
    for flag in (step.terminated, step.success):
        assert (flag.shape, flag.dtype) == ((), jnp.bool_)


def test_rollouts_are_deterministic_in_their_key(family: JaxFamily) -> None:
    @jax.jit
    def run(key: jax.Array) -> object:
        task = jnp.asarray(7)
        return rollout(family, ExpertPolicy(family), (), task, task, key)

    first, again, other = (run(jax.random.key(k)) for k in (0, 0, 1))
    pairs = zip(jax.tree.leaves(first), jax.tree.leaves(again), strict=True)
    assert all(np.array_equal(a, b) for a, b in pairs)
    assert not np.array_equal(jax.tree.leaves(first)[1], jax.tree.leaves(other)[1])
