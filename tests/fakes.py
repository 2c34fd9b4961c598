"""Hand-made agents and task families, all of whose numbers can be worked out on paper."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from idaq.adapt.methods import make_adapter
from idaq.algos.data import TrainData
from idaq.engine.meta_test import Results
from idaq.envs.family import Step
from idaq.judges.ensemble import Prediction
from idaq.runs.directory import RunDir
from idaq.settings import AdaptConfig
from idaq.storage.atomic import write_json
from idaq.storage.claim import FORMAT_VERSION
from idaq.types import Array, Episodes, Key, PyTree, Spec
from tests.tiny import QUICK

HORIZON = 3
SPEC = Spec(
    obs_dim=1,
    action_dim=2,
    action_low=(-10.0, -10.0),
    action_high=(10.0, 10.0),
    horizon=HORIZON,
    has_success=True,
)


@dataclass(frozen=True)
class ActsAsBelieved:
    """The action is the hypothesis, and the hypothesis is the mean action of the kept steps.

    The agent is a dictionary with `prior` [tasks, 2], `reward_offsets` [L] and `logged_return`.
    Each model's error of the reward is its offset times the length of the hypothesis; the next
    observation is predicted exactly.
    """

    spec: Spec = SPEC
    config: Any = None
    name: str = "acts-as-believed"
    version: int = 1

    @property
    def phases(self) -> tuple[tuple[int, "ActsAsBelieved"], ...]:
        return ((0, self),)

    @property
    def return_discount(self) -> float | None:
        return None

    @property
    def offers(self) -> frozenset[str]:
        return frozenset({"ensemble"})

    @property
    def relabels(self) -> bool:
        return False

    def init(self, data: TrainData, key: Array) -> PyTree:
        raise NotImplementedError

    def update(self, state: PyTree, data: TrainData, key: Array) -> tuple[PyTree, dict[str, Any]]:
        raise NotImplementedError

    def finish(self, state: PyTree, data: TrainData) -> PyTree:
        raise NotImplementedError

    def agent_shapes(self, num_train_tasks: int) -> PyTree:
        raise NotImplementedError

    def encode(self, agent: PyTree, episodes: Episodes, keep: Array) -> Any:
        weight = (episodes.valid & keep[:, None])[..., None]
        total = jnp.maximum(weight.sum(), 1)
        return (episodes.action * weight).sum(axis=(0, 1)) / total

    def prior(self, agent: PyTree) -> Any:
        return agent["prior"]

    def logged_return(self, agent: PyTree) -> Any:
        return agent["logged_return"]

    def read(self, agent: PyTree, episode: Episodes, hypothesis: PyTree) -> Prediction:
        offsets = agent["reward_offsets"][:, None] * jnp.linalg.norm(hypothesis)
        shape = (len(agent["reward_offsets"]), *episode.next_obs.shape)
        return Prediction(
            reward=episode.reward,
            next_obs=episode.next_obs,
            rewards=episode.reward + offsets,
            next_observations=jnp.broadcast_to(episode.next_obs, shape),
            valid=episode.valid,
        )

    def init_carry(self, agent: PyTree, hypothesis: PyTree) -> PyTree:
        return ()

    def act(
        self, agent: PyTree, hypothesis: PyTree, carry: PyTree, obs: Array, key: Array
    ) -> tuple[Any, PyTree]:
        return hypothesis, carry

    def take_reward(self, agent: PyTree, carry: PyTree, reward: Array) -> PyTree:
        return carry


@dataclass(frozen=True)
class Targets:
    """The reward of a step is minus the distance of the action from the task's target.

    An action closer than 0.5 is a success. The observation counts the steps. Episodes of task i
    end after `lengths[i]` steps, or at the horizon if there are no lengths. `adapt` adds the
    noise to the rewards.
    """

    targets: tuple[tuple[float, float], ...]
    lengths: tuple[int, ...] | None = None
    noise: float = 0.0
    spec: Spec = SPEC
    name: str = "targets"
    version: int = 1

    @property
    def num_tasks(self) -> int:
        return len(self.targets)

    @property
    def task_params(self) -> NDArray[np.float32]:
        return np.asarray(self.targets, np.float32)

    def reset(self, task: Array, key: Array) -> tuple[Any, Any]:
        return jnp.zeros(1), jnp.zeros(1)

    def step(self, task: Array, state: Any, action: Array, key: Array) -> tuple[Any, Step]:
        distance = jnp.linalg.norm(action - jnp.asarray(self.targets)[task])
        state = state + 1.0
        terminated = jnp.zeros((), bool)
        if self.lengths is not None:
            terminated = state[0] >= jnp.asarray(self.lengths)[task]
        return state, Step(
            obs=state, reward=-distance, terminated=terminated, success=distance < 0.5
        )

    def expert(self, task: Array, obs: Array, key: Array) -> Any:
        return jnp.asarray(self.targets)[task]


LOGGED_RETURN = -3.0


def agent(prior: Any, reward_offsets: tuple[float, ...] = (0.0, 1.0)) -> dict[str, Any]:
    """An agent of `ActsAsBelieved`."""
    return {
        "prior": jnp.asarray(prior, jnp.float32),
        "reward_offsets": jnp.asarray(reward_offsets, jnp.float32),
        "logged_return": jnp.asarray(LOGGED_RETURN),
    }


def episode(action: Any, target: Array, length: Array, noise: Array) -> Episodes:
    """An episode of `Targets` in which one action is repeated."""
    steps = jnp.arange(HORIZON)
    distance = jnp.linalg.norm(action - target)
    return Episodes(
        obs=steps[:, None] * 1.0,
        action=jnp.tile(action, (HORIZON, 1)),
        reward=noise - distance,
        next_obs=steps[:, None] + 1.0,
        terminated=steps + 1 == length,
        success=jnp.full(HORIZON, distance < 0.5),
        valid=steps < length,
    )


@cache
def _program(method: str, config: AdaptConfig) -> Any:
    """The meta-test loop of all seeds and tasks as one compiled program."""
    adapter = make_adapter(method, config, ActsAsBelieved())

    def one_task(
        agent: PyTree, key: Key, target: Array, length: Array, noise: Array, given: PyTree
    ) -> Any:
        def run(state: PyTree, hypothesis: Any, noise: Array) -> tuple[PyTree, Any]:
            seen = episode(hypothesis, target, length, noise)
            return adapter.observe(agent, state, hypothesis, seen), (hypothesis, seen)

        def explore(state: PyTree, noise: Any) -> tuple[PyTree, Any]:
            return run(state, adapter.propose(agent, state), noise)

        state, before = jax.lax.scan(explore, adapter.init(agent, key, given), noise[:-1])
        state, final = run(state, adapter.commit(agent, state), noise[-1])
        together = jax.tree.map(lambda x, y: jnp.concatenate([x, y[None]]), before, final)
        return adapter.record(state), *together

    over_tasks = jax.vmap(one_task, in_axes=(None, 0, 0, 0, 0, 0))
    return jax.jit(jax.vmap(over_tasks, in_axes=(0, 0, None, None, 0, 0)), compiler_options=QUICK)


def adapt(
    method: str,
    config: AdaptConfig,
    family: Targets,
    agents: list[dict[str, Any]],
    seeds: tuple[int, ...] | None = None,
    given: Episodes | None = None,
) -> Results:
    """Adapt one agent per seed to all tasks of a family, as the meta-test loop does."""
    seeds = seeds or tuple(range(len(agents)))
    num = make_adapter(method, config, ActsAsBelieved()).num_episodes
    shape = (family.num_tasks, num, HORIZON)
    noise = [family.noise * np.random.default_rng(seed).normal(size=shape) for seed in seeds]
    record, hypotheses, episodes = _program(method, config)(
        jax.tree.map(lambda *x: jnp.stack(x), *agents),
        jnp.stack([jax.random.split(jax.random.key(seed), family.num_tasks) for seed in seeds]),
        family.task_params,
        np.asarray(family.lengths or [HORIZON] * family.num_tasks),
        np.asarray(noise, np.float32),
        given,
    )
    record |= {
        "hypotheses": hypotheses,
        "returns": episodes.returns,
        "success": (episodes.success & episodes.valid).any(axis=-1),
        "rewards": episodes.reward,
        "valid": episodes.valid,
    }
    return {name: np.asarray(value) for name, value in record.items()}


def write_manifest(
    run: RunDir,
    family: str,
    data: dict[str, Any] | None = None,
    config: dict[str, Any] | None = None,
) -> None:
    """Write the manifest of a made-up run of FOCAL."""
    identity = {"family": family, "family_version": 1, "algo": "focal", "algo_version": 1}
    identity |= {"preset": "default", "split": "test", "data": data or {}, "config": config or {}}
    manifest = {"identity": identity, "provenance": {"dataset": None}}
    write_json(run.manifest_file, {"format_version": FORMAT_VERSION, **manifest})
