"""MACAW (Mitchell et al., 2021): an initialisation from which one gradient step solves a task.

Policy and V are networks of weight-transform layers (`idaq.nets.weight_transform`). The inner loop
is one step per task at learned rates, one per tensor: first V towards Monte-Carlo returns, then the
policy by advantage-weighted regression under the new V, with the squared error of an advantage head
beside it, which makes the step's gradient tell values apart that actions alone do not. The outer
loop trains both initialisations, the rates and the head's weight so that the stepped networks do
well on other rows of the task, by derivatives through the step.

A hypothesis is the vector of the adapted policy's emitted weights and, last, the standard deviation
of its actions: 0 but where `fine-tuning` explores. So every adapter works: `encode` is the inner
step on the context that is believed, and the prior is the training tasks' adapted policies, which
the agent takes along, each from all rows of its task.

Where it departs from the authors' description:
1. With `normalise`, observations are standardised by the training tasks' statistics, and returns by
   those of the training rows.
2. The inner step at meta-test takes all rows of its context instead of 256 of them.
3. Fine-tuning after the step moves the emitted weights, by Adam, on the inner losses without the
   advantage head.
4. With `positive_rates` the learned rates are kept above zero.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import jax
import jax.numpy as jnp
import optax

from idaq.algos.base import Prediction
from idaq.algos.batch import (
    Normaliser,
    TrainData,
    contiguous_places,
    identity_normaliser,
    is_training_row,
    no_data,
    random_places,
    sample_tasks,
    scale_action,
    task_places,
    unscale_action,
)
from idaq.algos.losses import advantage_weights, discounted_returns, weighted_mean
from idaq.config import MAX_SIZE, require
from idaq.errors import IdaqError
from idaq.nets import critic, mlp, weight_transform
from idaq.nets.policy import OUTPUT_SCALE
from idaq.types import Array, Episodes, PyTree, Spec

MIN_RATE = 1e-6


@dataclass(frozen=True, kw_only=True)
class MacawConfig:
    """Defaults are the authors'."""

    kind: Literal["macaw"] = "macaw"
    hidden: tuple[int, ...] = (100, 100, 100)
    code_dim: int = 100  # of the learned vector that emits a layer
    action_std: float = 0.2
    temperature: float = 1.0
    max_weight: float = 20.0  # of an advantage-weighted action
    advantage_hidden: tuple[int, ...] = (32,)
    advantage_weight: float = 0.01  # at first; it is learned
    inner_rate: float = 1e-3  # at first; learned for every tensor
    positive_rates: bool = False
    rate_learning_rate: float = 1e-3
    policy_learning_rate: float = 1e-4
    value_learning_rate: float = 1e-5
    meta_batch_size: int = 5
    inner_batch_size: int = 256
    outer_batch_size: int = 256
    discount: float = 0.99
    normalise: bool = False
    std_floor: float = 0.05
    fine_tuning_steps: int = 20  # after every online episode
    fine_tuning_rate: float = 1e-3

    def __post_init__(self) -> None:
        require(self, "hidden", "advantage_hidden", "code_dim", least=1, most=MAX_SIZE)
        require(self, "meta_batch_size", "inner_batch_size", "outer_batch_size", least=1)
        require(self, "action_std", "temperature", "std_floor", above=0)
        require(self, "max_weight", least=1)
        require(self, "advantage_weight", "inner_rate", least=0)
        require(self, "rate_learning_rate", "policy_learning_rate", above=0, most=1)
        require(self, "value_learning_rate", "fine_tuning_rate", above=0, most=1)
        require(self, "discount", least=0, most=1)
        require(self, "fine_tuning_steps", least=0, most=10_000)


class Networks(NamedTuple):
    """The initialisation: weight-transform layers, and the advantage head."""

    policy: PyTree
    advantage: PyTree
    value: PyTree


class Rates(NamedTuple):
    """How the inner step is taken: learned."""

    policy: PyTree  # one number per tensor
    value: PyTree
    advantage_weight: Any


class Returns(NamedTuple):
    """What returns are standardised by."""

    mean: Any
    std: Any


