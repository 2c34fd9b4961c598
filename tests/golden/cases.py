"""The numbers that must not change unless a version is raised.

Each case names the versions that its numbers belong to (of families, algorithms and adapters)
and computes them from scratch in seconds: a tiny dataset, a few updates, a few episodes. Learned
numbers come from tasks with equal numbers of rows and from gaps far wider than rounding, so that
they hold on other machines up to the tolerance.
"""

import tempfile
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from idaq.adapt.methods import make_adapter
from idaq.algos.entries import make_algorithm, version_of
from idaq.behaviour.collect import collect
from idaq.behaviour.replay import add_rows, empty_replay
from idaq.behaviour.sac import Sac, SacConfig
from idaq.engine.units import ExpertUnit
from idaq.envs import ML1_FAMILIES, POINT_FAMILIES
from idaq.storage.dataset import Dataset, open_dataset
from idaq.types import Episodes
from tests import fakes, tiny
from tests.adapt import cases as adapt_cases
from tests.learning.setting import ADAPT, DEFAULT_LIKE, adapt, train

DIGITS = 6  # of every stored number

Numbers = dict[str, list[float]]


class Golden(NamedTuple):
    """A case's numbers and the versions that they belong to."""

    versions: dict[str, int]
    numbers: Numbers


def rounded(values: Any) -> list[float]:
    """A flat list of few digits."""
    flat = np.asarray(values, np.float64).ravel()
    return [float(f"{value:.{DIGITS}g}") for value in flat]


def summary(tree: Any) -> list[float]:
    """Every leaf's sum and sum of squares."""
    leaves = [leaf.astype(np.float64) for leaf in tiny.leaves(tree)]
    return rounded([[leaf.sum(), (leaf**2).sum()] for leaf in leaves])


# --- Families -------------------------------------------------------------------------------


def _collected(name: str, place: Path) -> Dataset:
    collect(POINT_FAMILIES[name], place / name, trajectories=2, seed=1)
    return open_dataset(place / name, POINT_FAMILIES[name].spec)


def family(name: str) -> Golden:
    """The dataset of two trajectories per task."""
    with tempfile.TemporaryDirectory() as place:
        dataset = _collected(name, Path(place))
        numbers = {
            "returns": rounded(dataset.episode_returns()[::20]),
            "mean_return": rounded(dataset.episode_returns().mean()),
            "actions": rounded(dataset.arrays["actions"][::400]),
            "observations": rounded(dataset.arrays["next_observations"][::400]),
        }
    return Golden({name: POINT_FAMILIES[name].version}, numbers)


ML1 = "ml1/drawer-close"


def simulator() -> Golden:
    """The scripted expert on a few tasks: how an episode begins, and whether it succeeds.

    Contacts make more of rounding, so that no later number holds on other machines.
    """
    made = ML1_FAMILIES[ML1]
    tasks, early = (0, 20, 40), slice(0, 20, 5)
    parts = [ExpertUnit(made, task, ((1, task),)).run() for task in tasks]
    episodes = Episodes(*(np.concatenate(field) for field in zip(*parts, strict=True)))
    numbers = {
        "task_params": rounded(made.task_params[list(tasks)]),
        "actions": rounded(episodes.action[:, early]),
        "observations": rounded(episodes.next_obs[:, early]),
        "rewards": rounded(episodes.reward[:, early]),
        "lengths": rounded(episodes.valid.sum(axis=-1)),
        "success": rounded(episodes.success.any(axis=-1)),
    }
    return Golden({made.name: made.version}, numbers)


# --- Algorithms -----------------------------------------------------------------------------


def algorithm(name: str) -> Golden:
    """Five updates of a tiny network, and the agent that they make."""
    focal = tiny.ALGORITHMS[name]
    state = tiny.trained(focal, 4)
    state, metrics = tiny.compiled_update(focal)(state, tiny.data(), jax.random.key(4))
    agent = focal.finish(state, tiny.data())
    episodes = tiny.episodes(3)
    hypothesis = focal.encode(agent, episodes, jnp.asarray([True, False, True]))
    actions, _ = jax.vmap(lambda obs: focal.act(agent, hypothesis, (), obs, jax.random.key(0)))(
        episodes.obs[0]
    )
    numbers = {f"metric {key}": rounded(value) for key, value in sorted(metrics.items())}
    numbers |= {
        "encoder": summary(state.encoder),
        "policy": summary(state.learner.policy),
        "ensemble": summary(state.judge),
        "hypothesis": rounded(hypothesis),
        "actions": rounded(actions),
        "prior": rounded(agent.prior[jnp.asarray([0, 3])]),  # tasks of equally many rows
    }
    return Golden({focal.name: version_of(focal.name)}, numbers)


