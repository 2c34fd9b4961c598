"""What a task family is.

A family is a named set of tasks with one observation space, one action space and one horizon.
Its functions take a task by *index*; `task_params`, what differs between the tasks, is metadata
for datasets and figures and is never read by an agent, an adapter or the meta-test loop.

A family whose tasks are drawn at random may offer other draws (`redrawn`): other goals of the same
kind, so that what was tuned on one draw is tested on tasks that nobody has seen. `NAME@7` is the
family NAME with the tasks of draw 7.

A family may say what it is like (`traits`), so that presets, tables and settings fit it; nothing is
guessed from its name. One with neither JAX functions nor a simulator can be trained on from logs.
"""

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeGuard

import jax
import numpy as np
from numpy.typing import NDArray

from idaq.errors import IdaqError
from idaq.registry import NAME, check_hash, check_name, check_version
from idaq.types import (
    Action,
    AnyArray,
    Key,
    PyTree,
    RewardFunction,
    Scalar,
    Spec,
    TaskSplit,
    Traits,
)

if TYPE_CHECKING:
    import gymnasium

    Simulator: TypeAlias = gymnasium.Env[AnyArray, AnyArray]

Info = dict[str, Any]  # what a simulator reports with every reset and step

KIND = "task family"
DRAW_SIGN = "@"
NAME_IN_PARTS = re.compile(rf"{NAME.pattern}(/{NAME.pattern})*({DRAW_SIGN}\d+)?")  # ml1/reach@7
NEEDED = ("name", "version", "spec", "num_tasks", "task_params")
MAX_SEED = 2**32 - 1
TRAIN_SHARE = 0.8  # of the tasks are for meta-training, the others for meta-testing


class Step(NamedTuple):
    """What one environment step returns."""

    obs: jax.Array  # [obs_dim]
    reward: Scalar  # []
    terminated: Scalar  # [] bool
    success: Scalar  # [] bool


class TaskFamily(Protocol):
    """A named set of tasks: what all kinds have in common. Instances are hashable."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> int:
        """Raised whenever the results of this family change."""
        ...

    @property
    def spec(self) -> Spec: ...

    @property
    def num_tasks(self) -> int: ...

    @property
    def task_params(self) -> NDArray[np.float32]:
        """[num_tasks, ...]; for people, not for agents."""
        ...

    def __hash__(self) -> int: ...


class RedrawableFamily(TaskFamily, Protocol):
    """A family whose tasks are one draw of many."""

    def redrawn(self, draw: int) -> TaskFamily:
        """The family with the tasks of another draw, named `NAME@draw`."""
        ...


class JaxFamily(TaskFamily, Protocol):
    """Tasks whose dynamics are pure JAX functions."""

    def reset(self, task: Scalar, key: Key) -> tuple[PyTree, jax.Array]:
        """(environment state, first observation)."""
        ...

    def step(
        self, task: Scalar, state: PyTree, action: Action, key: Key
    ) -> tuple[PyTree, Step]: ...

    def expert(self, task: Scalar, obs: jax.Array, key: Key) -> Action:
        """An action of the task's own behaviour policy, which knows the task."""
        ...


class RewardingFamily(TaskFamily, Protocol):
    """Tasks whose reward can be computed for any transition, as JAX functions."""

    def reward_of(
        self, task: Scalar, obs: jax.Array, action: Action, next_obs: jax.Array
    ) -> Scalar: ...


class Expert(Protocol):
    """A behaviour policy that is tied to one simulator and may look inside it."""

    def reset(self) -> None:
        """A new episode begins; the simulator has been reset."""
        ...

    def act(
        self, obs: NDArray[np.float32], info: Info, rng: np.random.Generator
    ) -> NDArray[np.float32]:
        """The next action; `info` is what the last reset or step reported."""
        ...


class HostFamily(TaskFamily, Protocol):
    """Tasks of a Gymnasium simulator, which runs in worker processes (see `idaq.engine.units`)."""

    def check_simulator(self) -> None:
        """Raise an error with the remedy where the simulator is not installed."""
        ...

    def make_env(self, render_mode: str | None = None) -> "Simulator":
        """A simulator that `reset(seed=..., options={"task": index})` puts on any of the tasks.

        An episode depends on the task, the seed and the actions alone, never on what the simulator
        did before. `info["success"]` is read where the spec says that there is success.
        """
        ...


class ScriptedHostFamily(HostFamily, Protocol):
    """A simulator whose behaviour policy is scripted, not learned."""

    def make_expert(self, env: "Simulator") -> Expert:
        """The behaviour policy of whichever task that simulator is on."""
        ...


def is_family(thing: object) -> bool:
    """Whether something is meant as a task family: it has most of what one needs.

    `check_family` says what it lacks.
    """
    return not isinstance(thing, type) and len(_lacking(thing)) < len(NEEDED) / 2


