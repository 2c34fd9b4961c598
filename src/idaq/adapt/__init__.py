"""Online adaptation methods by name."""

from dataclasses import replace
from difflib import get_close_matches

from idaq.adapt.base import Adapter
from idaq.adapt.config import AdaptConfig
from idaq.adapt.expert_context import ExpertContext
from idaq.adapt.idaq import Idaq
from idaq.adapt.thompson import Posterior
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


def method_names() -> tuple[str, ...]:
    """Every method, the uncertainties of installed packages included."""
    idaq = tuple(IDAQ_PREFIX + name for name in uncertainties())
    return (*idaq, "posterior", "posterior-zero", "expert-context")


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
    uncertainty = uncertainties()[method.removeprefix(IDAQ_PREFIX)]
    return Idaq(config, algorithm, uncertainty)
