"""What an objective is: how a context encoder is trained, and what it makes of a context.

An objective is a frozen dataclass with pure functions. It owns whatever it trains: the encoder,
further networks of its own, and their optimisers, in two pytrees that it alone looks into. It may
train the encoder for a while before the learner sees it (`num_pretraining_updates`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import jax
import optax

from idaq.learners.base import AnyLearner, LearnerConfig
from idaq.nets import context, mlp
from idaq.nets.operations import Operations
from idaq.types import (
    Embeddings,
    Hypothesis,
    Key,
    Metrics,
    OptState,
    Params,
    Places,
    PyTree,
    Scalar,
    Spec,
    Transition,
    Vector,
)

Beside = TypeVar("Beside")


class MetaBatch(NamedTuple):
    """What one update is made from, in the networks' units."""

    tasks: Places  # [num_tasks], drawn with replacement
    contexts: Transition  # [num_tasks, context_size, ...]
    batch: Transition  # [num_tasks * batch_size, ...], the learner's first batch, task by task
    key: Key  # the objective's own
    learner_key: Key  # what the learner is updated with


class LearnerView(NamedTuple):
    """The learner as it is before its update, for objectives that train through its critic."""

    entry: AnyLearner
    config: LearnerConfig
    state: PyTree

    def q_loss(self, batch: Transition, z: Embeddings, key: Key) -> Scalar:
        """Q's own loss with a gradient for z [n, latent_dim]; the target has none."""
        critic = self.entry.critic
        assert critic is not None, "an objective that needs a critic says so"
        detached = jax.lax.stop_gradient(z)
        target = critic.target(self.config, self.state, batch, detached, key)
        return critic.loss(self.state.q, batch, z, target)


class Step(NamedTuple):
    """The result of an objective's update."""

    params: Params
    opt: OptState
    z: Embeddings  # [num_tasks, latent_dim], what the learner is given
    metrics: Metrics


@dataclass(frozen=True, kw_only=True)
class EncoderSettings:
    """The context encoder, bound to a family's spec."""

    spec: Spec
    latent_dim: int
    hidden: tuple[int, ...]
    learning_rate: float
    next_obs: bool = False  # whether it sees (s, a, r, s') instead of (s, a, r)

    def init(self, key: Key, num_outputs: int | None = None) -> mlp.Layers:
        """A fresh network; `num_outputs` is the latent dimension unless it is given."""
        sizes = (self.spec.obs_dim, self.spec.action_dim, self.hidden)
        return context.init(key, *sizes, num_outputs or self.latent_dim, self.next_obs)

    def inputs(self, rows: Transition) -> context.Inputs:
        """What the network sees of transitions [..., ·]."""
        seen = rows.next_obs if self.next_obs else None
        return context.Inputs(rows.obs, rows.action, rows.reward, seen)

    def operations(self, num_outputs: int | None = None) -> int:
        """Floating-point operations of training it, per transition."""
        seen = self.spec.obs_dim * (1 + self.next_obs) + self.spec.action_dim + 1
        return Operations(seen, self.hidden, num_outputs or self.latent_dim).train


@dataclass(frozen=True, kw_only=True)
class Objective(ABC):
    """The base of all objectives."""

    encoder: EncoderSettings

    @property
    def num_pretraining_updates(self) -> int:
        """The updates at the start in which the objective alone is trained, by `pretrain`."""
        return 0

    @abstractmethod
    def init(self, key: Key) -> tuple[Params, OptState]:
        """Fresh parameters and optimiser states."""

    @abstractmethod
    def update(self, params: Params, opt: OptState, meta: MetaBatch, learner: LearnerView) -> Step:
        """One step; z comes from the encoder as it was before."""

    def pretrain(
        self, params: Params, opt: OptState, meta: MetaBatch
    ) -> tuple[Params, OptState, Metrics]:
        """One step of the pretraining phase, for objectives that have one."""
        raise NotImplementedError(f"{type(self).__name__} has no phase before the learner's")

    def trained_encoder(self, params: Params) -> Params:
        """What an agent takes along."""
        return params

    @abstractmethod
    def embed(self, encoder: Params, rows: Transition, weight: Vector) -> Hypothesis:
        """The hypothesis of one context [n, ...]; `weight` [n] leaves out padding."""

    def operations(self, num_tasks: int, context_rows: int, batch_rows: int) -> int | None:
        """Floating-point operations of an update, where they are counted."""
        return None

    def pretraining_operations(
        self, num_tasks: int, context_rows: int, batch_rows: int
    ) -> int | None:
        """The same of an update in the pretraining phase."""
        return None


def descend(
    loss: Callable[[Params], tuple[Scalar, Beside]],
    params: Params,
    opt: OptState,
    learning_rate: float,
) -> tuple[Params, OptState, Beside]:
    """One step of Adam: new parameters, new optimiser state, and the loss's other output."""
    (_, beside), grad = jax.value_and_grad(loss, has_aux=True)(params)
    step, opt = optax.adam(learning_rate).update(grad, opt)
    return optax.apply_updates(params, step), opt, beside
