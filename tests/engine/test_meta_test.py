"""Rollouts and the meta-test loop: shapes, batching, and what is kept."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from idaq.adapt.methods import make_adapter
from idaq.behaviour.collect import ExpertPolicy
from idaq.engine.meta_test import Results, evaluate
from idaq.engine.rollout import ScannedRollouts, rollout
from idaq.settings import AdaptConfig
from idaq.types import Action, Key, Scalar
from tests import fakes, tiny

FAMILY = fakes.Targets(((0.0, 0.0), (2.0, 1.0), (-3.0, 0.5)), lengths=(3, 2, 1))
ALGORITHM = fakes.ActsAsBelieved()
PRIOR = [(1.0, 0.0), (-1.0, 2.0), (2.0, 1.0), (4.0, -1.0)]
CONFIG = AdaptConfig(
    num_reference_episodes=3,
    num_iterative_episodes=2,
    keep_percent=60.0,  # two of three
    reference="farthest-first",
    final="best",
)


def run(method: str, seeds: tuple[int, ...], tasks: tuple[int, ...] = (0, 1, 2)) -> Results:
    agents = [fakes.agent(np.asarray(PRIOR) + seed) for seed in seeds]
    return evaluate(
        ScannedRollouts(FAMILY, ALGORITHM),
        make_adapter(method, CONFIG, ALGORITHM),
        jax.tree.map(lambda *x: jnp.stack(x), *agents),
        jnp.tile(jnp.asarray(tasks), (len(seeds), 1)),
        tiny.keys(*seeds),
    )


@pytest.fixture(scope="module")
def found() -> Results:
    return run("idaq-return", (0, 1))


def test_rollout_marks_what_took_place() -> None:
    for task, length in ((0, 3), (1, 2), (2, 1)):
        number = jnp.asarray(task)
        episode = rollout(FAMILY, ExpertPolicy(FAMILY), (), number, number, jax.random.key(0))
        assert episode.valid.tolist() == [step < length for step in range(3)]
        assert episode.terminated[length - 1]
        np.testing.assert_array_equal(episode.obs[:, 0], [0, 1, 2])
        np.testing.assert_array_equal(episode.next_obs[:, 0], [1, 2, 3])
        np.testing.assert_array_equal(episode.action, np.tile(FAMILY.targets[task], (3, 1)))


class Remembers:
    """A policy whose memory is the rewards so far, and whose action is their sum."""

    def init_carry(self, params: object, hypothesis: object) -> Scalar:
        return jnp.zeros(())

    def act(
        self, params: object, hypothesis: object, carry: Scalar, obs: jax.Array, key: Key
    ) -> tuple[Action, Scalar]:
        return jnp.full(2, carry), carry

    def take_reward(self, params: object, carry: Scalar, reward: Scalar) -> Scalar:
        return carry + reward


def test_memory_takes_every_reward_before_the_next_action() -> None:
    family = fakes.Targets(((3.0, 4.0),))
    episode = rollout(family, Remembers(), (), jnp.zeros(0), jnp.asarray(0), jax.random.key(0))
    rewards = np.asarray(episode.reward)
    assert rewards[0] == pytest.approx(-5.0)
    np.testing.assert_allclose(episode.action[:, 0], [0.0, rewards[0], rewards[:2].sum()])


def test_results_hold_everything(found: Results) -> None:
    lead = (2, 3, 5)  # seeds, tasks, episodes
    assert found["returns"].shape == found["success"].shape == lead
    assert found["uncertainty"].shape == found["kept"].shape == lead
    assert found["threshold"].shape == found["tied"].shape == lead[:2]
    assert found["hypotheses"].shape == (*lead, 2)
    assert found["observations"].shape == (*lead, 4, 1)  # one more than there are steps
    assert found["valid"].shape == (*lead, 3)
    assert found["valid"].sum(axis=-1)[0].tolist() == [[3] * 5, [2] * 5, [1] * 5]


def test_returns_are_those_of_the_steps_that_took_place(found: Results) -> None:
    targets, lengths = np.asarray(FAMILY.targets), np.asarray([3, 2, 1])
    distance = np.linalg.norm(found["hypotheses"] - targets[:, None], axis=-1)
    np.testing.assert_allclose(found["returns"], -distance * lengths[:, None], rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(found["success"], distance < 0.5)
    np.testing.assert_allclose(found["uncertainty"], -found["returns"], rtol=1e-6)


def test_last_episode_is_the_commitment(found: Results) -> None:
    """The best hypothesis is replayed, although another one would be tried next."""
    best = np.argmax(found["returns"][..., :-1], axis=-1)
    expected = np.take_along_axis(found["hypotheses"], best[..., None, None], axis=2)[:, :, 0]
    np.testing.assert_array_equal(found["hypotheses"][:, :, -1], expected)
    kept = found["kept"][..., None]
    assert not found["kept"][..., -1].any()
    belief = (found["hypotheses"] * kept).sum(axis=2) / kept.sum(axis=2)
    assert not np.allclose(belief, expected)


def test_seeds_together_are_seeds_alone(found: Results) -> None:
    for index, seed in enumerate((0, 1)):
        alone = run("idaq-return", (seed,))
        for name, value in alone.items():
            np.testing.assert_allclose(value[0], found[name][index], rtol=1e-6, err_msg=name)


def test_same_keys_same_reference_episodes_for_all_methods(found: Results) -> None:
    posterior = run("posterior", (0, 1))
    for name in ("hypotheses", "observations", "returns", "success"):
        np.testing.assert_array_equal(found[name][:, :, :3], posterior[name][:, :, :3])
    assert not np.array_equal(found["hypotheses"][:, :, 3], posterior["hypotheses"][:, :, 3])


def test_tasks_are_taken_as_given() -> None:
    """The environment is told only a task's number."""
    swapped = run("posterior", (0, 1), tasks=(2, 2, 0))
    assert swapped["valid"].sum(axis=-1)[0, :, 0].tolist() == [1, 1, 3]
