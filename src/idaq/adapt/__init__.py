"""Online adaptation methods by name."""

from dataclasses import replace
from difflib import get_close_matches
from typing import cast

from idaq.adapt.base import Adapter
from idaq.adapt.config import AdaptConfig
from idaq.adapt.expert_context import ExpertContext
from idaq.adapt.fine_tuning import FineTuning, GradientAlgorithm
from idaq.adapt.idaq import Idaq
from idaq.adapt.thompson import Belief, Posterior
from idaq.adapt.uncertainty import uncertainties
from idaq.algos.base import Algorithm
from idaq.errors import IdaqError

DEFAULT_METHODS = (
    "idaq-return",
    "idaq-prediction-error",
    "idaq-prediction-variance",
    "posterior",
    "expert-context",
)
IDAQ_PREFIX = "idaq-"
# of algorithms for which the paper's five are not the comparison to make
OTHER_DEFAULTS = {
    "macaw": ("idaq-return", "fine-tuning", "expert-context"),
    "borel": ("belief", "expert-context"),
}
# methods that make sense for some algorithms alone
ONLY_OF = {
    "posterior-zero": ("focal", "op-cl"),
    "fine-tuning": ("macaw",),
    "belief": ("borel",),
}
WITH_MODELS = ("focal", "op-cl")


def method_names() -> tuple[str, ...]:
    """Every method, the uncertainties of installed packages included."""
    idaq = tuple(IDAQ_PREFIX + name for name in uncertainties())
    return (*idaq, "posterior", "posterior-zero", "expert-context", "fine-tuning", "belief")


def methods_of(algorithm: str) -> tuple[str, ...]:
    """The methods that an algorithm's agents can adapt with."""
    return tuple(
        name
        for name in method_names()
        if algorithm in ONLY_OF.get(name, (algorithm,))
        and (algorithm in WITH_MODELS or not needs_models(name))
    )


def default_methods(algorithm: str) -> tuple[str, ...]:
    """The methods that `idaq run` compares unless it is told others."""
    return OTHER_DEFAULTS.get(algorithm, DEFAULT_METHODS)


def check_method_of(algorithm: str, method: str) -> None:
    """Refuse a name that is no method, or no method of the algorithm."""
    check_method(method)
    if method not in methods_of(algorithm):
        raise IdaqError(
            f"'{method}' is no method of the algorithm '{algorithm}'.",
            f"Choose from: {', '.join(methods_of(algorithm))}.",
        )


def check_method(method: str) -> None:
    """Refuse a name that is no method."""
    names = method_names()
    if method not in names:
        close = get_close_matches(method, names, n=1)
        hint = f"Did you mean '{close[0]}'? " if close else ""
        raise IdaqError(
            f"There is no adaptation method '{method}'.", f"{hint}Known: {', '.join(names)}."
        )


def needs_models(method: str) -> bool:
    """Whether a method needs the reward and dynamics ensemble."""
    check_method(method)
    name = method.removeprefix(IDAQ_PREFIX)
    return method.startswith(IDAQ_PREFIX) and uncertainties()[name].needs_models


def make_adapter(method: str, config: AdaptConfig, algorithm: Algorithm) -> Adapter:
    """The adapter of a method."""
    check_method(method)
    if method == "posterior":
        return Posterior(config, algorithm)
    if method == "posterior-zero":
        return Posterior(replace(config, reference="zero"), algorithm)
    if method == "expert-context":
        return ExpertContext(config, algorithm)
    if method == "belief":
        return Belief(config, algorithm)
    if method == "fine-tuning":
        return FineTuning(config, cast(GradientAlgorithm, algorithm))
    uncertainty = uncertainties()[method.removeprefix(IDAQ_PREFIX)]
    return Idaq(config, algorithm, uncertainty)
