"""Adaptation of an agent that acts as it believes, in every combination of options."""

from functools import cache
from typing import Any

import numpy as np

from idaq.engine.meta_test import Results
from idaq.settings import AdaptConfig
from tests import fakes

# one task per target and one prior per seed; on a grid, so that means are exact
TARGETS = ((0.0, 0.0), (2.0, 1.0), (-3.0, 0.5), (0.25, -2.0), (5.0, 5.0), (-1.0, -1.0))
PRIORS = [(np.random.default_rng(seed).integers(-24, 25, (8, 2)) / 8.0) for seed in range(3)]
OFFSETS = (0.5, -1.0, 0.25)  # mean size 7/12, largest gap 1.5
NOISY = fakes.Targets(TARGETS, noise=2.0)
EXACT = fakes.Targets(TARGETS)

CASES: dict[str, tuple[str, fakes.Targets, dict[str, Any]]] = {
    "paper": ("idaq-return", EXACT, {"keep_percent": 25.0}),
    "paper, half kept": ("idaq-return", NOISY, {"keep_percent": 50.0}),
    "threshold, best": ("idaq-return", NOISY, {"keep_percent": 50.0, "final": "best"}),
    "improvement": ("idaq-return", NOISY, {"keep_percent": 50.0, "accept": "improvement"}),
    "released": (
        "idaq-return",
        EXACT,
        {"keep_percent": 25.0, "accept": "improvement", "final": "best", "reference": "prior"},
    ),
    "two episodes each": (
        "idaq-return",
        NOISY,
        {"keep_percent": 50.0, "episodes_per_hypothesis": 2, "num_iterative_episodes": 5},
    ),
    "two episodes each, best": (
        "idaq-return",
        NOISY,
        {
            "keep_percent": 40.0,
            "episodes_per_hypothesis": 2,
            "num_reference_episodes": 6,
            "num_iterative_episodes": 5,
            "accept": "improvement",
            "final": "best",
        },
    ),
    "untried": (
        "idaq-return",
        EXACT,
        {"keep_percent": 25.0, "iterate": "untried", "num_iterative_episodes": 7},
    ),
    "untried, best": (
        "idaq-return",
        NOISY,
        {
            "keep_percent": 25.0,
            "iterate": "untried",
            "accept": "improvement",
            "final": "best",
            "episodes_per_hypothesis": 2,
            "num_iterative_episodes": 5,
        },
    ),
    "search": (
        "idaq-return",
        EXACT,
        {"keep_percent": 25.0, "iterate": "search", "num_iterative_episodes": 5},
    ),
    "search, best": (
        "idaq-return",
        NOISY,
        {
            "keep_percent": 25.0,
            "iterate": "search",
            "accept": "improvement",
            "final": "best",
            "episodes_per_hypothesis": 2,
            "num_iterative_episodes": 5,
        },
    ),
    "search by prediction error": (
        "idaq-prediction-error",
        EXACT,
        {"keep_percent": 25.0, "iterate": "search", "num_iterative_episodes": 5},
    ),
    "no iteration": ("idaq-return", NOISY, {"num_iterative_episodes": 1}),
    "prediction error": ("idaq-prediction-error", EXACT, {"keep_percent": 50.0}),
    "prediction error, best": (
        "idaq-prediction-error",
        EXACT,
        {"keep_percent": 50.0, "final": "best"},
    ),
    "prediction variance": ("idaq-prediction-variance", EXACT, {"keep_percent": 25.0}),
}


def options(**changes: Any) -> AdaptConfig:
    defaults: dict[str, Any] = {
        "num_reference_episodes": 4,
        "num_iterative_episodes": 4,
        "reference": "farthest-first",
    }
    return AdaptConfig(**(defaults | changes))


@cache
def results(case: str) -> Results:
    method, family, changes = CASES[case]
    agents = [fakes.agent(prior, OFFSETS) for prior in PRIORS]
    return fakes.adapt(method, options(**changes), family, agents)


@cache
def posterior(case: str) -> Results:
    """Posterior sampling with the options of a case."""
    _, family, changes = CASES[case]
    agents = [fakes.agent(prior, OFFSETS) for prior in PRIORS]
    return fakes.adapt("posterior", options(**changes), family, agents)
