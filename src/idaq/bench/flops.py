"""How many floating-point operations one meta-update needs: matrix products alone.

A product of [n, a] and [a, b] is 2 n a b operations. A network that is trained needs its forward
pass, the gradient of its weights (as much again) and the gradient of its hidden layers (all but
the first layer's share); one that only passes a gradient on to the action needs the forward pass,
the hidden layers' gradient and the action's columns of the first layer. Forward passes that
several losses share count once, and nothing that is thrown away counts.
"""

from itertools import pairwise

from idaq.algos.bc import BcConfig
from idaq.algos.focal import Config
from idaq.algos.sac import Sac
from idaq.algos.sac_brac import SacBracConfig
from idaq.algos.td3_bc import Td3BcConfig
from idaq.types import Spec


def _layers(inputs: int, hidden: tuple[int, ...], outputs: int) -> list[int]:
    sizes = (inputs, *hidden, outputs)
    return [2 * a * b for a, b in pairwise(sizes)]


class _Network:
    """Operations per row of one fully connected network."""

    def __init__(self, inputs: int, hidden: tuple[int, ...], outputs: int) -> None:
        layers = _layers(inputs, hidden, outputs)
        self.forward = sum(layers)
        self.hidden_gradient = sum(layers[1:])
        self.train = 2 * self.forward + self.hidden_gradient
        self._first_width = hidden[0]

    def to_action(self, action_dim: int) -> int:
        """Forward, and a gradient for the action alone."""
        return self.forward + self.hidden_gradient + 2 * action_dim * self._first_width


def agent_flops(config: Config, spec: Spec) -> int:
    """Encoder and offline learner, one update."""
    rows = config.meta_batch_size * config.batch_size
    context_rows = config.meta_batch_size * config.context_size
    encoder = _Network(spec.obs_dim + spec.action_dim + 1, config.encoder_hidden, config.latent_dim)
    learner = config.learner
    if isinstance(learner, SacBracConfig):
        per_row = _sac_brac(learner, spec, config.latent_dim)
    elif isinstance(learner, BcConfig):
        policy = _Network(spec.obs_dim + config.latent_dim, learner.hidden, spec.action_dim)
        per_row = policy.train
    else:
        per_row = _td3_bc(learner, spec, config.latent_dim)
    return context_rows * encoder.train + rows * per_row


def ensemble_flops(config: Config, spec: Spec) -> int:
    """The reward and dynamics models, one update; 0 without them."""
    if config.ensemble is None:
        return 0
    inputs = spec.obs_dim + config.latent_dim + spec.action_dim
    reward = _Network(inputs, config.ensemble.hidden, 1)
    dynamics = _Network(inputs, config.ensemble.hidden, spec.obs_dim)
    rows = config.meta_batch_size * config.batch_size
    return rows * config.ensemble.size * (reward.train + dynamics.train)


def sac_flops(sac: Sac) -> int:
    """An update of the online learner: critics, their targets, policy."""
    config, action = sac.config, sac.spec.action_dim
    inputs = sac.spec.obs_dim + sac.condition_dim
    policy = _Network(inputs, config.policy_hidden, 2 * action)
    q = _Network(inputs + action, config.critic_hidden, 1)
    per_row = 2 * q.train + 2 * q.forward + policy.forward  # towards the targets
    per_row += policy.train + 2 * q.to_action(action)
    return config.batch_size * per_row


def _sac_brac(config: SacBracConfig, spec: Spec, latent: int) -> int:
    obs, action = spec.obs_dim, spec.action_dim
    policy = _Network(obs + latent, config.hidden, 2 * action)
    q = _Network(obs + latent + action, config.hidden, 1)
    v = _Network(obs + latent, config.hidden, 1)
    total = policy.train + 2 * q.train + v.train
    total += v.forward  # target of Q
    total += 2 * q.to_action(action)  # of the policy's loss; V's target shares the forward pass
    if config.divergence == "kl-dual":
        total += config.dual_steps * 3 * q.train  # at the policy's, the data's, and between
        total += (config.dual_steps - 1) * policy.forward  # actions on fresh batches
        total += q.to_action(action) - q.forward  # the policy's penalty shares the first step's
    return total


def _td3_bc(config: Td3BcConfig, spec: Spec, latent: int) -> int:
    obs, action = spec.obs_dim, spec.action_dim
    policy = _Network(obs + latent, config.hidden, action)
    q = _Network(obs + latent + action, config.hidden, 1)
    return 2 * q.train + policy.train + policy.forward + 2 * q.forward + q.to_action(action)
