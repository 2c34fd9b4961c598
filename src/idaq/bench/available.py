"""Which of the experiments' cells this version of idaq can run."""

from idaq.adapt.methods import methods_of
from idaq.algos.entries import ALGORITHMS
from idaq.behaviour.quality import qualities_of
from idaq.envs import FAMILIES, get_family


def missing(
    family: str, quality: str, algorithm: str | None, methods: tuple[str, ...]
) -> str | None:
    """The first thing that a cell names and this version lacks; `algorithm` is None for data."""
    if family not in FAMILIES:
        return f"no family '{family}' in this version"
    if quality not in qualities_of(get_family(family)):
        return f"no data of quality '{quality}' in this version"
    if algorithm is None:
        return None
    if algorithm not in ALGORITHMS:
        return f"no algorithm '{algorithm}' in this version"
    unknown = [method for method in methods if method not in methods_of(algorithm)]
    return f"no method '{unknown[0]}' of '{algorithm}' in this version" if unknown else None
