"""The context encoder: a mean over transitions."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from idaq.nets import context
from tests import oracles
from tests.learners.setting import in_float64, shaken

PARAMS = shaken(context.init(jax.random.key(0), 3, 2, (5,), 4), seed=0)
RNG = np.random.default_rng(0)
OBS, ACTION, REWARD = (
    jnp.asarray(RNG.normal(size=shape), jnp.float32) for shape in ((6, 3), (6, 2), (6,))
)
ROWS = [[*np.asarray(OBS[i]), *np.asarray(ACTION[i]), float(REWARD[i])] for i in range(6)]


def test_embedding_is_the_mean_over_state_action_and_reward() -> None:
    actual = context.embed_context(PARAMS, context.Inputs(OBS, ACTION, REWARD))
    assert oracles.agree(actual, oracles.embed_context(in_float64(PARAMS), ROWS))
    swapped = [[*row[3:5], *row[:3], row[5]] for row in ROWS]
    assert not oracles.agree(actual, oracles.embed_context(in_float64(PARAMS), swapped))


@given(st.permutations(range(6)))
def test_order_does_not_matter(order: list[int]) -> None:
    places = jnp.asarray(order)
    shuffled = context.embed_context(
        PARAMS, context.Inputs(OBS[places], ACTION[places], REWARD[places])
    )
    np.testing.assert_allclose(
        shuffled, context.embed_context(PARAMS, context.Inputs(OBS, ACTION, REWARD)), atol=1e-6
    )


@given(st.lists(st.booleans(), min_size=6, max_size=6).filter(any))
def test_weight_leaves_rows_out(kept: list[bool]) -> None:
    weight = jnp.asarray(kept, jnp.float32)
    weighted = context.embed_context(PARAMS, context.Inputs(OBS, ACTION, REWARD), weight)
    alone = [row for row, keep in zip(ROWS, kept, strict=True) if keep]
    assert oracles.agree(weighted, oracles.embed_context(in_float64(PARAMS), alone))


def test_no_row_gives_zero() -> None:
    nothing = context.embed_context(PARAMS, context.Inputs(OBS, ACTION, REWARD), jnp.zeros(6))
    np.testing.assert_array_equal(nothing, 0.0)
