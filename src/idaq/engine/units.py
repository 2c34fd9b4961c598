"""Units of work for worker processes: whole episodes in simulators.

A unit is a batch of episodes with everything that determines them: tasks, seeds, and for an agent
its weights and hypotheses. A unit's policy calls have one fixed, padded shape, in which each
episode has a fixed place, so results depend neither on the number of workers nor on which worker
ran what.
"""

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from idaq.engine.policy import Policy
from idaq.envs.family import Expert, HostFamily, Info, ScriptedHostFamily
from idaq.types import Action, AnyArray, Carry, Episodes, Hypothesis, PyTree, Scalar

if TYPE_CHECKING:
    from idaq.envs.family import Simulator

T = TypeVar("T")
Done_co = TypeVar("Done_co", covariant=True)
Floats = NDArray[np.float32]

UNIT_EPISODES = 5  # of a policy unit: one policy call serves this many simulators


class Unit(Protocol[Done_co]):
    """Work for one worker."""

    def run(self) -> Done_co: ...


class _Sent:
    """A unit whose family and policy are one object in a worker, for all units that have them.

    So a worker's simulators and programs serve them all, also where two copies of a family or a
    policy are not equal.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        own = dict(vars(self))
        shared = {each: pickle.dumps(own.pop(each)) for each in ("family", "policy") if each in own}
        return _received, (type(self), shared, own)


def _received(kind: type[T], shared: dict[str, bytes], own: dict[str, Any]) -> T:
    return kind(**own, **{name: _the_one(pickled) for name, pickled in shared.items()})


@lru_cache(maxsize=32)
def _the_one(pickled: bytes) -> Any:
    return pickle.loads(pickled)


@dataclass(frozen=True)
class ExpertUnit(_Sent):
    """Some episodes of one task by its scripted behaviour policy."""

    family: ScriptedHostFamily
    task: int
    seeds: tuple[tuple[int, ...], ...]  # one per episode

    def run(self) -> Episodes:
        env = _simulator(self.family, 0)
        expert = self.family.make_expert(env)
        episodes = [_expert_episode(self.family, env, expert, self.task, s) for s in self.seeds]
        return Episodes(*(np.stack(field) for field in zip(*episodes, strict=True)))


@dataclass(frozen=True)
class PolicyUnit(_Sent):
    """Up to `UNIT_EPISODES` episodes of one agent, each with a task, hypothesis and key.

    Only those in `rows` are run, each in its own row of the policy calls.
    """

    family: HostFamily
    policy: Policy
    agent_file: str
    hypotheses: AnyArray  # [n, latent_dim]
    tasks: NDArray[np.int64]  # [n]
    keys: NDArray[np.uint32]  # [n, 2], raw
    rows: tuple[int, ...] = ()

    def run(self) -> Episodes:
        return _policy_episodes(self)


def reset_seed(key: NDArray[np.uint32]) -> int:
    """The simulator's seed for an episode with this raw key."""
    return int(np.random.default_rng(key).integers(2**31))


def _expert_episode(
    family: HostFamily, env: "Simulator", expert: Expert, task: int, seed: tuple[int, ...]
) -> Episodes:
    rng = np.random.default_rng(seed)
    episodes = empty_episodes(family, 1)
    obs, info = env.reset(seed=int(rng.integers(2**31)), options={"task": task})
    expert.reset()
    for step in range(family.spec.horizon):
        action = expert.act(obs, info, rng)
        obs, info, ended = _record_step(episodes, 0, step, env, obs, action)
        if ended:
            break
    return Episodes(*(field[0] for field in episodes))


def empty_episodes(family: HostFamily, num: int) -> Episodes:
    """Empty buffers for `num` episodes."""
    spec, lead = family.spec, (num, family.spec.horizon)
    return Episodes(
        obs=np.zeros((*lead, spec.obs_dim), np.float32),
        action=np.zeros((*lead, spec.action_dim), np.float32),
        reward=np.zeros(lead, np.float32),
        next_obs=np.zeros((*lead, spec.obs_dim), np.float32),
        terminated=np.zeros(lead, bool),
        success=np.zeros(lead, bool),
        valid=np.zeros(lead, bool),
    )


