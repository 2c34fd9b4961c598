"""FOCAL's distance metric loss: embeddings of one task together, those of different tasks apart."""

from dataclasses import dataclass

import jax.numpy as jnp
import optax

from idaq.learners.losses import metric_loss
from idaq.nets import context, mlp
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
class Metric(Objective):
    """The encoder is trained by the metric loss alone; an embedding is a mean."""

    weight: float

    def init(self, key: Key) -> tuple[Params, OptState]:
        encoder = self.encoder.init(key)
        return encoder, optax.adam(self.encoder.learning_rate).init(encoder)

    def update(self, params: Params, opt: OptState, meta: MetaBatch, learner: LearnerView) -> Step:
        def loss(encoder: mlp.Layers) -> tuple[Scalar, tuple[Embeddings, Metrics]]:
            embedding = context.embed_context(encoder, self.encoder.inputs(meta.contexts))
            value = self.weight * metric_loss(embedding, meta.tasks)
            return value, (embedding, {"metric_loss": value})

        params, opt, (z, metrics) = descend(loss, params, opt, self.encoder.learning_rate)
        return Step(params, opt, z, metrics)

    def embed(self, encoder: mlp.Layers, rows: Transition, weight: Vector) -> Hypothesis:
        return context.embed_context(encoder, self.encoder.inputs(rows), jnp.asarray(weight))

    def operations(self, num_tasks: int, context_rows: int, batch_rows: int) -> int:
        return context_rows * self.encoder.operations()
