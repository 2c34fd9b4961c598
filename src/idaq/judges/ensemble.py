"""The ensemble of L reward and dynamics models of Section 4.2 (Appendix B has its loss)."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import optax

from idaq.config import MAX_SIZE, added, require
from idaq.judges.base import JudgeConfig, JudgeEntry, Trained
from idaq.learners.losses import model_loss
from idaq.nets import dynamics
from idaq.nets.operations import Operations
from idaq.types import Array, Embeddings, Hypothesis, Key, Metrics, Scalar, Spec, Transition


@dataclass(frozen=True, kw_only=True)
class EnsembleConfig(JudgeConfig):
    """The reward and dynamics models that prediction error and variance need."""

    kind: Literal["ensemble"] = added("ensemble")
    size: int = 4
    hidden: tuple[int, ...] = (200, 200, 200)
    learning_rate: float = 3e-4

    def __post_init__(self) -> None:
        require(self, "size", least=2, most=1_000)  # a variance needs two
        require(self, "hidden", least=1, most=MAX_SIZE)
        require(self, "learning_rate", above=0, most=1)


class Prediction(NamedTuple):
    """What happened in an episode, and what each of L models expected, in the models' units."""

    reward: Array  # [horizon]
    next_obs: Array  # [horizon, obs_dim]
    rewards: jax.Array  # [L, horizon]
    next_observations: jax.Array  # [L, horizon, obs_dim]
    valid: Array  # [horizon] bool


def init(config: EnsembleConfig, spec: Spec, latent: int, key: Key) -> Trained:
    """Fresh models."""
    sizes = (spec.obs_dim, spec.action_dim, config.hidden, latent)
    ensemble = dynamics.init(key, config.size, *sizes)
    return Trained(ensemble, optax.adam(config.learning_rate).init(ensemble))


def update(
    config: EnsembleConfig, state: Trained, batch: Transition, z: Embeddings, key: Key
) -> tuple[Trained, Metrics]:
    """One step of all models on the same rows."""

    def loss(ensemble: dynamics.Ensemble) -> Scalar:
        rewards, next_observations = dynamics.predict(ensemble, batch.obs, z, batch.action)
        return model_loss(batch.reward, batch.next_obs, rewards, next_observations)

    value, grad = jax.value_and_grad(loss)(state.params)
    step, opt = optax.adam(config.learning_rate).update(grad, state.opt)
    return Trained(optax.apply_updates(state.params, step), opt), {"model_loss": value}


def read(ensemble: dynamics.Ensemble, rows: Transition, valid: Array, z: Hypothesis) -> Prediction:
    """What happened in one episode [horizon, ...], and what the models expected."""
    each_z = jnp.broadcast_to(z, (*rows.obs.shape[:-1], z.size))
    rewards, next_observations = dynamics.predict(ensemble, rows.obs, each_z, rows.action)
    return Prediction(rows.reward, rows.next_obs, rewards, next_observations, valid)


def operations(config: EnsembleConfig, spec: Spec, latent: int) -> int:
    """Floating-point operations of one update, per row of a batch."""
    inputs = spec.obs_dim + latent + spec.action_dim
    reward = Operations(inputs, config.hidden, 1)
    next_obs = Operations(inputs, config.hidden, spec.obs_dim)
    return config.size * (reward.train + next_obs.train)


ENTRY = JudgeEntry(
    name="ensemble",
    label="ensemble of models",
    version=1,
    config=EnsembleConfig,
    init=init,
    update=update,
    read=read,
    operations=operations,
)
