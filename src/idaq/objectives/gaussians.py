"""PEARL's posterior, a product of Gaussian factors, trained through Q, a divergence and a metric.

The encoder gives a Gaussian per transition, and a context's posterior q(z|c) is their product. The
losses are that of the Q functions, which see a sample of z; the divergence of the posterior from
N(0, I); and FOCAL's metric loss over the samples of a meta-batch.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import optax

from idaq.learners.losses import gaussian_kl, metric_loss
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
    Transition,
    Vector,
)


@dataclass(frozen=True, kw_only=True)
class ProductOfGaussians(Objective):
    """A hypothesis is the *mean* of a posterior; the learner is given a sample."""

    metric_weight: float
    kl_weight: float
    q_weight: float
    critic_hidden: tuple[int, ...]

    def init(self, key: Key) -> tuple[Params, OptState]:
        encoder = self.encoder.init(key, 2 * self.encoder.latent_dim)
        return encoder, optax.adam(self.encoder.learning_rate).init(encoder)

    def update(self, params: Params, opt: OptState, meta: MetaBatch, learner: LearnerView) -> Step:
        rows_per_task = meta.batch.reward.shape[0] // meta.tasks.shape[0]

        def loss(encoder: mlp.Layers) -> tuple[Scalar, tuple[Embeddings, Metrics]]:
            mean, variance = context.posterior(encoder, self.encoder.inputs(meta.contexts))
            noise = jax.random.normal(meta.key, mean.shape)
            z = mean + jnp.sqrt(variance) * noise  # [num_tasks, latent_dim]
            metric = self.metric_weight * metric_loss(z, meta.tasks)
            kl = self.kl_weight * gaussian_kl(mean, jnp.log(variance)).mean()

            # the learner's own Q loss at the same target; what both compute is compiled once
            each_z = jnp.repeat(z, rows_per_task, axis=0)
            q = self.q_weight * learner.q_loss(meta.batch, each_z, meta.learner_key)
            spread = jnp.sqrt(variance).mean()
            metrics = {"metric_loss": metric, "kl_loss": kl, "posterior_std": spread}
            return metric + kl + q, (z, metrics)

        params, opt, (z, metrics) = descend(loss, params, opt, self.encoder.learning_rate)
        return Step(params, opt, z, metrics)

    def embed(self, encoder: mlp.Layers, rows: Transition, weight: Vector) -> Hypothesis:
        return context.posterior(encoder, self.encoder.inputs(rows), weight)[0]

    def operations(self, num_tasks: int, context_rows: int, batch_rows: int) -> int:
        """The encoder's, and Q's gradient for z; the rest of Q's loss is counted in the learner."""
        spec, latent = self.encoder.spec, self.encoder.latent_dim
        q = Operations(spec.obs_dim + latent + spec.action_dim, self.critic_hidden, 1)
        through_q = batch_rows * 2 * q.to_inputs(latent)
        return context_rows * self.encoder.operations(2 * latent) + through_q
