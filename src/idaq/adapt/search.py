"""Which hypothesis is tried next.

A search chooses all hypotheses of the reference stage at once (`first`), the next one at any time
(`next`), or both. It sees the training tasks' embeddings, which are the prior; what was tried and
how it was judged; the posterior of what was kept; what the logs say of the episodes; and how many
tries are left. `AdaptConfig.reference` and `.iterate` name one each. Where the search of the
reference stage has a `next` as well, methods that judge episodes ask that.

The searches here:
- `prior` draws a training task at random each time;
- `farthest` draws `num_candidates` and takes the one whose distance to the nearest hypothesis tried
  so far is largest; `farthest-first` takes it from all training tasks;
- `zero` is no hypothesis at all;
- `posterior` is q(z | what was kept);
- `untried` is the posterior or, if that was tried already, the untried training task's hypothesis
  that is nearest to the best so far;
- `search` does the same once an episode resembles the logs, that is, once the best uncertainty is
  closer to a logged episode's than to the mean of those tried. Until then the neighbourhood of the
  best hypothesis is no better than any other, so the one farthest from all those tried is next.
  Similar tasks have embeddings close together, and trying one of them is enough.
- `bayesian` (`idaq.adapt.bayesian`) goes where a Gaussian process expects most.
"""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from idaq.algos.entries import EMBEDDING
from idaq.errors import IdaqError
from idaq.registry import Registry, check_entry
from idaq.settings import AdaptConfig
from idaq.types import Hypotheses, Hypothesis, Key, Mask, Places, Scalar, Vector

SAME_HYPOTHESIS = 1e-6  # hypotheses closer than this count as one
ALIKE = 0.1  # share of the prior's median distance below which `search` counts two as one


class Tried(NamedTuple):
    """What a search knows when it chooses the next hypothesis."""

    prior: Hypotheses  # [num_train_tasks, latent_dim], the training tasks' embeddings
    posterior: Hypothesis  # [latent_dim], of the context that was kept
    hypotheses: Hypotheses  # [num_episodes, latent_dim], tried so far
    was_tried: Mask  # [num_episodes]: the others are still empty
    uncertainty: Vector  # [num_episodes], of each one's hypothesis; NaN where there is none
    logged_uncertainty: Scalar  # [], that of a logged episode under its own task's hypothesis
    contradiction: Vector  # [num_train_tasks], steps that speak against a task (`idaq.algos.logs`)
    num_left: Scalar  # [], tries, this one included

    @property
    def best(self) -> Hypothesis:
        """The hypothesis of the lowest uncertainty."""
        return self.hypotheses[jnp.nanargmin(self.uncertainty)]


@dataclass(frozen=True, kw_only=True)
class SearchEntry:
    """A search; pure functions for one task."""

    name: str
    label: str
    first: Callable[[AdaptConfig, Hypotheses, Key], Hypotheses] | None = None
    """(options, prior, key): the hypotheses of the reference stage, [num, latent_dim]."""
    next: Callable[[Tried], Hypothesis] | None = None
    """The next hypothesis, [latent_dim]."""
    gain: Callable[[Tried], Scalar] | None = None
    """What `next` is expected to gain on the best so far, as a share of what the logs promise."""
    reads_logs: bool = False
    """Whether it reads `Tried.contradiction`, which is zero otherwise."""
    needs: frozenset[str] = frozenset()
    """What an algorithm must offer."""
    version: int | None = None
    """Raised whenever results change; without one, the search is identified by its source."""


def from_prior(config: AdaptConfig, prior: Hypotheses, key: Key) -> Hypotheses:
    """Each one at random."""
    num = config.num_reference_hypotheses
    return prior[jax.random.randint(key, (num,), 0, prior.shape[0])]


def from_nothing(config: AdaptConfig, prior: Hypotheses, key: Key) -> Hypotheses:
    """The origin, again and again."""
    return jnp.zeros((config.num_reference_hypotheses, *prior.shape[1:]))


