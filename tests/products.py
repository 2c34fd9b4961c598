"""The matrix products of a compiled program, counted in its text."""

import math
import re
from typing import Any

import jax

from idaq.algos.base import Algorithm
from idaq.bench.speed.measure import random_data
from idaq.engine.train import one_seed

SHAPE = re.compile(r"%?([\w.\-]+) = f32\[([\d,]*)\]")
DOT = re.compile(
    r"= f32\[([\d,]*)\][^=]*? dot\((?:f32\[[\d,]*\]\S* )?%([\w.\-]+), .*?"
    r"lhs_contracting_dims=\{(\d+)\}"
)


def products_of_update(algorithm: Algorithm) -> int:
    """Operations of all matrix products in the compiled update of an algorithm."""
    data, key = one_seed(random_data(algorithm.spec), 0), jax.random.key(0)
    state = jax.eval_shape(algorithm.init, data, key)
    return products_in(jax.jit(algorithm.update).lower(state, data, key).compile())


def products_in(program: Any) -> int:
    """Operations of all matrix products of a compiled program."""
    text = str(program.as_text())
    shapes = dict(SHAPE.findall(text))
    products = [
        2 * math.prod(numbers(out)) * numbers(shapes[left])[int(axis)]
        for out, left, axis in DOT.findall(text)
    ]
    return sum(products)


def numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]
