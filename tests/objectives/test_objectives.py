"""Objectives by themselves: what they embed, what they train, and a phase of their own."""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from idaq.algos.context_based import ContextBased, ContextConfig
from idaq.algos.entries import OBJECTIVES, ObjectiveEntry, make_algorithm
from idaq.learners import td3_bc
from idaq.learners.base import learner_of
from idaq.nets.operations import Operations
from idaq.objectives.base import EncoderSettings, LearnerView, MetaBatch, Objective, Step
from idaq.objectives.gaussians import ProductOfGaussians
from idaq.objectives.metric import Metric
from idaq.types import Key, Params, Spec, Transition
from tests import oracles, tiny

SPEC, LATENT = tiny.SPEC, 3
ENCODER = EncoderSettings(spec=SPEC, latent_dim=LATENT, hidden=(4,), learning_rate=1e-2)
KEY = jax.random.key(5)
METRIC = Metric(encoder=ENCODER, weight=2.5)
GAUSSIANS = ProductOfGaussians(
    encoder=ENCODER, metric_weight=2.0, kl_weight=0.5, q_weight=3.0, critic_hidden=(4,)
)


def rows(*lead: int, seed: int = 0) -> Transition:
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> Any:
        return jnp.asarray(rng.normal(size=(*lead, *shape)), jnp.float32)

    obs, action, reward = normal(SPEC.obs_dim), normal(SPEC.action_dim), normal()
    return Transition(obs, action, reward, normal(SPEC.obs_dim), jnp.zeros(lead))


META = MetaBatch(jnp.asarray([0, 1, 0]), rows(3, 4), rows(6, seed=1), KEY, jax.random.key(6))


def view(config: td3_bc.Td3BcConfig | None = None) -> LearnerView:
    config = config or td3_bc.Td3BcConfig(hidden=(4,))
    entry = learner_of(config)
    return LearnerView(entry, config, entry.init(config, SPEC, LATENT, KEY))


def transitions(these: Transition, next_obs: bool = False) -> list[list[float]]:
    """(s, a, r), and s' where the encoder sees it."""
    return [
        [*obs, *action, float(reward), *(after if next_obs else ())]
        for obs, action, reward, after, _ in zip(*map(np.asarray, these), strict=True)
    ]


def in_float64(params: Params) -> Any:
    return jax.tree.map(lambda x: np.asarray(x, np.float64), params)


# --- What an encoder sees -------------------------------------------------------------------


@pytest.mark.parametrize("next_obs", [False, True])
def test_the_encoder_sees_what_it_is_said_to_see(next_obs: bool) -> None:
    metric = replace(METRIC, encoder=replace(ENCODER, next_obs=next_obs))
    params, _ = metric.init(KEY)
    assert params[0]["weight"].shape[0] == (9 if next_obs else 6)
    context, weight = rows(4), jnp.asarray([1.0, 0.0, 1.0, 1.0])
    kept = [each for each, w in zip(transitions(context, next_obs), weight, strict=True) if w > 0]
    expected = oracles.embed_context(in_float64(params), kept)
    assert oracles.agree(metric.embed(params, context, weight), expected)
    moved = context._replace(next_obs=context.next_obs + 1.0)
    before, after = (metric.embed(params, each, weight) for each in (context, moved))
    assert np.array_equal(before, after) != next_obs


@pytest.mark.parametrize("next_obs", [False, True])
def test_operations_of_the_encoder(next_obs: bool) -> None:
    encoder = replace(ENCODER, next_obs=next_obs)
    inputs = 9 if next_obs else 6
    assert replace(METRIC, encoder=encoder).operations(3, 10, 20) == 10 * (
        Operations(inputs, (4,), LATENT).train
    )
    through_q = 20 * 2 * 2 * LATENT * 4  # both critics: z's columns of the first layer
    encoding = 10 * Operations(inputs, (4,), 2 * LATENT).train
    assert replace(GAUSSIANS, encoder=encoder).operations(3, 10, 20) == encoding + through_q


# --- What they train ------------------------------------------------------------------------


def test_the_metric_loss_moves_the_encoder() -> None:
    params, opt = METRIC.init(KEY)
    step = METRIC.update(params, opt, META, view())
    contexts = [jax.tree.map(lambda x, i=i: x[i], META.contexts) for i in range(3)]
    each = [oracles.embed_context(in_float64(params), transitions(one)) for one in contexts]
    assert oracles.agree(step.z, each), "what the encoder said before its step"
    loss = 2.5 * oracles.metric_loss(np.asarray(each), [0, 1, 0])
    assert oracles.agree(step.metrics["metric_loss"], loss)
    pairs = zip(tiny.leaves(step.params), tiny.leaves(params), strict=True)
    moved = max(np.abs(new - old).max() for new, old in pairs)
    assert 0.5e-2 < moved <= 1.01e-2, "a first step of Adam is the learning rate"


def test_the_posterior_is_paid_for_and_its_mean_is_the_hypothesis() -> None:
    params, opt = GAUSSIANS.init(KEY)
    learner = view()
    step = GAUSSIANS.update(params, opt, META, learner)
    assert oracles.agree(
        step.metrics["metric_loss"], 2.0 * oracles.metric_loss(np.asarray(step.z), [0, 1, 0])
    )
    assert float(step.metrics["kl_loss"]) > 0.0
    for name in ("metric_weight", "kl_weight", "q_weight"):
        without: Any = {name: 0.0}
        changed = replace(GAUSSIANS, **without).update(params, opt, META, learner)
        assert not tiny.same(changed.params, step.params), name
        np.testing.assert_array_equal(changed.z, step.z)
    nothing = GAUSSIANS.embed(params, rows(4), jnp.zeros(4))
    np.testing.assert_array_equal(nothing, 0.0)
    alone = GAUSSIANS.embed(params, rows(1), jnp.ones(1))
    output = oracles.mlp(in_float64(params), transitions(rows(1))[0])
    assert oracles.agree(alone, output[:LATENT])


