"""The learners' settings: what they are unless they are told, and what is refused."""

from typing import Any

import pytest

from idaq.config import to_dict
from idaq.learners.bc import BcConfig
from idaq.learners.sac_brac import SacBracConfig
from idaq.learners.td3_bc import Td3BcConfig
from tests.bounds import LAYERS, Bound, above_zero, check, real, whole

DEFAULTS: list[tuple[type, dict[str, Any]]] = [
    (
        BcConfig,
        {
            "kind": "bc",
            "hidden": [256, 256],
            "learning_rate": 3e-4,
            "dropout": 0.1,
            "average_rate": 0.005,
        },
    ),
    (
        Td3BcConfig,  # Fujimoto & Gu (2021), with the weights of the two terms equal
        {
            "kind": "td3-bc",
            "hidden": [256, 256],
            "learning_rate": 3e-4,
            "discount": 0.99,
            "target_rate": 0.005,
            "bc_weight": 1.0,
            "target_noise": 0.2,
            "target_noise_max": 0.5,
        },
    ),
    (
        SacBracConfig,  # Appendix C, and FOCAL's released code
        {
            "kind": "sac-brac",
            "hidden": [200, 200, 200],
            "learning_rate": 3e-4,
            "discount": 0.99,
            "reward_scale": 1.0,
            "target_rate": 0.005,
            "divergence": "kl-dual",
            "dual_learning_rate": 1e-4,
            "dual_steps": 3,
            "dual_penalty_weight": 5.0,
            "divergence_target": 0.05,
            "alpha_init": 50.0,
            "alpha_max": 2000.0,
            "mean_regulariser": 1e-3,
            "log_std_regulariser": 1e-3,
        },
    ),
]
BOUNDS: list[tuple[type, dict[str, Bound]]] = [
    (
        BcConfig,
        {
            "hidden": LAYERS,
            "learning_rate": above_zero(1.0),
            "average_rate": above_zero(1.0),
            "dropout": real(0.0, 0.9),
        },
    ),
    (
        Td3BcConfig,
        {
            "hidden": LAYERS,
            "learning_rate": above_zero(1.0),
            "target_rate": above_zero(1.0),
            "discount": real(0.0, 1.0),
            "bc_weight": real(0.0),
            "target_noise": real(0.0),
            "target_noise_max": real(0.0),
        },
    ),
    (
        SacBracConfig,
        {
            "hidden": LAYERS,
            "learning_rate": above_zero(1.0),
            "dual_learning_rate": above_zero(1.0),
            "target_rate": above_zero(1.0),
            "discount": real(0.0, 1.0),
            "reward_scale": above_zero(),
            "dual_steps": whole(1, 1_000),
            "dual_penalty_weight": real(0.0),
            "alpha_init": real(0.0),
            "alpha_max": real(0.0),
            "divergence_target": real(0.0),
            "mean_regulariser": real(0.0),
            "log_std_regulariser": real(0.0),
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
