"""What tables and figures call algorithms, methods and runs: the labels of their entries."""

from collections.abc import Iterable

from idaq.adapt.methods import METHODS
from idaq.adapt.search import SEARCHES
from idaq.algos.entries import PAPER_METHODS, comes_with_idaq, default_algorithm, label_of
from idaq.registry import PLACES, registry_of
from idaq.settings import AdaptConfig

PAPERS_SEARCHES = ("posterior",)  # of the iterative stage: methods that use it go by plain labels
HEADLINE = PAPER_METHODS[0]  # the paper's own method


def label_of_method(name: str, algorithm: str = "") -> str:
    """A method's label; results stored under another name go by that name."""
    if name not in METHODS:
        return name
    return METHODS[name].label.replace("{algorithm}", label_of(algorithm or default_algorithm()))


def label_of_results(name: str, algorithm: str, config: AdaptConfig) -> str:
    """The label of a method as it was run: by the paper's rules, or by another search."""
    label = label_of_method(name, algorithm)
    if name not in METHODS or "iterate" not in METHODS[name].uses:
        return label
    search = config.iterate
    return label if search in PAPERS_SEARCHES else f"{label}, {label_of_search(search)} search"


def label_of_search(name: str) -> str:
    """A search's label; its name if it is not installed."""
    return SEARCHES[name].label if name in SEARCHES else name


def added_methods(names: Iterable[str]) -> list[str]:
    """Those of the names that are methods from outside the package."""
    built_in = METHODS.built_in_names()
    return [name for name in names if name in METHODS and name not in built_in]


def is_given_logs(name: str) -> bool:
    """Whether these are results of a method that is given logged episodes of the test task."""
    return name in METHODS and METHODS[name].is_given_logs


def method_order(name: str) -> tuple[int, str]:
    """The paper's methods first, in its order; then the others by name."""
    known = PAPER_METHODS.index(name) if name in PAPER_METHODS else len(PAPER_METHODS)
    return known, name


def subject_of(
    family: str, quality: str, algorithm: str = "", components: Iterable[str] = ()
) -> str:
    """What a run is about, in words; expert data and the default algorithm go without saying.

    `components` are those that the run names, as "kind name"; the algorithm itself is named
    already, and what comes with the package goes without saying.
    """
    data = [] if quality == "expert" else [f"{quality} data"]
    parts = [
        _label_of_component(each)
        for each in components
        if not _is_algorithm(each, algorithm) and not comes_with_idaq(each)
    ]
    if algorithm in ("", default_algorithm()) and not parts:
        return ", ".join([family, *data])
    name = label_of(algorithm or default_algorithm())
    return ", ".join([family, *data, " with ".join([name, *parts])])


def _is_algorithm(component: str, algorithm: str) -> bool:
    return component.rpartition(" ")[2] == algorithm


def _label_of_component(component: str) -> str:
    """The label of its entry, or its name if it is not installed."""
    kind, _, name = component.rpartition(" ")
    entry = registry_of(kind).get(name) if kind in PLACES else None
    return name if entry is None else str(entry.label)