def test_no_gradient_reaches_the_target_of_q() -> None:
    """At the learner's own z the loss through Q is the learner's own."""
    learner, z = view(), jnp.ones((6, LATENT))
    critic = learner.entry.critic
    assert critic is not None
    target = critic.target(learner.config, learner.state, META.batch, z, KEY)
    own = critic.loss(learner.state.q, META.batch, z, target)
    assert oracles.agree(learner.q_loss(META.batch, z, KEY), own)

    gradient = jax.grad(lambda z: learner.q_loss(META.batch, z, KEY))(z)
    fixed = jax.grad(lambda z: critic.loss(learner.state.q, META.batch, z, target))(z)
    assert oracles.agree(gradient, fixed)


def test_an_objective_is_whole() -> None:
    """One that leaves something out cannot even be made."""

    @dataclass(frozen=True, kw_only=True)
    class Unfinished(Objective):
        pass

    with pytest.raises(TypeError, match=r"embed.*init.*update"):
        Unfinished(encoder=ENCODER)  # type: ignore[abstract]


def test_what_has_no_phase_before_says_so() -> None:
    assert METRIC.num_pretraining_updates == 0
    with pytest.raises(NotImplementedError, match="Metric has no phase before"):
        METRIC.pretrain(*METRIC.init(KEY), META)


# --- A phase of its own ---------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Warmed(Objective):
    """A mean embedding; for three updates its encoder shrinks, and then it stays as it is."""

    @property
    def num_pretraining_updates(self) -> int:
        return 3

    def init(self, key: Key) -> tuple[Any, Any]:
        encoder = self.encoder.init(key)
        return {"encoder": encoder, "count": jnp.zeros(())}, optax.EmptyState()

    def pretrain(self, params: Any, opt: Any, meta: MetaBatch) -> Any:
        encoder = jax.tree.map(lambda x: 0.5 * x, params["encoder"])
        return {"encoder": encoder, "count": params["count"] + 1}, opt, {"count": params["count"]}

    def update(self, params: Any, opt: Any, meta: MetaBatch, learner: LearnerView) -> Step:
        z = jax.vmap(lambda one: self.embed(params["encoder"], one, jnp.ones(6)))(meta.contexts)
        return Step(params, opt, z, {"count": params["count"]})

    def operations(self, num_tasks: int, context_rows: int, batch_rows: int) -> int:
        return 7

    def pretraining_operations(self, num_tasks: int, context_rows: int, batch_rows: int) -> int:
        return num_tasks + 10 * context_rows + 1000 * batch_rows

    def trained_encoder(self, params: Any) -> Any:
        return params["encoder"]

    def embed(self, encoder: Any, these: Transition, weight: Any) -> Any:
        return Metric(encoder=self.encoder, weight=1.0).embed(encoder, these, weight)


@dataclass(frozen=True, kw_only=True)
class WarmedConfig(ContextConfig):
    kind: Any = "warmed"


def make_warmed(config: ContextConfig, spec: Spec) -> Warmed:
    return Warmed(encoder=config.encoder(spec))


WARMED: Any = ObjectiveEntry(
    name="warmed", label="Warmed", version=1, config=WarmedConfig, make=make_warmed
)


def warmed() -> ContextBased:
    small = tiny.ALGORITHMS["bc"].config
    settings = {name: getattr(small, name) for name in ContextConfig.__dataclass_fields__}
    with OBJECTIVES.registered(WARMED):
        made = make_algorithm(WarmedConfig(**settings), SPEC)
    assert isinstance(made, ContextBased)
    return made


def test_the_phases_of_either_phase() -> None:
    made = warmed()
    first, last = (phase for _, phase in made.phases)
    assert (first.phase, last.phase) == ("pretraining", "training")
    assert first.phases == last.phases == made.phases


def test_operations_are_those_of_the_phase() -> None:
    made = warmed()
    (_, first), (_, last) = made.phases
    config = made.config
    contexts, rows = (
        config.meta_batch_size * size for size in (config.context_size, config.batch_size)
    )
    assert first.operations() == config.meta_batch_size + 10 * contexts + 1000 * rows
    assert made.learner.operations is not None
    of_learner = rows * made.learner.operations(config.learner, SPEC, config.latent_dim)
    assert last.operations() == 7 + of_learner
    assert METRIC.pretraining_operations(1, 1, 1) is None, "nobody counts them"


def test_an_objective_may_begin_before_the_learner() -> None:
    made = warmed()
    assert [first for first, _ in made.phases] == [0, 3]
    states = [tiny.trained(made, num) for num in (0, 2, 3, 4)]
    assert [float(state.encoder["count"]) for state in states] == [0.0, 2.0, 3.0, 3.0]
    assert tiny.same(states[0].learner, states[2].learner), "the learner waits"
    assert not tiny.same(states[2].learner, states[3].learner)
    assert tiny.same(states[2].encoder, states[3].encoder)
    first, last = (tiny.leaves(states[place].encoder["encoder"]) for place in (0, 3))
    for before, after in zip(first, last, strict=True):
        np.testing.assert_array_equal(after, 0.125 * before, "halved by each of three updates")
    agent = made.finish(states[3], tiny.data())
    assert tiny.same(agent.encoder, states[3].encoder["encoder"]), "networks of its own stay behind"
