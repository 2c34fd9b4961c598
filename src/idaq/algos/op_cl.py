"""OP+CL: offline PEARL (Rakelly et al., 2019) with FOCAL's metric loss; the paper's Appendix C.

The encoder gives a Gaussian per transition, and a context's posterior q(z|c) is their product. It
is trained by three losses: that of the Q functions, which see a sample of z; the divergence of the
posterior from N(0, I); and the metric loss over the samples of a meta-batch ("+CL"). Policy, V,
targets and models see the sample as a constant. All else is FOCAL's.

Where it departs from PEARL:
1. There is no replay: context and batches come from the logged data of the training tasks.
2. A hypothesis is the *mean* of a posterior: those of the training tasks, each from all rows of its
   task, are the prior that adapters choose from, and adapting uses the mean as well. With hundreds
   of factors the product is so narrow that a sample is no different, and hypotheses that can be
   compared are what farthest-first and untried need. Without context the mean is that of N(0, I).
3. The divergence is averaged over the tasks of the meta-batch.
"""

from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp

from idaq.algos.focal import ContextBased, ContextConfig, State
from idaq.config import require
from idaq.errors import IdaqError
from idaq.learners.bc import BcConfig
from idaq.learners.losses import gaussian_kl, metric_loss
from idaq.nets import context
from idaq.types import Array, PyTree, Transition


@dataclass(frozen=True, kw_only=True)
class OpClConfig(ContextConfig):
    """FOCAL's settings, and the weights of the two further losses of the encoder."""

    kind: Literal["op-cl"] = "op-cl"
    kl_weight: float = 0.1
    q_weight: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "kl_weight", "q_weight", least=0)
        if isinstance(self.learner, BcConfig):
            raise IdaqError(
                "OP+CL trains its encoder through a critic, and the learner 'bc' has none.",
                "Choose the learner 'td3-bc' or 'sac-brac'.",
            )


@dataclass(frozen=True)
class OpCl(ContextBased):
    """The algorithm, bound to its configuration and the family's spec."""

    config: OpClConfig
    name: str = "op-cl"
    version: int = 1

    def _encoder_loss(
        self,
        state: State,
        tasks: Array,
        contexts: Transition,
        batch: Transition,
        key: Array,
        learner_key: Array,
        encoder: PyTree,
    ) -> tuple[Any, tuple[Any, dict[str, Any]]]:
        config, learner = self.config, self._learner
        learner_state: Any = state.learner  # one that has a critic
        mean, variance = context.posterior(encoder, *contexts[:3])
        noise = jax.random.normal(jax.random.fold_in(key, 2), mean.shape)
        z = mean + jnp.sqrt(variance) * noise  # [num_tasks, latent_dim]
        metric = config.metric_weight * metric_loss(z, tasks)
        kl = config.kl_weight * gaussian_kl(mean, jnp.log(variance)).mean()

        # the learner's own Q loss at the same target; what both compute is compiled once
        each_z = jnp.repeat(z, config.batch_size, axis=0)
        detached = jax.lax.stop_gradient(each_z)
        target = learner.q_target(config.learner, learner_state, batch, detached, learner_key)
        q = config.q_weight * learner.q_loss(learner_state.q, batch, each_z, target)
        metrics = {"metric_loss": metric, "kl_loss": kl, "posterior_std": jnp.sqrt(variance).mean()}
        return metric + kl + q, (z, metrics)

    def _init_encoder(self, key: Array) -> PyTree:
        sizes = (self.spec.obs_dim, self.spec.action_dim, self.config.encoder_hidden)
        return context.init(key, *sizes, 2 * self.config.latent_dim)

    def _embed(
        self, encoder: PyTree, obs: Array, action: Array, reward: Array, weight: Array
    ) -> Any:
        return context.posterior(encoder, obs, action, reward, weight)[0]