def farthest(config: AdaptConfig, prior: Hypotheses, key: Key) -> Hypotheses:
    """The farthest of a few random candidates each time."""
    shape = (config.num_candidates,)
    return _far_apart(
        config, prior, key, lambda step_key: jax.random.randint(step_key, shape, 0, len(prior))
    )


def farthest_first(config: AdaptConfig, prior: Hypotheses, key: Key) -> Hypotheses:
    """The farthest of all each time; the first is random, as all are infinitely far."""
    return _far_apart(
        config, prior, key, lambda step_key: jax.random.permutation(step_key, len(prior))
    )


def _far_apart(
    config: AdaptConfig, prior: Hypotheses, key: Key, draw: Callable[[Key], Places]
) -> Hypotheses:
    def add_one(nearest: Vector, step_key: Key) -> tuple[Vector, Hypothesis]:
        """`nearest` [num_tasks] is each task's distance to the hypotheses tried so far."""
        candidates = draw(step_key)
        chosen = candidates[jnp.argmax(nearest[candidates])]
        distance = jnp.linalg.norm(prior - prior[chosen], axis=-1)
        return jnp.minimum(nearest, distance), prior[chosen]

    start = jnp.full(prior.shape[0], jnp.inf)
    return jax.lax.scan(add_one, start, jax.random.split(key, config.num_reference_hypotheses))[1]


def posterior(tried: Tried) -> Hypothesis:
    """What the kept context says, whether or not it is new."""
    return tried.posterior


def untried(tried: Tried) -> Hypothesis:
    """The posterior if it is new, else the untried training task's hypothesis nearest the best."""
    return _refined(tried, *_news(tried, jnp.asarray(SAME_HYPOTHESIS)))


def search(tried: Tried) -> Hypothesis:
    """Far from everything until an episode resembles the logs, then near the best."""
    between = distances(tried.prior, tried.prior)
    is_new, from_tried = _news(tried, ALIKE * median_of_pairs(between))
    halfway = 0.5 * (tried.logged_uncertainty + jnp.nanmean(tried.uncertainty))
    resembles_logs = jnp.nanmin(tried.uncertainty) <= halfway
    explore = ~resembles_logs & is_new[1:].any()
    far = tried.prior[jnp.argmax(from_tried[1:])]
    return jnp.where(explore, far, _refined(tried, is_new, from_tried))


def distances(first: Hypotheses, second: Hypotheses) -> jax.Array:
    """Between every one of the first and every one of the second, [num_first, num_second]."""
    found: jax.Array = jnp.linalg.norm(first[:, None] - second, axis=-1)
    return found


def median_of_pairs(between: jax.Array) -> Scalar:
    """The median distance between two different ones, of all distances [num, num]."""
    first, second = jnp.triu_indices(len(between), 1)
    return jnp.median(between[first, second])


def _news(tried: Tried, tolerance: Scalar) -> tuple[Mask, Vector]:
    """For the posterior, then the prior: which are new, and how far each is from those tried.

    A hypothesis closer than the tolerance to one that was tried is not new.
    """
    candidates = jnp.concatenate([tried.posterior[None], tried.prior])
    distance = distances(candidates, tried.hypotheses)
    from_tried = jnp.where(tried.was_tried, distance, jnp.inf).min(axis=1)
    return from_tried > tolerance, from_tried


def _refined(tried: Tried, is_new: Mask, from_tried: Vector) -> Hypothesis:
    distance = jnp.linalg.norm(tried.prior - tried.best, axis=-1)
    from_best = jnp.where(is_new[1:], distance, jnp.inf)
    use_prior = ~is_new[0] & is_new[1:].any()
    return jnp.where(use_prior, tried.prior[jnp.argmin(from_best)], tried.posterior)


ENTRIES = (
    SearchEntry(name="farthest", label="farthest of some", version=1, first=farthest),
    SearchEntry(name="farthest-first", label="farthest first", version=1, first=farthest_first),
    SearchEntry(name="prior", label="at random", version=1, first=from_prior),
    SearchEntry(
        name="zero",
        label="no hypothesis",
        version=1,
        first=from_nothing,
        needs=frozenset({EMBEDDING}),
    ),
    SearchEntry(name="posterior", label="posterior", version=1, next=posterior),
    SearchEntry(name="untried", label="nearest untried", version=1, next=untried),
    SearchEntry(name="search", label="far, then near", version=1, next=search),
)


