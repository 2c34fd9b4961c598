"""The recurrent encoder against loops: its cell, its unrolling, its belief."""

import jax
import jax.numpy as jnp
import numpy as np

from idaq.nets import vae
from tests import baseline_oracles, oracles
from tests.learners.setting import in_float64, shaken

ENCODER = shaken(vae.init_encoder(jax.random.key(0), 3, 2, 4, 5, 2), seed=1)
DECODER = shaken(vae.init_decoder(jax.random.key(1), 3, 2, (6,), 2), seed=2)
RNG = np.random.default_rng(0)
OBS, ACTION, REWARD = (
    jnp.asarray(RNG.normal(size=(2, 7, *shape)), jnp.float32) for shape in ((3,), (2,), ())
)
VALID = jnp.asarray([[1, 1, 1, 0, 1, 1, 0], [1, 1, 1, 1, 1, 1, 1]], bool)


def expected_memories(row: int) -> list[oracles.Floats]:
    """The memory before and after every step, those that did not take place left out."""
    encoder = in_float64(ENCODER)
    memory = np.zeros(5)
    memories = [memory]
    for step in range(7):
        if VALID[row, step]:
            seen = [*OBS[row, step], *ACTION[row, step], REWARD[row, step]]
            embedded = np.maximum(oracles.mlp(encoder.embed, [float(x) for x in seen]), 0.0)
            projected = embedded @ encoder.inputs + encoder.bias
            memory = baseline_oracles.gru(memory, projected, encoder.memory, encoder.memory_bias)
        memories.append(memory)
    return memories


def test_the_memory_is_a_grus_after_every_step() -> None:
    memories = vae.unroll(ENCODER, OBS, ACTION, REWARD, VALID)
    assert memories.shape == (2, 8, 5)
    for row in range(2):
        assert oracles.agree(memories[row], expected_memories(row))


def test_advancing_step_by_step_is_unrolling() -> None:
    memory = vae.no_memory(ENCODER)
    memories = vae.unroll(ENCODER, OBS, ACTION, REWARD, VALID)
    np.testing.assert_array_equal(memory, memories[1, 0])
    for step in range(7):
        memory = vae.advance(ENCODER, memory, OBS[1, step], ACTION[1, step], REWARD[1, step])
        np.testing.assert_allclose(memory, memories[1, step + 1], rtol=1e-5, atol=1e-6)


def test_the_belief_is_linear_in_the_memory_and_bounded() -> None:
    memory = jnp.asarray(RNG.normal(size=5), jnp.float32)
    outputs = oracles.mlp(in_float64(ENCODER).head, np.asarray(memory, np.float64).tolist())
    mean, log_variance = vae.belief(ENCODER, memory)
    assert oracles.agree(mean, outputs[:2])
    assert oracles.agree(log_variance, outputs[2:])
    _, extreme = vae.belief(ENCODER, 1e4 * memory)
    assert extreme.min() >= vae.LOG_VARIANCE_MIN
    assert extreme.max() <= vae.LOG_VARIANCE_MAX


def test_the_decoder_sees_task_state_action_and_next_state() -> None:
    latent, next_obs = jnp.asarray([0.3, -1.0]), OBS[1, 1]
    decoded = vae.decode(DECODER, latent, OBS[0, 0], ACTION[0, 0], next_obs)
    inputs = [float(x) for x in (*latent, *OBS[0, 0], *ACTION[0, 0], *next_obs)]
    assert oracles.agree(decoded, oracles.mlp(in_float64(DECODER), inputs)[0])
