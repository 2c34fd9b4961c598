"""How many floating-point operations one meta-update needs: matrix products alone.

A product of [n, a] and [a, b] is 2 n a b operations. A network that is trained needs its forward
pass, the gradient of its weights (as much again) and the gradient of its hidden layers (all but
the first layer's share); one that only passes a gradient on to the action needs the forward pass,
the hidden layers' gradient and the action's columns of the first layer. Forward passes that
several losses share count once, and nothing that is thrown away counts.

MACAW differentiates through a gradient. With F the forward pass and F1 its first layer's share, the
derivative of a loss's gradient along a direction, which is what the outer loop needs, takes
6 F - 4 F1: two products in place of each of the gradient's own, but for those of the inputs.
"""

from dataclasses import replace
from itertools import pairwise

from idaq.algos.base import Algorithm
from idaq.algos.borel import Borel, BorelConfig
from idaq.algos.focal import ContextConfig
from idaq.algos.macaw.inner import MacawConfig
from idaq.algos.op_cl import OpClConfig
from idaq.behaviour.sac import Sac
from idaq.learners.bc import BcConfig
from idaq.learners.sac_brac import SacBracConfig
from idaq.learners.td3_bc import Td3BcConfig
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
        self.through_gradient = 6 * self.forward - 4 * layers[0]
        self.num_weights = sum(layers) // 2 + sum(hidden) + outputs
        self._first_width = (*hidden, outputs)[0]

    def to_action(self, action_dim: int) -> int:
        """Forward, and a gradient for the action alone."""
        return self.forward + self.hidden_gradient + self.to_inputs(action_dim)

    def to_inputs(self, columns: int) -> int:
        """The gradient of some of the inputs, where that of the first layer is there."""
        return 2 * columns * self._first_width


def update_flops(algorithm: Algorithm) -> int:
    """One update of any algorithm, in its phase."""
    config, spec = algorithm.config, algorithm.spec
    if isinstance(config, MacawConfig):
        return _macaw(config, spec)
    if isinstance(algorithm, Borel):
        is_first = algorithm.phase == "vae"
        return _borel_vae(config, spec) if is_first else _borel_policy(config, spec)
    return agent_flops(config, spec) + ensemble_flops(config, spec)


def agent_flops(config: ContextConfig, spec: Spec) -> int:
    """Encoder and offline learner, one update."""
    rows = config.meta_batch_size * config.batch_size
    context_rows = config.meta_batch_size * config.context_size
    is_op_cl = isinstance(config, OpClConfig)
    outputs = 2 * config.latent_dim if is_op_cl else config.latent_dim
    encoder = _Network(spec.obs_dim + spec.action_dim + 1, config.encoder_hidden, outputs)
    per_row = _learner(config.learner, spec, config.latent_dim)
    if is_op_cl:  # Q's loss also has a gradient for z
        inputs = spec.obs_dim + config.latent_dim + spec.action_dim
        per_row += 2 * _Network(inputs, config.learner.hidden, 1).to_inputs(config.latent_dim)
    return context_rows * encoder.train + rows * per_row


def _learner(config: SacBracConfig | Td3BcConfig | BcConfig, spec: Spec, latent: int) -> int:
    """A learner's update, per row."""
    if isinstance(config, SacBracConfig):
        return _sac_brac(config, spec, latent)
    if isinstance(config, BcConfig):
        return _Network(spec.obs_dim + latent, config.hidden, spec.action_dim).train
    return _td3_bc(config, spec, latent)


def ensemble_flops(config: ContextConfig, spec: Spec) -> int:
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


def _macaw(config: MacawConfig, spec: Spec) -> int:
    policy = _Network(spec.obs_dim, config.hidden, spec.action_dim)
    value = _Network(spec.obs_dim, config.hidden, 1)
    features = config.hidden[-1]
    head = _Network(features + spec.action_dim, config.advantage_hidden, 1)
    inner = value.train + value.forward + policy.train  # V's step, advantages, the policy's step
    inner += head.forward + head.hidden_gradient + head.to_inputs(features)
    inner += value.through_gradient + policy.through_gradient
    inner += 4 * head.forward  # through the head's part of the gradient, and its own
    outer = value.train + policy.train
    rows = config.inner_batch_size * inner + config.outer_batch_size * outer
    emitted = 2 * config.code_dim * (policy.num_weights + value.num_weights)
    # emitting once; per task a product with the map each way; for all of them the two gradients
    return config.meta_batch_size * (rows + 6 * emitted) + 3 * emitted


def _gru(config: BorelConfig, spec: Spec) -> tuple[int, int]:
    """Per step: the forward pass, and how much of it the first layer is."""
    embed = 2 * (spec.obs_dim + spec.action_dim + 1) * config.embed_dim
    return embed + 2 * 3 * config.memory_dim * (config.embed_dim + config.memory_dim), embed


def _borel_vae(config: BorelConfig, spec: Spec) -> int:
    steps = config.sequence_episodes * spec.horizon
    gru, embed = _gru(config, spec)
    head = 2 * config.memory_dim * 2 * config.latent_dim
    encoder = steps * (3 * gru - embed) + (steps + 1) * 3 * head
    inputs = config.latent_dim + 2 * spec.obs_dim + spec.action_dim
    decoder = _Network(inputs, config.decoder_hidden, 1)
    prefixes = min(config.elbo_prefixes or steps + 1, steps + 1)
    decoded = prefixes * min(config.decoded_steps or steps, steps)
    per_pair = decoder.train + decoder.to_inputs(config.latent_dim)
    return config.meta_batch_size * (encoder + decoded * per_pair)


def _borel_policy(config: BorelConfig, spec: Spec) -> int:
    steps = config.sequence_episodes * spec.horizon
    belief = steps * _gru(config, spec)[0] + (steps + 1) * 4 * config.memory_dim * config.latent_dim
    augmented = replace(spec, obs_dim=spec.obs_dim + 2 * config.latent_dim)
    learner = _learner(config.learner, augmented, 0)
    return config.meta_batch_size * belief + config.batch_size * learner