def _check_search(kind: str, entry: SearchEntry) -> None:
    check_entry(kind, entry)
    given = {name: getattr(entry, name) for name in ("first", "next", "gain")}
    if entry.first is None and entry.next is None:
        raise IdaqError(
            f"The search '{entry.name}' has neither `first` nor `next`.",
            "Give one for each stage that it can serve.",
        )
    for name, function in given.items():
        if function is not None and not callable(function):
            raise IdaqError(
                f"The search '{entry.name}' has {function!r} as its `{name}`.", "Give a function."
            )


SEARCHES: Registry[SearchEntry] = Registry(
    "search",
    "searches",
    lambda entry: isinstance(entry, SearchEntry),
    check=_check_search,
    built_in=("idaq.adapt.search:ENTRIES", "idaq.adapt.bayesian:ENTRY"),
)


@dataclass(frozen=True)
class Searches:
    """The two searches of an adapter: of the reference stage and of the iterative one."""

    reference: SearchEntry
    iterate: SearchEntry

    @classmethod
    def of(cls, config: AdaptConfig) -> "Searches":
        """The searches that the options name, or an error if one of them cannot serve its stage."""
        return cls(_able(config, "reference", "first"), _able(config, "iterate", "next"))

    def first(self, config: AdaptConfig, prior: Hypotheses, key: Key) -> Hypotheses:
        """The hypotheses of the reference stage, [num_reference_hypotheses, latent_dim]."""
        assert self.reference.first is not None, "checked when they were found"
        found = self.reference.first(config, prior, key)
        shape = (config.num_reference_hypotheses, *prior.shape[1:])
        return _of_shape(self.reference, found, shape, "num_reference_hypotheses, latent_dim")

    @property
    def adapts_reference(self) -> bool:
        """Whether the reference stage, too, can be led by what was tried so far."""
        return self.reference.next is not None

    @property
    def reads_logs(self) -> bool:
        return self.reference.reads_logs or self.iterate.reads_logs

    def next(self, tried: Tried, *, in_reference: bool = False) -> Hypothesis:
        """The next hypothesis of a stage, [latent_dim]."""
        search = self.reference if in_reference else self.iterate
        assert search.next is not None, "checked when they were found"
        return _of_shape(search, search.next(tried), tried.prior.shape[1:], "latent_dim")

    def gain(self, tried: Tried, in_reference: Scalar) -> Scalar:
        """What the search of the stage expects of its next hypothesis."""
        both = (self.reference, self.iterate)
        reference, iterate = (
            jnp.asarray(jnp.inf) if search.gain is None else search.gain(tried) for search in both
        )
        return jnp.where(in_reference, reference, iterate)


def _of_shape(entry: SearchEntry, found: Any, shape: tuple[int, ...], what: str) -> jax.Array:
    """What a search returned, if it has that shape: JAX would silently read beyond its end."""
    given = getattr(found, "shape", None)
    if given != shape:
        which = repr(found) if given is None else f"an array of shape {list(given)}"
        raise IdaqError(
            f"The search '{entry.name}' returned {which}, where {list(shape)} is needed.",
            f"Return [{what}].",
        )
    result: jax.Array = found
    return result


def _able(config: AdaptConfig, option: str, stage: str) -> SearchEntry:
    name = getattr(config, option)
    entry = SEARCHES.get(name)
    if entry is None or getattr(entry, stage) is None:
        able = [each.name for each in SEARCHES.values() if getattr(each, stage) is not None]
        close = get_close_matches(name, able, n=1)
        hint = f"Did you mean '{close[0]}'? " if close else ""
        raise IdaqError(
            f"`adapt.{option}` is '{name}', which is no search for that stage.",
            f"{hint}Choose one of {', '.join(able)}.",
        )
    return entry
