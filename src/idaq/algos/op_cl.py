"""OP+CL: offline PEARL (Rakelly et al., 2019) with FOCAL's metric loss; the paper's Appendix C.

The encoder gives a Gaussian per transition, and a context's posterior q(z|c) is their product. It
is trained by three losses: that of the Q functions, which see a sample of z; the divergence of the
posterior from N(0, I); and the metric loss over the samples of a meta-batch ("+CL"). Policy, V,
targets and models see the sample as a constant. All else is FOCAL's.

Where it departs from PEARL:
1. There is no replay: context and batches come from the logged data of the training tasks.
2. A hypothesis is the *mean* of a posterior: those of the training tasks, each from all rows of its
   task, are the prior that adapters choose from, and adapting uses the mean as well. With hundreds
   of factors the product is so narrow that a sample is no different, and farthest-first and untried
   need hypotheses that can be compared. Without context the mean is that of N(0, I).
3. The divergence is averaged over the tasks of the meta-batch.
"""

from dataclasses import dataclass
from typing import Literal

from idaq.algos.context_based import MetricConfig
from idaq.algos.entries import ObjectiveEntry, SpeedCase
from idaq.config import require
from idaq.objectives.gaussians import ProductOfGaussians
from idaq.types import Spec


@dataclass(frozen=True, kw_only=True)
class OpClConfig(MetricConfig):
    """FOCAL's settings, and the weights of the two further losses of the encoder."""

    kind: Literal["op-cl"] = "op-cl"
    kl_weight: float = 0.1
    q_weight: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self, "kl_weight", "q_weight", least=0)


def make_objective(config: OpClConfig, spec: Spec) -> ProductOfGaussians:
    """The three losses of the encoder."""
    return ProductOfGaussians(
        encoder=config.encoder(spec),
        metric_weight=config.metric_weight,
        kl_weight=config.kl_weight,
        q_weight=config.q_weight,
        critic_hidden=config.learner.hidden,
    )


ENTRY = ObjectiveEntry(
    name="op-cl",
    label="OP+CL",
    version=1,
    config=OpClConfig,
    make=make_objective,
    needs_critic=True,
    speed_cases=(
        SpeedCase(preset="paper", group="ml1"),
        SpeedCase(preset="default", group="ml1"),
    ),
)
