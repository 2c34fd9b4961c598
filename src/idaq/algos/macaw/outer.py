"""MACAW (Mitchell et al., 2021): an initialisation from which one gradient step solves a task.

Policy and V are networks of weight-transform layers (`idaq.nets.weight_transform`). The inner loop
(`idaq.algos.macaw.inner`) is one step per task at learned rates, one per tensor. The outer loop,
here, trains both initialisations, the rates and the weight of the advantage head so that the
stepped networks do well on other rows of the task, by derivatives through the step.

A hypothesis is the vector of the adapted policy's emitted weights and, last, the standard deviation
of its actions, 0 except where `fine-tuning` explores. So every adapter works: `encode` is the inner
step on the context that is believed, and the prior, which the agent takes along, is the training
tasks' adapted policies, each from all rows of its task.

Where it departs from the authors' description:
1. With `normalise`, observations are standardised by the training tasks' statistics, and returns by
   those of the training rows.
2. The inner step at meta-test takes all rows of its context instead of 256 of them.
3. Fine-tuning after the step moves the emitted weights, by Adam, on the inner losses without the
   advantage head.
4. Returns are Monte-Carlo returns in both loops: nothing is added for the last state's value.
5. The advantage head is a plain network.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import jax
import jax.numpy as jnp
import optax

from idaq.algos.data import (
    Normaliser,
    TrainData,
    choose_normaliser,
    contiguous_places,
    is_training_row,
    no_data,
    random_places,
    sample_tasks,
    scale_action,
    task_places,
    unscale_action,
)
from idaq.algos.macaw.inner import Adapted, InnerLoop, Logged, MacawConfig, Networks, Rates, emit
from idaq.errors import IdaqError
from idaq.learners.losses import discounted_returns
from idaq.nets import mlp, weight_transform
from idaq.types import (
    Action,
    Carry,
    Episodes,
    Hypotheses,
    Hypothesis,
    Key,
    Mask,
    Metrics,
    OptState,
    Places,
    PyTree,
    Scalar,
    Spec,
    Vector,
)


class Returns(NamedTuple):
    """What returns are standardised by."""

    mean: Scalar
    std: Scalar


class State(NamedTuple):
    """Everything that training carries from one update to the next."""

    networks: Networks
    rates: Rates  # before the softplus that keeps them positive
    policy_opt: OptState  # of the policy and the advantage head
    value_opt: OptState
    rates_opt: OptState
    normaliser: Normaliser
    returns: Returns


class Agent(NamedTuple):
    """What adaptation needs."""

    networks: Networks
    rates: Rates
    normaliser: Normaliser
    returns: Returns
    prior: Hypotheses  # [num_train_tasks, num_weights + 1]
    logged_return: Scalar  # [], mean of the training tasks' episodes


@dataclass(frozen=True)
class Macaw:
    """The algorithm, bound to its configuration and the family's spec."""

    config: MacawConfig
    spec: Spec
    name: str = "macaw"

    @property
    def phases(self) -> tuple[tuple[int, Self], ...]:
        return ((0, self),)

    @property
    def return_discount(self) -> float | None:
        return self.config.discount

    @property
    def relabels(self) -> bool:
        return False

    def init(self, data: TrainData, key: Key) -> State:
        """Fresh networks; returns are standardised by those of the training rows or not at all."""
        config = self.config
        policy_key, advantage_key, value_key = jax.random.split(key, 3)
        head_sizes = (config.hidden[-1] + self.spec.action_dim, *config.advantage_hidden, 1)
        networks = Networks(
            policy=weight_transform.init(policy_key, self._inner.policy_sizes, config.code_dim),
            advantage=mlp.init(advantage_key, head_sizes),
            value=weight_transform.init(value_key, self._inner.value_sizes, config.code_dim),
        )
        rates = Rates(
            policy=weight_transform.constant_rates(networks.policy, config.inner_rate),
            value=weight_transform.constant_rates(networks.value, config.inner_rate),
            advantage_weight=jnp.asarray(config.advantage_weight, jnp.float32),
        )
        learned = jax.tree.map(lambda rate: jnp.log(jnp.expm1(rate)), rates)
        return State(
            networks=networks,
            rates=learned,
            policy_opt=optax.adam(config.policy_learning_rate).init(networks[:2]),
            value_opt=optax.adam(config.value_learning_rate).init(networks.value),
            rates_opt=optax.adam(config.rate_learning_rate).init(learned),
            normaliser=choose_normaliser(config, data),
            returns=_fit_returns(data) if config.normalise else Returns(*_zero_and_one()),
        )

    def update(self, state: State, data: TrainData, key: Key) -> tuple[State, Metrics]:
        """One outer step on some tasks: inner rows follow one another, outer ones are random."""
        config = self.config
        tasks_key, inner_key, outer_key = jax.random.split(key, 3)
        tasks = sample_tasks(data, config.meta_batch_size, tasks_key)
        inner_places = contiguous_places(data, tasks, config.inner_batch_size, inner_key)
        outer_places = random_places(data, tasks, config.outer_batch_size, outer_key)
        inner, outer = (self._logged(state, data, p) for p in (inner_places, outer_places))

        def outer_loss(networks: Networks, learned: Rates) -> tuple[Scalar, Metrics]:
            before, rates = emit(networks), positive(learned)

            def one_task(inner: Logged, outer: Logged) -> Metrics:
                adapted = self._inner.step(networks, rates, before, inner)
                return {
                    "value_loss": self._inner.value_loss(adapted.value, outer),
                    "policy_loss": self._inner.policy_loss(adapted, outer),
                }

            losses = jax.tree.map(jnp.mean, jax.vmap(one_task)(inner, outer))
            return losses["value_loss"] + losses["policy_loss"], losses

        (_, metrics), (grad, rates_grad) = jax.value_and_grad(
            outer_loss, argnums=(0, 1), has_aux=True
        )(state.networks, state.rates)

        # --- Update initialisations ---
        policy_step, policy_opt = optax.adam(config.policy_learning_rate).update(
            grad[:2], state.policy_opt
        )
        value_step, value_opt = optax.adam(config.value_learning_rate).update(
            grad.value, state.value_opt
        )
        policy, advantage = optax.apply_updates(state.networks[:2], policy_step)
        value = optax.apply_updates(state.networks.value, value_step)

        # --- Update inner learning rates ---
        rates_step, rates_opt = optax.adam(config.rate_learning_rate).update(
            rates_grad, state.rates_opt
        )
        learned = optax.apply_updates(state.rates, rates_step)
        rates = positive(learned)
        metrics |= {
            "policy_rate": jnp.stack(jax.tree.leaves(rates.policy)).mean(),
            "value_rate": jnp.stack(jax.tree.leaves(rates.value)).mean(),
            "advantage_weight": rates.advantage_weight,
        }
        new_state = State(
            networks=Networks(policy, advantage, value),
            rates=learned,
            policy_opt=policy_opt,
            value_opt=value_opt,
            rates_opt=rates_opt,
            normaliser=state.normaliser,
            returns=state.returns,
        )
        return new_state, metrics

    def finish(self, state: State, data: TrainData) -> Agent:
        """The agent; its prior is the policies adapted to all rows of every training task."""
        num_rows = int(data.task_count[data.train_tasks].max())
        before, rates = emit(state.networks), positive(state.rates)

        def adapt(task: Places) -> Hypothesis:
            places, is_own = task_places(data, task, num_rows)
            rows = self._logged(state, data, places)._replace(weight=is_own.astype(jnp.float32))
            return self.hypothesis(self._inner.step(state.networks, rates, before, rows), False)

        return _agent(state, jax.lax.map(adapt, data.train_tasks), data.mean_return)

    def agent_shapes(self, num_train_tasks: int) -> Agent:
        """The shapes of an agent, to read one back from a file."""

        def fresh_agent() -> Agent:
            data = no_data(self.spec, num_train_tasks)
            state = self.init(data, jax.random.key(0))
            size = weight_transform.num_weights(self._inner.policy_sizes) + 1
            prior = jnp.zeros((num_train_tasks, size))
            return _agent(state, prior, data.mean_return)

        shapes: Agent = jax.eval_shape(fresh_agent)
        return shapes

    def encode(self, agent: Agent, episodes: Episodes, keep: Mask) -> Hypothesis:
        """The policy after the inner step on the kept episodes; the initial one if none is."""
        return self.hypothesis(self.inner_step(agent, episodes, keep), False)

    def prior(self, agent: Agent) -> Hypotheses:
        return agent.prior

    def logged_return(self, agent: Agent) -> Scalar:
        return agent.logged_return

    def read(self, agent: Agent, episode: Episodes, hypothesis: Hypothesis) -> PyTree:
        raise IdaqError("MACAW has nothing that judges episodes.", "Choose another method.")

    def init_carry(self, agent: Agent, hypothesis: Hypothesis) -> Carry:
        return ()

    def act(
        self, agent: Agent, hypothesis: Hypothesis, carry: Carry, obs: jax.Array, key: Key
    ) -> tuple[Action, Carry]:
        flat = weight_transform.split(hypothesis[:-1], self._inner.policy_sizes)
        _, mean = self._inner.policy(flat, agent.normaliser.obs(obs))
        action = mean + hypothesis[-1] * jax.random.normal(key, mean.shape)
        return unscale_action(self.spec, jnp.clip(action, -1.0, 1.0)), carry

    def take_reward(self, agent: Agent, carry: Carry, reward: Scalar) -> Carry:
        return carry

    # --- What gradient-based adapters use ---

    def initial(self, agent: Agent) -> Adapted:
        """The networks before any step."""
        return emit(agent.networks)

    def inner_step(self, agent: Agent, episodes: Episodes, keep: Mask) -> Adapted:
        """One step of V and policy on the kept episodes [num, horizon, ...]."""
        rows = self._own_rows(agent, episodes, keep)
        return self._inner.step(agent.networks, agent.rates, emit(agent.networks), rows)

    def fine_tune(
        self,
        agent: Agent,
        adapted: Adapted,
        episodes: Episodes,
        keep: Mask,
        num_steps: int,
        learning_rate: float,
    ) -> Adapted:
        """Some further steps on the kept episodes."""
        rows = self._own_rows(agent, episodes, keep)
        return self._inner.fine_tune(adapted, rows, num_steps, learning_rate)

    def hypothesis(self, adapted: Adapted, explores: Scalar | bool) -> Hypothesis:
        """A policy's weights and the standard deviation of its actions in one vector."""
        std = jnp.where(explores, self.config.action_std, 0.0)
        return weight_transform.join([*adapted.policy, std[None]])

    @property
    def _inner(self) -> InnerLoop:
        return InnerLoop(self.config, self.spec)

    def _logged(self, state: State, data: TrainData, places: Places) -> Logged:
        target = (_returns_to_go(data)[places] - state.returns.mean) / state.returns.std
        obs = state.normaliser.obs(data.rows.obs[places])
        return Logged(obs, data.rows.action[places], target, jnp.ones(places.shape))

    def _own_rows(self, agent: Agent, episodes: Episodes, keep: Mask) -> Logged:
        """Episodes [num, horizon, ...] as rows [num * horizon, ...]."""
        total = discounted_returns(episodes.reward, episodes.valid, self.config.discount)
        rows = Logged(
            obs=agent.normaliser.obs(episodes.obs),
            action=scale_action(self.spec, episodes.action),
            target=(total - agent.returns.mean) / agent.returns.std,
            weight=(jnp.asarray(episodes.valid) & keep[:, None]).astype(jnp.float32),
        )
        flat: Logged = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rows)
        return flat


def positive(learned: Rates) -> Rates:
    """The rates that the learned numbers stand for."""
    rates: Rates = jax.tree.map(jax.nn.softplus, learned)
    return rates


def _agent(state: State, prior: Hypotheses, logged_return: Scalar) -> Agent:
    kept = (state.networks, positive(state.rates), state.normaliser, state.returns)
    return Agent(*kept, prior, logged_return)


def _zero_and_one() -> tuple[Scalar, Scalar]:
    return jnp.zeros(()), jnp.ones(())


def _returns_to_go(data: TrainData) -> Vector:
    assert data.return_to_go is not None, "`return_discount` asks for them"
    return data.return_to_go


def _fit_returns(data: TrainData) -> Returns:
    """Mean and standard deviation over the training tasks' rows."""
    weight = is_training_row(data)
    total = jnp.maximum(weight.sum(), 1)
    to_go = _returns_to_go(data)
    mean = jnp.where(weight, to_go, 0.0).sum() / total
    squares = jnp.where(weight, jnp.square(to_go - mean), 0.0).sum()
    return Returns(mean, jnp.maximum(jnp.sqrt(squares / total), 1e-3))