def online() -> Golden:
    """Five updates of SAC on the tiny rows."""
    data = tiny.data()
    conditions = np.linspace(-1.0, 1.0, tiny.NUM_TASKS, dtype=np.float32)[:, None]
    tasks = np.repeat(np.arange(tiny.NUM_TASKS, dtype=np.int32), tiny.TASK_COUNTS)
    replay = add_rows(empty_replay(tiny.SPEC, len(tasks), conditions), data.rows, tasks)
    sac = Sac(SacConfig(policy_hidden=(8,), critic_hidden=(8,), batch_size=16), tiny.SPEC, 1)
    state, update = sac.init(jax.random.key(0)), jax.jit(sac.update, compiler_options=tiny.QUICK)
    metrics: dict[str, Any] = {}
    for number in range(5):
        state, metrics = update(state, replay, jax.random.key(number))
    numbers = {f"metric {key}": rounded(value) for key, value in sorted(metrics.items())}
    numbers |= {"policy": summary(state.policy), "critics": summary(state.target_q)}
    return Golden({sac.name: sac.version}, numbers)


BASELINES = {"op-cl": "op-cl, sac-brac+models", "macaw": "macaw", "borel": "borel, oracle"}


def baseline(name: str) -> Golden:
    """Five updates of another algorithm, its hypotheses and its first actions."""
    made = tiny.BASELINES[BASELINES[name]]
    state = tiny.trained(made, 4)
    state, metrics = tiny.compiled_update(made.phases[-1][1])(state, tiny.data(), jax.random.key(4))
    agent = made.finish(state, tiny.data())
    episodes = tiny.episodes(3)
    hypothesis = made.encode(agent, episodes, jnp.asarray([True, False, True]))

    def first_action(obs: Any) -> Any:
        carry = made.init_carry(agent, hypothesis)
        return made.act(agent, hypothesis, carry, obs, jax.random.key(0))[0]

    numbers = {f"metric {key}": rounded(value) for key, value in sorted(metrics.items())}
    numbers |= {
        "hypothesis": rounded(hypothesis[:10]),
        "actions": rounded(jax.vmap(first_action)(episodes.obs[0])),
        "prior": rounded(made.prior(agent)[jnp.asarray([0, 3]), :5]),
    }
    return Golden({made.name: version_of(made.name)}, numbers)


# --- Adapters -------------------------------------------------------------------------------

ADAPTERS = (
    "paper",
    "released",
    "untried, best",
    "search",
    "prediction error",
    "prediction variance",
)


def adapter(case: str) -> Golden:
    """Every decision on the agent that acts as it believes."""
    method, _, changes = adapt_cases.CASES[case]
    made = make_adapter(method, adapt_cases.options(**changes), fakes.ActsAsBelieved())
    found = adapt_cases.results(case)
    names = ("hypotheses", "returns", "kept", "uncertainty", "threshold", "tied")
    return Golden({method: made.version}, {name: rounded(found[name][:, ::2]) for name in names})


def posterior() -> Golden:
    """Posterior sampling on the same agent."""
    made = make_adapter("posterior", adapt_cases.options(), fakes.ActsAsBelieved())
    found = adapt_cases.posterior("two episodes each")
    names = ("hypotheses", "returns", "kept")
    numbers = {name: rounded(found[name][:, ::2]) for name in names}
    return Golden({"posterior": made.version}, numbers)


# --- All together ---------------------------------------------------------------------------


def end_to_end(name: str, method: str) -> Golden:
    """Collect, train for six updates, adapt: the returns of every episode."""
    focal = make_algorithm(DEFAULT_LIKE, POINT_FAMILIES[name].spec)
    with tempfile.TemporaryDirectory() as folder:
        dataset = _collected(name, Path(folder))
        agent = train(dataset, DEFAULT_LIKE, 6, 0, Path(folder))
        found = adapt(dataset, DEFAULT_LIKE, agent, method, 0)
    made = make_adapter(method, ADAPT, focal)
    versions = {
        name: POINT_FAMILIES[name].version,
        focal.name: version_of(focal.name),
        method: made.version,
    }
    numbers = {
        "returns": rounded(found["returns"][:, ::5]),
        "final_positions": rounded(found["observations"][:, ::5, -1, -1]),
        "prior": rounded(agent.prior[::20]),
    }
    return Golden(versions, numbers)


CASES: dict[str, Callable[[], Golden]] = {
    **{f"family {name}": partial(family, name) for name in POINT_FAMILIES},
    f"family {ML1}": simulator,
    **{
        f"algorithm {name}": partial(algorithm, name)
        for name in tiny.ALGORITHMS
        if name.endswith("+models")  # the policy learns the same without
    },
    "algorithm sac, online": online,
    **{f"algorithm {name}": partial(baseline, name) for name in BASELINES},
    **{f"adapter {name}": partial(adapter, name) for name in ADAPTERS},
    "adapter posterior": posterior,
    **{
        f"end to end {method}": partial(end_to_end, "point-robot", method)
        for method in ("idaq-return", "expert-context")
    },
}

NEEDS = {f"family {ML1}": "metaworld"}  # cases that need an extra


def can_run(name: str) -> bool:
    """Whether what a case needs is installed."""
    return name not in NEEDS or find_spec(NEEDS[name]) is not None
