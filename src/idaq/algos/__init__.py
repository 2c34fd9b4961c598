"""Meta-training algorithms behind one contract (`idaq.algos.base`)."""

from idaq.algos.base import Algorithm
from idaq.algos.borel import Borel, BorelConfig
from idaq.algos.focal import Config, Focal
from idaq.algos.macaw.inner import MacawConfig
from idaq.algos.macaw.outer import Macaw
from idaq.algos.op_cl import OpCl, OpClConfig
from idaq.types import Spec

AlgorithmConfig = Config | OpClConfig | MacawConfig | BorelConfig
VERSIONS = {each.name: each.version for each in (Focal, OpCl, Macaw, Borel)}


def make_algorithm(config: AlgorithmConfig, spec: Spec) -> Algorithm:
    """The algorithm of a configuration."""
    match config:
        case BorelConfig():
            return Borel(config, spec)
        case MacawConfig():
            return Macaw(config, spec)
        case OpClConfig():
            return OpCl(config, spec)
        case Config():
            return Focal(config, spec)
