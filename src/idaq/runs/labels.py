"""How algorithms, methods and runs are called in tables and figures: as their entries say."""

from idaq.adapt.methods import METHODS
from idaq.algos.entries import PAPER_METHODS, default_algorithm, label_of


def label_of_method(name: str, algorithm: str = "") -> str:
    """A method's label; results of a name of their own go by that name."""
    if name not in METHODS:
        return name
    return METHODS[name].label.format(algorithm=label_of(algorithm or default_algorithm()))


def method_order(name: str) -> tuple[int, str]:
    """The paper's methods first, in its order; then the others by name."""
    known = PAPER_METHODS.index(name) if name in PAPER_METHODS else len(PAPER_METHODS)
    return known, name


def subject_of(family: str, quality: str, algorithm: str = "") -> str:
    """What a run is about, in words; expert data and the default algorithm go without saying."""
    data = [] if quality == "expert" else [f"{quality} data"]
    is_default = algorithm in ("", default_algorithm())
    return ", ".join([family, *data, *([] if is_default else [algorithm])])
