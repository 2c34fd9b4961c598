"""MACAW's inner loop: networks, losses, and the one step that adapts them to a task.

V moves first, towards Monte-Carlo returns; then the policy, by advantage-weighted regression under
the new V, plus the squared error of an advantage head, by which the step's gradient tells apart
values that actions alone do not. `idaq.algos.macaw.outer` is the outer loop.
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from idaq.config import MAX_SIZE, require
from idaq.learners.losses import advantage_weights, weighted_mean
from idaq.nets import critic, mlp, weight_transform
from idaq.nets.weight_transform import Flat, Layer
from idaq.settings import AlgorithmConfig
from idaq.types import Action, OptState, Scalar, Spec, Vector


@dataclass(frozen=True, kw_only=True)
class MacawConfig(AlgorithmConfig):
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
    rate_learning_rate: float = 1e-3
    policy_learning_rate: float = 1e-4
    value_learning_rate: float = 1e-5
    meta_batch_size: int = 5
    inner_batch_size: int = 256
    outer_batch_size: int = 256
    discount: float = 0.99
    hide_unrelated: bool = False  # as in FOCAL
    normalise: bool = False
    std_floor: float = 0.05

    def __post_init__(self) -> None:
        require(self, "hidden", "advantage_hidden", "code_dim", least=1, most=MAX_SIZE)
        require(self, "meta_batch_size", "inner_batch_size", "outer_batch_size", least=1)
        require(self, "action_std", "temperature", "std_floor", above=0)
        require(self, "max_weight", least=1)
        require(self, "advantage_weight", "inner_rate", above=0)
        require(self, "rate_learning_rate", "policy_learning_rate", above=0, most=1)
        require(self, "value_learning_rate", above=0, most=1)
        require(self, "discount", least=0, most=1)


class Networks(NamedTuple):
    """The initialisation: weight-transform layers, and the advantage head."""

    policy: list[Layer]
    advantage: mlp.Layers
    value: list[Layer]


class Rates(NamedTuple):
    """How the inner step is taken: learned."""

    policy: list[Layer]  # one number per tensor
    value: list[Layer]
    advantage_weight: Scalar


class Logged(NamedTuple):
    """Rows of one task in the networks' units."""

    obs: jax.Array  # [n, obs_dim]
    action: jax.Array  # [n, action_dim]
    target: Vector  # [n], the return from there on
    weight: Vector  # [n], 0 leaves a row out


class Adapted(NamedTuple):
    """The emitted weights of every layer, each flat, after some steps."""

    policy: Flat
    value: Flat


def emit(networks: Networks) -> Adapted:
    """The networks before any step."""
    return Adapted(weight_transform.emit(networks.policy), weight_transform.emit(networks.value))


@dataclass(frozen=True)
class InnerLoop:
    """What happens within one task."""

    config: MacawConfig
    spec: Spec

    @property
    def policy_sizes(self) -> tuple[int, ...]:
        return (self.spec.obs_dim, *self.config.hidden, self.spec.action_dim)

    @property
    def value_sizes(self) -> tuple[int, ...]:
        return (self.spec.obs_dim, *self.config.hidden, 1)

    def policy(self, flat: Flat, obs: jax.Array) -> tuple[jax.Array, Action]:
        """The last hidden layer, and the mean action in [-1, 1]."""
        layers = weight_transform.as_mlp(flat, self.policy_sizes)
        features = jax.nn.relu(mlp.apply(layers[:-1], obs))
        return features, jnp.tanh(mlp.apply(layers[-1:], features))

    def value(self, flat: Flat, obs: jax.Array) -> Vector:
        layers = weight_transform.as_mlp(flat, self.value_sizes)
        return critic.v_value(layers, obs, obs[..., :0])

    def value_loss(self, flat: Flat, rows: Logged) -> Scalar:
        return weighted_mean(jnp.square(self.value(flat, rows.obs) - rows.target), rows.weight)

    def policy_loss(self, networks: Adapted, rows: Logged) -> Scalar:
        """Advantage-weighted regression, without the advantage head."""
        advantage = rows.target - self.value(networks.value, rows.obs)
        _, mean = self.policy(networks.policy, rows.obs)
        return self._regression(mean, advantage, rows)

    def _regression(self, mean: Action, advantage: Vector, rows: Logged) -> Scalar:
        config = self.config
        weights = advantage_weights(advantage, rows.weight, config.temperature, config.max_weight)
        distance = jnp.square(rows.action - mean).sum(axis=-1)
        return weighted_mean(weights * distance, rows.weight) / (2.0 * config.action_std**2)

    def step(self, networks: Networks, rates: Rates, before: Adapted, rows: Logged) -> Adapted:
        """V's step, then the policy's under the new V."""
        value_grad = jax.grad(self.value_loss)(before.value, rows)
        value = weight_transform.step(networks.value, rates.value, value_grad)
        advantage = jax.lax.stop_gradient(rows.target - self.value(value, rows.obs))

        def policy_loss(flat: Flat) -> Scalar:
            features, mean = self.policy(flat, rows.obs)
            inputs = jnp.concatenate([features, rows.action], axis=-1)
            error = jnp.square(mlp.apply(networks.advantage, inputs)[..., 0] - advantage)
            loss = self._regression(mean, advantage, rows)
            return loss + rates.advantage_weight * weighted_mean(error, rows.weight)

        policy_grad = jax.grad(policy_loss)(before.policy)
        return Adapted(weight_transform.step(networks.policy, rates.policy, policy_grad), value)

    def fine_tune(
        self, adapted: Adapted, rows: Logged, num_steps: int, learning_rate: float
    ) -> Adapted:
        """Further steps of the emitted weights, by Adam, without the advantage head."""
        optimiser = optax.adam(learning_rate)

        def loss(adapted: Adapted) -> Scalar:
            return self.value_loss(adapted.value, rows) + self.policy_loss(adapted, rows)

        def one_step(_: Scalar, loop: tuple[Adapted, OptState]) -> tuple[Adapted, OptState]:
            adapted, opt = loop
            step, opt = optimiser.update(jax.grad(loss)(adapted), opt)
            return optax.apply_updates(adapted, step), opt

        start = (adapted, optimiser.init(adapted))
        result: Adapted = jax.lax.fori_loop(0, num_steps, one_step, start)[0]
        return result
