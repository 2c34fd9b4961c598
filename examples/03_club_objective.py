"""An objective of your own: FOCAL's metric loss, and a price on revealing the logging policy.

An encoder may tell the training tasks apart by how their loggers act instead of by what the tasks
do. CSRO (Gao et al., 2023) penalises that: a second network guesses the embedding of a
transition from (s, a) alone, and the encoder is charged a bound (CLUB; Cheng et al., 2020) on the
mutual information of embeddings and (s, a). The second network has an optimiser of its own, and
the encoder sees (s, a, r, s').

    python examples/03_club_objective.py run point-robot --algorithm club

docs/extending/objective.md says what an objective must offer. Where it departs from CSRO's released
code: its other half, exploring with random actions, is a matter of adaptation and not done here;
the negative pairs' mean is taken in closed form.
"""

import sys
from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
import optax

import idaq
from idaq.algos.context_based import MetricConfig
from idaq.algos.entries import ObjectiveEntry
from idaq.config import require
from idaq.learners.losses import metric_loss
from idaq.nets import context, mlp
from idaq.nets.operations import Operations
from idaq.objectives.base import LearnerView, MetaBatch, Objective, Step, descend
from idaq.types import (
    Embeddings,
    Hypothesis,
    Key,
    Metrics,
    OptState,
    Params,
    Scalar,
    Spec,
    Transition,
    Vector,
)


@dataclass(frozen=True, kw_only=True)
class Club(Objective):
    """Embeddings are means, as in FOCAL."""

    metric_weight: float
    club_weight: float

    def init(self, key: Key) -> tuple[Params, OptState]:
        encoder_key, guesser_key = jax.random.split(key)
        spec, latent = self.encoder.spec, self.encoder.latent_dim
        sizes = (spec.obs_dim + spec.action_dim, *self.encoder.hidden, 2 * latent)
        params = {
            "encoder": self.encoder.init(encoder_key),
            "guesser": mlp.init(guesser_key, sizes),
        }
        fresh = optax.adam(self.encoder.learning_rate).init
        return params, {name: fresh(network) for name, network in params.items()}

    def update(self, params: Params, opt: OptState, meta: MetaBatch, learner: LearnerView) -> Step:
        inputs = self.encoder.inputs(meta.contexts)
        seen = jnp.concatenate([inputs.obs, inputs.action], axis=-1)
        rate = self.encoder.learning_rate

        # --- Update the network that guesses embeddings from (s, a) ---
        logged = jax.lax.stop_gradient(context.embed_transitions(params["encoder"], inputs))

        def guesser_loss(guesser: mlp.Layers) -> tuple[Scalar, Scalar]:
            mean, variance = guess(guesser, seen)
            loss = 0.5 * (jnp.square(logged - mean) / variance + jnp.log(variance)).sum(-1).mean()
            return loss, loss

        guesser, guesser_opt, guessing = descend(
            guesser_loss, params["guesser"], opt["guesser"], rate
        )

        # --- Update the encoder: tell tasks apart, but not by (s, a) ---
        mean, variance = guess(guesser, seen)

        def encoder_loss(encoder: mlp.Layers) -> tuple[Scalar, tuple[Embeddings, Metrics]]:
            each = context.embed_transitions(encoder, inputs)  # [num_tasks, n, latent_dim]
            z = each.mean(axis=1)
            metric = self.metric_weight * metric_loss(z, meta.tasks)
            club = self.club_weight * club_bound(each, mean, variance)
            return metric + club, (z, {"metric_loss": metric, "club_loss": club})

        encoder, encoder_opt, (z, metrics) = descend(
            encoder_loss, params["encoder"], opt["encoder"], rate
        )
        return Step(
            params={"encoder": encoder, "guesser": guesser},
            opt={"encoder": encoder_opt, "guesser": guesser_opt},
            z=z,
            metrics=metrics | {"guesser_loss": guessing},
        )

    def trained_encoder(self, params: Params) -> Params:
        """The guesser stays behind."""
        return params["encoder"]

    def embed(self, encoder: Params, rows: Transition, weight: Vector) -> Hypothesis:
        return context.embed_context(encoder, self.encoder.inputs(rows), weight)

    def operations(self, num_tasks: int, context_rows: int, batch_rows: int) -> int:
        """Of both networks; the guesser guesses once more, after its step."""
        spec, latent = self.encoder.spec, self.encoder.latent_dim
        guesser = Operations(spec.obs_dim + spec.action_dim, self.encoder.hidden, 2 * latent)
        return context_rows * (self.encoder.operations() + guesser.train + guesser.forward)


def guess(guesser: mlp.Layers, seen: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Mean and variance of a transition's embedding, each [..., latent_dim], from (s, a)."""
    mean, spread = jnp.split(jnp.tanh(mlp.apply(guesser, seen)), 2, axis=-1)
    return mean, jax.nn.softplus(spread)


def club_bound(each: jax.Array, mean: jax.Array, variance: jax.Array) -> Scalar:
    """How much better embeddings [num_tasks, n, latent_dim] fit the guesses of their own (s, a).

    Better than those of the task's other (s, a), that is: the mean of (z_l - m_k)^2 over all l is
    (mean of z - m_k)^2 + variance of z.
    """
    own = jnp.square(each - mean)
    others = jnp.square(each.mean(axis=1, keepdims=True) - mean) + each.var(axis=1, keepdims=True)
    return ((others - own) / variance).sum(axis=-1).mean()


@dataclass(frozen=True, kw_only=True)
class ClubConfig(MetricConfig):
    """FOCAL's settings, and the weight of the bound."""

    kind: Literal["club"] = "club"
    next_obs: bool = True
    club_weight: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "club_weight", least=0)


def make_objective(config: ClubConfig, spec: Spec) -> Club:
    return Club(
        encoder=config.encoder(spec),
        metric_weight=config.metric_weight,
        club_weight=config.club_weight,
    )


ENTRY = ObjectiveEntry(name="club", label="FOCAL+CLUB", config=ClubConfig, make=make_objective)
idaq.register(ENTRY)

if __name__ == "__main__":
    from idaq.cli import main

    sys.exit(main())
