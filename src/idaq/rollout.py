"""Episodes from environments: one interface, here over pure JAX environments.

A policy is three pure functions (see `idaq.algos.base`): `init_carry`, `act` and `take_reward`.
`rollout` runs one episode as a scan over steps; callers `vmap` it over tasks and seeds.
"""

from typing import Any, Protocol

import jax
import jax.numpy as jnp

from idaq.envs.base import TaskFamily
from idaq.types import Array, Episodes, PyTree


class Policy(Protocol):
    """How actions are chosen. `carry` is memory within an episode; () for feed-forward agents."""

    def init_carry(self, params: PyTree, hypothesis: PyTree) -> PyTree: ...

    def act(
        self, params: PyTree, hypothesis: PyTree, carry: PyTree, obs: Array, key: Array
    ) -> tuple[Any, PyTree]: ...

    def take_reward(self, params: PyTree, carry: PyTree, reward: Array) -> PyTree: ...


def rollout(
    family: TaskFamily,
    policy: Policy,
    params: PyTree,
    hypothesis: PyTree,
    task: Array,
    key: Array,
) -> Episodes:
    """One episode of `task`, padded to the horizon after termination."""
    reset_key, steps_key = jax.random.split(key)
    env_state, obs = family.reset(task, reset_key)

    def step(loop: Any, step_key: Array) -> tuple[Any, Episodes]:
        env_state, obs, carry, running = loop
        act_key, env_key = jax.random.split(step_key)
        action, carry = policy.act(params, hypothesis, carry, obs, act_key)
        env_state, result = family.step(task, env_state, action, env_key)
        carry = policy.take_reward(params, carry, result.reward)
        record = Episodes(
            obs=obs,
            action=action,
            reward=result.reward,
            next_obs=result.obs,
            terminated=result.terminated,
            success=result.success,
            valid=running,
        )
        return (env_state, result.obs, carry, running & ~result.terminated), record

    start = (env_state, obs, policy.init_carry(params, hypothesis), jnp.ones((), bool))
    _, episode = jax.lax.scan(step, start, jax.random.split(steps_key, family.spec.horizon))
    return episode