def check_family(family: TaskFamily) -> None:
    """Refuse a family that could not be used; one without an environment can be."""
    if lacking := _lacking(family):
        raise IdaqError(
            f"A {type(family).__name__} is no {KIND}: it lacks "
            f"{' and '.join(f'`{name}`' for name in lacking)}.",
            "See docs/extending/family.md.",
        )
    check_name(KIND, family.name, NAME_IN_PARTS)
    check_version(KIND, family.name, family.version)
    spec: object = family.spec
    if not isinstance(spec, Spec):
        raise IdaqError(
            f"The {KIND} '{family.name}' has no usable `spec`: it is {spec!r}.",
            "Make it an `idaq.types.Spec`.",
        )
    if not len(spec.action_low) == len(spec.action_high) == spec.action_dim:
        raise IdaqError(
            f"The {KIND} '{family.name}' has {len(spec.action_low)} lower and "
            f"{len(spec.action_high)} upper bounds of actions of {spec.action_dim} dimensions.",
            "Give one of each per dimension.",
        )
    check_hash(KIND, family.name, family, spec)


def _lacking(thing: object) -> list[str]:
    """What a task family needs and is not there; properties of its class are not computed."""
    return [name for name in NEEDED if not (hasattr(type(thing), name) or hasattr(thing, name))]


def traits_of(family: TaskFamily) -> Traits:
    """What a family is like: what it says itself (its `traits`), and what can be seen of it."""
    check_family(family)  # whatever works with one asks this first
    said: Traits = getattr(family, "traits", Traits())
    return replace(
        said,
        simulator=is_host_family(family),
        has_environment=is_host_family(family) or is_jax_family(family),
        horizon=family.spec.horizon,
    )


def check_environment(family: TaskFamily) -> None:
    """Refuse a family that cannot be acted in, and one whose simulator is not installed."""
    if not traits_of(family).has_environment:
        raise IdaqError(
            f"'{family.name}' has no environment.",
            "Its agents can be trained on logs, and act in a loop of your own.",
        )
    if is_host_family(family):
        family.check_simulator()


def is_host_family(family: TaskFamily) -> TypeGuard[HostFamily]:
    """Whether the family's episodes are run by worker processes."""
    return hasattr(family, "make_env")


def has_scripted_expert(family: TaskFamily) -> bool:
    """Whether the family has a behaviour policy that is not learned."""
    return (is_jax_family(family) and hasattr(family, "expert")) or is_scripted(family)


def is_scripted(family: TaskFamily) -> TypeGuard[ScriptedHostFamily]:
    """Whether the family has a simulator with a scripted behaviour policy."""
    return hasattr(family, "make_expert")


def is_jax_family(family: TaskFamily) -> TypeGuard[JaxFamily]:
    """Whether the family's dynamics are JAX functions."""
    return not is_host_family(family) and hasattr(family, "reset") and hasattr(family, "step")


def is_redrawable(family: TaskFamily) -> TypeGuard[RedrawableFamily]:
    """Whether a family offers other draws of its tasks."""
    return hasattr(family, "redrawn") and DRAW_SIGN not in family.name


def name_of_draw(name: str, draw: int | None) -> str:
    """The name of a family with the tasks of a draw; without one, with its usual tasks."""
    return name if draw is None else f"{name}{DRAW_SIGN}{draw}"


def _tells_rewards(family: TaskFamily) -> TypeGuard[RewardingFamily]:
    return hasattr(family, "reward_of")


def reward_function(family: TaskFamily) -> RewardFunction | None:
    """The reward as a JAX function, where a family offers it.

    It is the reward oracle of algorithms that relabel: the family's method `reward_of`.
    """
    return family.reward_of if _tells_rewards(family) else None


def split_tasks(num_tasks: int, seed: int) -> TaskSplit:
    """The 80/20 split of a seed: drawn at random, disjoint, sorted."""
    order = np.random.default_rng([seed, num_tasks]).permutation(num_tasks)
    num_train = round(TRAIN_SHARE * num_tasks)
    return TaskSplit(train=np.sort(order[:num_train]), test=np.sort(order[num_train:]))


def validation_split(num_tasks: int, seed: int) -> TaskSplit:
    """The training tasks of a seed, split once more; test tasks appear on neither side.

    Hyper-parameters are chosen on this split, so that test tasks stay unseen.
    """
    outer = split_tasks(num_tasks, seed)
    inner = split_tasks(len(outer.train), seed)
    return TaskSplit(train=outer.train[inner.train], test=outer.train[inner.test])


def check_seed(seed: int) -> None:
    """Refuse seeds beyond 32 bits: some of them would give the same random numbers."""
    if not 0 <= seed <= MAX_SEED:
        raise IdaqError(f"Seed {seed} is out of range.", f"Give a seed of 0 to {MAX_SEED:,}.")