class State(NamedTuple):
    """Everything that training carries from one update to the next."""

    networks: Networks
    rates: Rates
    policy_opt: PyTree  # of the policy and the advantage head
    value_opt: PyTree
    rates_opt: PyTree
    normaliser: Normaliser
    returns: Returns


class Agent(NamedTuple):
    """What adaptation needs."""

    networks: Networks
    rates: Rates
    normaliser: Normaliser
    returns: Returns
    prior: Any  # [num_train_tasks, num_weights + 1]


class Logged(NamedTuple):
    """Rows of one task in the networks' units."""

    obs: Any  # [n, obs_dim]
    action: Any  # [n, action_dim]
    target: Any  # [n], the return from there on
    weight: Any  # [n], 0 leaves a row out


class Adapted(NamedTuple):
    """The emitted weights of every layer, each flat, after some steps."""

    policy: list[Any]
    value: list[Any]


@dataclass(frozen=True)
class Macaw:
    """The algorithm, bound to its configuration and the family's spec."""

    config: MacawConfig
    spec: Spec
    name: str = "macaw"
    version: int = 1

    @property
    def phases(self) -> tuple[tuple[int, Self], ...]:
        return ((0, self),)

    @property
    def return_discount(self) -> float | None:
        return self.config.discount

    def init(self, data: TrainData, key: Array) -> State:
        """Fresh networks; returns are standardised by the training rows' or not at all."""
        config = self.config
        policy_key, advantage_key, value_key = jax.random.split(key, 3)
        head_sizes = (config.hidden[-1] + self.spec.action_dim, *config.advantage_hidden, 1)
        networks = Networks(
            policy=weight_transform.init(
                policy_key, self._policy_sizes, config.code_dim, OUTPUT_SCALE
            ),
            advantage=mlp.init(advantage_key, head_sizes),
            value=weight_transform.init(value_key, self._value_sizes, config.code_dim),
        )
        rates = Rates(
            policy=weight_transform.constant_rates(networks.policy, config.inner_rate),
            value=weight_transform.constant_rates(networks.value, config.inner_rate),
            advantage_weight=jnp.asarray(config.advantage_weight, jnp.float32),
        )
        return State(
            networks=networks,
            rates=rates,
            policy_opt=optax.adam(config.policy_learning_rate).init(networks[:2]),
            value_opt=optax.adam(config.value_learning_rate).init(networks.value),
            rates_opt=optax.adam(config.rate_learning_rate).init(rates),
            normaliser=(
                data.normaliser if config.normalise else identity_normaliser(self.spec.obs_dim)
            ),
            returns=_fit_returns(data) if config.normalise else Returns(*_zero_and_one()),
        )

    def update(self, state: State, data: TrainData, key: Array) -> tuple[State, dict[str, Any]]:
        """One outer step on some tasks: inner rows follow one another, outer ones are random."""
        config = self.config
        tasks_key, inner_key, outer_key = jax.random.split(key, 3)
        tasks = sample_tasks(data, config.meta_batch_size, tasks_key)
        inner_places = contiguous_places(data, tasks, config.inner_batch_size, inner_key)
        outer_places = random_places(data, tasks, config.outer_batch_size, outer_key)
        inner, outer = (self._logged(state, data, p) for p in (inner_places, outer_places))

        def outer_loss(networks: Networks, rates: Rates) -> tuple[Any, dict[str, Any]]:
            before = _emit(networks)

            def one_task(inner: Logged, outer: Logged) -> dict[str, Any]:
                adapted = self._step(networks, rates, before, inner)
                return {
                    "value_loss": self._value_loss(adapted.value, outer),
                    "policy_loss": self._policy_loss(adapted, outer),
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
        rates = optax.apply_updates(state.rates, rates_step)
        if config.positive_rates:
            rates = jax.tree.map(lambda x: jnp.maximum(x, MIN_RATE), rates)
        metrics |= {
            "policy_rate": jnp.stack(jax.tree.leaves(rates.policy)).mean(),
            "value_rate": jnp.stack(jax.tree.leaves(rates.value)).mean(),
            "advantage_weight": rates.advantage_weight,
        }
        new_state = State(
            networks=Networks(policy, advantage, value),
            rates=rates,
            policy_opt=policy_opt,
            value_opt=value_opt,
            rates_opt=rates_opt,
            normaliser=state.normaliser,
            returns=state.returns,
        )
        return new_state, metrics

    def finish(self, state: State, data: TrainData) -> Agent:
        """The agent; its prior are the policies adapted to all rows of every training task."""
        num_rows = int(data.task_count[data.train_tasks].max())
        before = _emit(state.networks)

        def adapt(task: Array) -> Any:
            places, is_own = task_places(data, task, num_rows)
            rows = self._logged(state, data, places)._replace(weight=is_own.astype(jnp.float32))
            return self.hypothesis(self._step(state.networks, state.rates, before, rows), False)

        prior = jax.lax.map(adapt, data.train_tasks)
        return Agent(state.networks, state.rates, state.normaliser, state.returns, prior)

    def agent_shapes(self, num_train_tasks: int) -> Agent:
        """The shapes of an agent, to read one back from a file."""

        def fresh_agent() -> Agent:
            state = self.init(no_data(self.spec, num_train_tasks), jax.random.key(0))
            size = weight_transform.num_weights(self._policy_sizes) + 1
            prior = jnp.zeros((num_train_tasks, size))
            return Agent(state.networks, state.rates, state.normaliser, state.returns, prior)

        shapes: Agent = jax.eval_shape(fresh_agent)
        return shapes

    def encode(self, agent: Agent, episodes: Episodes, keep: Array) -> Any:
        """The policy after the inner step on the kept episodes; the initial one if none is."""
        return self.hypothesis(self.inner_step(agent, episodes, keep), False)

    def prior(self, agent: Agent) -> Any:
        return agent.prior

    def predict(self, agent: Agent, episodes: Episodes, hypothesis: PyTree) -> Prediction:
        raise IdaqError("MACAW has no reward and dynamics models.", "Choose another method.")

    def init_carry(self, agent: Agent, hypothesis: PyTree) -> PyTree:
        return ()

    def act(
        self, agent: Agent, hypothesis: PyTree, carry: PyTree, obs: Array, key: Array
    ) -> tuple[Any, PyTree]:
        flat = weight_transform.split(hypothesis[:-1], self._policy_sizes)
        _, mean = self._policy(flat, agent.normaliser.obs(obs))
        action = mean + hypothesis[-1] * jax.random.normal(key, mean.shape)
        return unscale_action(self.spec, jnp.clip(action, -1.0, 1.0)), carry

    def take_reward(self, agent: Agent, carry: PyTree, reward: Array) -> PyTree:
        return carry

    # --- What gradient-based adapters use ---

    def initial(self, agent: Agent) -> Adapted:
        """The networks before any step."""
        return _emit(agent.networks)

    def inner_step(self, agent: Agent, episodes: Episodes, keep: Array) -> Adapted:
        """One step of V and policy on the kept episodes [num, horizon, ...]."""
        rows = self._own_rows(agent, episodes, keep)
        return self._step(agent.networks, agent.rates, _emit(agent.networks), rows)

    def fine_tune(self, agent: Agent, adapted: Adapted, episodes: Episodes, keep: Array) -> Adapted:
        """Some further steps on the kept episodes."""
        config, rows = self.config, self._own_rows(agent, episodes, keep)
        optimiser = optax.adam(config.fine_tuning_rate)

        def loss(adapted: Adapted) -> Any:
            return self._value_loss(adapted.value, rows) + self._policy_loss(adapted, rows)

        def one_step(_: Array, loop: Any) -> Any:
            adapted, opt = loop
            step, opt = optimiser.update(jax.grad(loss)(adapted), opt)
            return optax.apply_updates(adapted, step), opt

        start = (adapted, optimiser.init(adapted))
        result: Adapted = jax.lax.fori_loop(0, config.fine_tuning_steps, one_step, start)[0]
        return result

    def hypothesis(self, adapted: Adapted, explores: Array | bool) -> Any:
        """A policy's weights and the standard deviation of its actions in one vector."""
        std = jnp.where(explores, self.config.action_std, 0.0)
        return weight_transform.join([*adapted.policy, std[None]])

    # --- Networks and losses ---

    @property
    def _policy_sizes(self) -> tuple[int, ...]:
        return (self.spec.obs_dim, *self.config.hidden, self.spec.action_dim)

    @property
    def _value_sizes(self) -> tuple[int, ...]:
        return (self.spec.obs_dim, *self.config.hidden, 1)

    def _policy(self, flat: list[Any], obs: Array) -> tuple[Any, Any]:
        """The last hidden layer, and the mean action in [-1, 1]."""
        layers = weight_transform.as_mlp(flat, self._policy_sizes)
        features = jax.nn.relu(mlp.apply(layers[:-1], obs))
        return features, jnp.tanh(mlp.apply(layers[-1:], features))

    def _value(self, flat: list[Any], obs: Array) -> Any:
        layers = weight_transform.as_mlp(flat, self._value_sizes)
        return critic.v_value(layers, obs, obs[..., :0])

    def _value_loss(self, flat: list[Any], rows: Logged) -> Any:
        return weighted_mean(jnp.square(self._value(flat, rows.obs) - rows.target), rows.weight)

    def _policy_loss(self, networks: Adapted, rows: Logged) -> Any:
        """Advantage-weighted regression, without the advantage head."""
        advantage = rows.target - self._value(networks.value, rows.obs)
        _, mean = self._policy(networks.policy, rows.obs)
        return self._regression(mean, advantage, rows)

    def _regression(self, mean: Array, advantage: Array, rows: Logged) -> Any:
        config = self.config
        weights = advantage_weights(advantage, rows.weight, config.temperature, config.max_weight)
        distance = jnp.square(rows.action - mean).sum(axis=-1)
        return weighted_mean(weights * distance, rows.weight) / (2.0 * config.action_std**2)

    def _step(self, networks: Networks, rates: Rates, before: Adapted, rows: Logged) -> Adapted:
        """V's step, then the policy's under the new V."""
        value_grad = jax.grad(self._value_loss)(before.value, rows)
        value = weight_transform.step(networks.value, rates.value, value_grad)
        advantage = jax.lax.stop_gradient(rows.target - self._value(value, rows.obs))

        def policy_loss(flat: list[Any]) -> Any:
            features, mean = self._policy(flat, rows.obs)
            inputs = jnp.concatenate([features, rows.action], axis=-1)
            error = jnp.square(mlp.apply(networks.advantage, inputs)[..., 0] - advantage)
            loss = self._regression(mean, advantage, rows)
            return loss + rates.advantage_weight * weighted_mean(error, rows.weight)

        policy_grad = jax.grad(policy_loss)(before.policy)
        return Adapted(weight_transform.step(networks.policy, rates.policy, policy_grad), value)

    def _logged(self, state: State, data: TrainData, places: Array) -> Logged:
        target = (data.return_to_go[places] - state.returns.mean) / state.returns.std
        obs = state.normaliser.obs(data.rows.obs[places])
        return Logged(obs, data.rows.action[places], target, jnp.ones(places.shape))

    def _own_rows(self, agent: Agent, episodes: Episodes, keep: Array) -> Logged:
        """Episodes [num, horizon, ...] as rows [num * horizon, ...]."""
        total = discounted_returns(episodes.reward, episodes.valid, self.config.discount)
        rows = Logged(
            obs=agent.normaliser.obs(episodes.obs),
            action=scale_action(self.spec, episodes.action),
            target=(total - agent.returns.mean) / agent.returns.std,
            weight=(episodes.valid & keep[:, None]).astype(jnp.float32),
        )
        flat: Logged = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), rows)
        return flat


def _emit(networks: Networks) -> Adapted:
    return Adapted(weight_transform.emit(networks.policy), weight_transform.emit(networks.value))


def _zero_and_one() -> tuple[Any, Any]:
    return jnp.zeros(()), jnp.ones(())


def _fit_returns(data: TrainData) -> Returns:
    """Mean and standard deviation over the training tasks' rows."""
    weight = is_training_row(data)
    total = jnp.maximum(weight.sum(), 1)
    mean = jnp.where(weight, data.return_to_go, 0.0).sum() / total
    squares = jnp.where(weight, jnp.square(data.return_to_go - mean), 0.0).sum()
    return Returns(mean, jnp.maximum(jnp.sqrt(squares / total), 1e-3))