def _record_step(
    episodes: Episodes, row: int, step: int, env: "Simulator", obs: Floats, action: Floats
) -> tuple[Floats, Info, bool]:
    """Step a simulator, record what happened, and tell whether the episode ended."""
    next_obs, reward, terminated, truncated, info = env.step(action)
    values = (obs, action, reward, next_obs, terminated, bool(info.get("success", False)), True)
    for field, value in zip(episodes, values, strict=True):
        field[row, step] = value
    return next_obs, info, bool(terminated or truncated)


def _policy_episodes(unit: PolicyUnit) -> Episodes:
    """The unit's episodes in lockstep, one policy call per step; [rows, horizon, ...]."""
    import jax

    spec = unit.family.spec
    agent = _load_agent(unit.agent_file)
    full = np.minimum(np.arange(UNIT_EPISODES), len(unit.tasks) - 1)  # pad with the last one
    hypotheses = jax.device_put(unit.hypotheses[full])
    keys = jax.device_put(unit.keys[full])
    start, choose = _policy_program(unit.policy)
    envs = {row: _simulator(unit.family, row) for row in unit.rows}
    episodes = empty_episodes(unit.family, UNIT_EPISODES)
    obs = np.zeros((UNIT_EPISODES, spec.obs_dim), np.float32)
    reward = np.zeros(UNIT_EPISODES, np.float32)
    for row in unit.rows:
        options = {"task": int(unit.tasks[row])}
        obs[row], _ = envs[row].reset(seed=reset_seed(unit.keys[row]), options=options)
    carry = start(agent, hypotheses)
    running = list(unit.rows)
    for step in range(spec.horizon):
        actions, carry = choose(agent, hypotheses, carry, obs, reward, keys, np.int32(step))
        host_actions, before = np.asarray(actions), obs.copy()
        for row in list(running):
            obs[row], _, ended = _record_step(
                episodes, row, step, envs[row], before[row], host_actions[row]
            )
            reward[row] = episodes.reward[row, step]
            if ended:
                running.remove(row)
        if not running:
            break
    return Episodes(*(field[list(unit.rows)] for field in episodes))


@lru_cache(maxsize=4)
def _policy_program(
    policy: Policy,
) -> tuple[Callable[..., PyTree], Callable[..., tuple[Action, Carry]]]:
    """Functions for the first memory, and for the next action and memory, of a unit's episodes."""
    import jax

    def one(
        agent: PyTree,
        hypothesis: Hypothesis,
        carry: Carry,
        obs: jax.Array,
        reward: Scalar,
        key: jax.Array,
        step: Scalar,
    ) -> tuple[Action, Carry]:
        after_reward = policy.take_reward(agent, carry, reward)
        carry = jax.tree.map(lambda a, b: jax.numpy.where(step > 0, a, b), after_reward, carry)
        step_key = jax.random.fold_in(jax.random.wrap_key_data(key), step)
        return policy.act(agent, hypothesis, carry, obs, step_key)

    start = jax.jit(jax.vmap(policy.init_carry, in_axes=(None, 0)))
    return start, jax.jit(jax.vmap(one, in_axes=(None, 0, 0, 0, 0, 0, None)))


@lru_cache(maxsize=2 * UNIT_EPISODES)  # for two families whose jobs overlap
def _simulator(family: HostFamily, row: int) -> "Simulator":
    """A worker's own simulator of a family, one per row of its policy calls."""
    return family.make_env()


@lru_cache(maxsize=32)
def _load_agent(file: str) -> PyTree:
    import jax

    with Path(file).open("rb") as stream:
        return jax.tree.map(jax.device_put, pickle.load(stream))
