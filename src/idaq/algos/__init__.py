"""Meta-training algorithms behind one contract (`idaq.algos.base`)."""

from idaq.algos.base import Algorithm
from idaq.algos.focal import Config, Focal
from idaq.types import Spec


def make_algorithm(config: Config, spec: Spec) -> Algorithm:
    """The algorithm of a configuration."""
    return Focal(config, spec)
