"""Where the time of a program goes, by kind of operation."""

import jax
import jax.numpy as jnp

from idaq.bench.speed.profile import KINDS, kinds_of, seconds_by_kind

PROGRAM = """
HloModule example

%fused_product (a: f32[8,4], b: f32[4,2]) -> f32[8,2] {
  %a = f32[8,4]{1,0} parameter(0)
  %b = f32[4,2]{1,0} parameter(1)
  %dot.1 = f32[8,2]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT %maximum.1 = f32[8,2]{1,0} maximum(%dot.1, %dot.1)
}

%fused_copy (a: f32[8,2]) -> f32[2,8] {
  %a = f32[8,2]{1,0} parameter(0)
  ROOT %transpose.1 = f32[2,8]{1,0} transpose(%a), dimensions={1,0}
}

ENTRY %main (x: f32[8,4], y: f32[4,2]) -> (f32[2,8], f32[8,2]) {
  %x = f32[8,4]{1,0} parameter(0)
  %y = f32[4,2]{1,0} parameter(1)
  %fusion.1 = f32[8,2]{1,0} fusion(%x, %y), kind=kLoop, calls=%fused_product
  %fusion.2 = f32[2,8]{1,0} fusion(%fusion.1), kind=kLoop, calls=%fused_copy
  %add.7 = f32[8,2]{1,0} add(%fusion.1, %fusion.1)
  %while.3 = (f32[8,2]{1,0}, s32[]) while(%x), condition=%fused_copy, body=%fused_product
  ROOT %tuple.1 = (f32[2,8]{1,0}, f32[8,2]{1,0}) tuple(%fusion.2, %add.7)
}
"""


def test_a_fusion_is_what_it_costs_most_for() -> None:
    kinds = kinds_of(PROGRAM)
    assert kinds["fusion.1"] == "products", "also where other operations are fused with it"
    assert kinds["fusion.2"] == "moving"
    assert kinds["add.7"] == "elementwise"
    assert "while.3" not in kinds, "what runs in it is counted already"


def test_the_time_of_a_running_program() -> None:
    def loop(x: jax.Array, places: jax.Array) -> jax.Array:
        def body(_: int, x: jax.Array) -> jax.Array:
            return jnp.tanh(x @ x)[places] + 1.0

        result: jax.Array = jax.lax.fori_loop(0, 20, body, x)
        return result

    x, places = jnp.ones((400, 400)), jnp.arange(400)[::-1]
    program = jax.jit(loop).lower(x, places).compile()
    text = program.as_text()
    assert text
    seconds = seconds_by_kind(lambda: program(x, places), text)
    assert list(seconds) == [*KINDS, "other"]
    assert seconds["products"] > 0.0
    assert seconds["elementwise"] + seconds["sampling"] > 0.0
