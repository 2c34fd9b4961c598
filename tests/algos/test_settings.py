"""The algorithms' settings: what they are unless they are told, and what is refused."""

from typing import Any

import pytest

from idaq.algos.borel.algorithm import BorelConfig
from idaq.algos.entries import make_algorithm
from idaq.algos.focal import FocalConfig
from idaq.algos.macaw.inner import MacawConfig
from idaq.algos.op_cl import OpClConfig
from idaq.config import to_dict
from idaq.errors import IdaqError
from idaq.judges.ensemble import EnsembleConfig
from idaq.learners.bc import BcConfig
from idaq.learners.sac_brac import SacBracConfig
from idaq.settings import AdaptConfig
from tests import tiny
from tests.bounds import LAYERS, MOST_LAYERS, Bound, above_zero, check, real, whole

CONTEXT: dict[str, Any] = {  # Appendix C
    "latent_dim": 20,
    "encoder_hidden": [200, 200, 200],
    "encoder_learning_rate": 3e-4,
    "metric_weight": 10.0,
    "meta_batch_size": 16,
    "batch_size": 256,
    "context_size": 400,
    "context_shift": 0.0,
    "hide_unrelated": False,
    "normalise": False,
    "std_floor": 0.05,
    "learner": to_dict(SacBracConfig()),
    "ensemble": None,
}
DEFAULTS: list[tuple[type, dict[str, Any]]] = [
    (EnsembleConfig, {"size": 4, "hidden": [200, 200, 200], "learning_rate": 3e-4}),
    (FocalConfig, CONTEXT | {"kind": "focal"}),
    (OpClConfig, CONTEXT | {"kind": "op-cl", "kl_weight": 0.1, "q_weight": 1.0}),
    (
        MacawConfig,  # Mitchell et al. (2021)
        {
            "kind": "macaw",
            "hidden": [100, 100, 100],
            "code_dim": 100,
            "action_std": 0.2,
            "temperature": 1.0,
            "max_weight": 20.0,
            "advantage_hidden": [32],
            "advantage_weight": 0.01,
            "inner_rate": 1e-3,
            "rate_learning_rate": 1e-3,
            "policy_learning_rate": 1e-4,
            "value_learning_rate": 1e-5,
            "meta_batch_size": 5,
            "inner_batch_size": 256,
            "outer_batch_size": 256,
            "discount": 0.99,
            "hide_unrelated": False,
            "normalise": False,
            "std_floor": 0.05,
        },
    ),
    (
        BorelConfig,  # Dorfman et al. (2021)
        {
            "kind": "borel",
            "latent_dim": 5,
            "embed_dim": 32,
            "memory_dim": 128,
            "decoder_hidden": [32, 32],
            "kl_weight": 0.05,
            "vae_learning_rate": 3e-4,
            "vae_updates": 20_000,
            "meta_batch_size": 16,
            "sequence_episodes": 2,
            "elbo_prefixes": 0,
            "decoded_steps": 0,
            "batch_size": 256,
            "relabel": False,
            "relabel_share": 0.5,
            "hide_unrelated": False,
            "normalise": False,
            "std_floor": 0.05,
            "learner": to_dict(SacBracConfig(divergence="none", hidden=(256, 256))),
        },
    ),
]
SIZE = whole(1, MOST_LAYERS)
CONTEXT_BOUNDS = {
    "latent_dim": SIZE,
    "encoder_hidden": LAYERS,
    "encoder_learning_rate": above_zero(1.0),
    "metric_weight": real(0.0),
    "meta_batch_size": SIZE,
    "batch_size": SIZE,
    "context_size": SIZE,
    "context_shift": real(0.0),
    "std_floor": above_zero(),
}
BOUNDS: list[tuple[type, dict[str, Bound]]] = [
    (
        EnsembleConfig,
        {"size": whole(2, 1_000), "hidden": LAYERS, "learning_rate": above_zero(1.0)},
    ),
    (FocalConfig, CONTEXT_BOUNDS),
    (OpClConfig, CONTEXT_BOUNDS | {"kl_weight": real(0.0), "q_weight": real(0.0)}),
    (
        MacawConfig,
        {
            "hidden": LAYERS,
            "advantage_hidden": LAYERS,
            "code_dim": SIZE,
            "meta_batch_size": whole(1),
            "inner_batch_size": whole(1),
            "outer_batch_size": whole(1),
            "action_std": above_zero(),
            "temperature": above_zero(),
            "std_floor": above_zero(),
            "max_weight": real(1.0),
            "advantage_weight": above_zero(),
            "inner_rate": above_zero(),
            "rate_learning_rate": above_zero(1.0),
            "policy_learning_rate": above_zero(1.0),
            "value_learning_rate": above_zero(1.0),
            "discount": real(0.0, 1.0),
        },
    ),
    (
        BorelConfig,
        {
            "latent_dim": SIZE,
            "embed_dim": SIZE,
            "memory_dim": SIZE,
            "decoder_hidden": LAYERS,
            "meta_batch_size": SIZE,
            "batch_size": SIZE,
            "vae_updates": whole(1),
            "sequence_episodes": whole(1),
            "kl_weight": real(0.0),
            "elbo_prefixes": whole(0),
            "decoded_steps": whole(0),
            "vae_learning_rate": above_zero(1.0),
            "relabel_share": real(0.0, 1.0),
            "std_floor": above_zero(),
        },
    ),
]


@pytest.mark.parametrize(("config", "values"), DEFAULTS, ids=lambda x: getattr(x, "__name__", ""))
def test_defaults(config: type, values: dict[str, Any]) -> None:
    assert to_dict(config()) == values


@pytest.mark.parametrize(
    ("config", "name", "bound"),
    [(config, name, bound) for config, bounds in BOUNDS for name, bound in bounds.items()],
)
def test_bounds(config: type, name: str, bound: Bound) -> None:
    check(config, name, bound)


def test_op_cl_needs_a_critic() -> None:
    with pytest.raises(IdaqError, match="through a critic"):
        make_algorithm(OpClConfig(learner=BcConfig()), tiny.SPEC)


@pytest.mark.parametrize(
    ("name", "bound"),
    [("fine_tuning_rate", above_zero(1.0)), ("fine_tuning_steps", whole(0, 10_000))],
)
def test_bounds_of_fine_tuning(name: str, bound: Bound) -> None:
    check(AdaptConfig, name, bound)
