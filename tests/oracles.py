"""What the code should compute, as float64 loops written from the paper.

Nothing here imports the package. Every constant is a keyword argument, so that a test can change
one and see the comparison fail. Where the paper names no formula (the metric loss and the BRAC
learner are FOCAL's), the definition is that of the released implementation, cited as such.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Layers = list[dict[str, Floats]]

# --- Comparison -----------------------------------------------------------------------------


def agree(actual: Any, expected: Any, rtol: float = 2e-5, atol: float = 1e-6) -> bool:
    """Equal up to single precision."""
    return bool(np.allclose(np.asarray(actual, np.float64), expected, rtol=rtol, atol=atol))


# --- Elements -------------------------------------------------------------------------------


def softplus(x: float) -> float:
    """log(1 + exp(x))."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def mlp(layers: Layers, inputs: Sequence[float]) -> list[float]:
    """A fully connected network, ReLU between the layers, one unit at a time."""
    values = [float(x) for x in inputs]
    for number, layer in enumerate(layers):
        outputs = []
        for unit in range(layer["weight"].shape[1]):
            total = float(layer["bias"][unit])
            for place, value in enumerate(values):
                total += value * float(layer["weight"][place, unit])
            is_last = number == len(layers) - 1
            outputs.append(total if is_last else max(total, 0.0))
        values = outputs
    return values


def tanh_gaussian_log_density(
    before_tanh: Sequence[float],
    mean: Sequence[float],
    log_std: Sequence[float],
    *,
    normaliser: float = 2.0 * math.pi,
) -> float:
    """The log density of a = tanh(x), x normal: log N(x) - sum of log |da/dx|."""
    total = 0.0
    for x, mu, rho in zip(before_tanh, mean, log_std, strict=True):
        std = math.exp(rho)
        total += -0.5 * ((x - mu) / std) ** 2 - math.log(std) - 0.5 * math.log(normaliser)
        total -= math.log(1.0 - math.tanh(x) ** 2)
    return total


# --- FOCAL's encoder ------------------------------------------------------------------------


def metric_loss(
    embedding: Floats,
    task: Sequence[int],
    *,
    same_epsilon: float = 1e-3,
    different_epsilon: float = 0.1,
) -> float:
    """FOCAL's distance metric loss, as released (Section 2.3 of the paper refers to it).

    Per pair, with d2 the mean squared difference over the dimensions: sqrt(d2 + 1e-3) for one
    task, 1 / (d2 + 0.1) for two; each kind is averaged.
    """
    same, different = [], []
    for i in range(len(task)):
        for j in range(i):
            d2 = 0.0
            for x, y in zip(embedding[i], embedding[j], strict=True):
                d2 += (float(x) - float(y)) ** 2 / embedding.shape[1]
            if task[i] == task[j]:
                same.append(math.sqrt(d2 + same_epsilon))
            else:
                different.append(1.0 / (d2 + different_epsilon))
    return sum(
        sum(kind) / len(kind) for kind in (same, different) if kind
    )  # a kind without pairs costs nothing


def embed_context(layers: Layers, transitions: Sequence[Sequence[float]]) -> Floats:
    """q(z|c): the mean over the transitions (s, a, r) of tanh of the network's output."""
    total = np.zeros(layers[-1]["bias"].shape[0])
    for transition in transitions:
        for place, value in enumerate(mlp(layers, transition)):
            total[place] += math.tanh(value) / len(transitions)
    return total


# --- The SAC and BRAC learner ---------------------------------------------------------------


class Rows(NamedTuple):
    """A batch of transitions and the embedding of each one's task."""

    obs: Floats  # [n, obs_dim]
    action: Floats  # [n, action_dim], in [-1, 1]
    reward: Floats  # [n]
    next_obs: Floats  # [n, obs_dim]
    terminated: Floats  # [n], 0 or 1
    z: Floats  # [n, latent_dim]

    def __len__(self) -> int:
        return len(self.reward)


def td_target(
    reward: float, terminated: float, next_value: float, *, discount: float = 0.99
) -> float:
    """r + discount * V(s'), and r alone where the task ended."""
    return reward if terminated else reward + discount * next_value


def dual_divergence(
    at_policy: float, at_data: float, *, epsilon: float = 1e-8, shift: float = 1.0
) -> float:
    """BRAC's KL in dual form: D = -softplus(c(a_data)) + log(softplus(c(a_policy)) + 1e-8) + 1."""
    return -softplus(at_data) + math.log(softplus(at_policy) + epsilon) + shift


def dual_penalty(at_between: Sequence[float], *, bound: float = 1.0) -> float:
    """The mean square of the excess of |c| over 1, between data and policy actions."""
    total = 0.0
    for value in at_between:
        total += max(math.sqrt(value**2 + 1e-8) - bound, 0.0) ** 2
    return total / len(at_between)


def next_alpha(
    alpha: float, divergence: float, *, target: float = 0.05, largest: float = 2000.0
) -> float:
    """Alpha rises by D - 0.05 per update and stays in [0, 2000]."""
    return min(max(alpha + divergence - target, 0.0), largest)


def q_loss(
    q: Sequence[Layers],
    target_v: Layers,
    rows: Rows,
    *,
    discount: float = 0.99,
    reward_scale: float = 1.0,
) -> float:
    """The squared errors of both critics towards r + discount * target V(s', z)."""
    total = 0.0
    for i in range(len(rows)):
        next_value = mlp(target_v, [*rows.next_obs[i], *rows.z[i]])[0]
        target = td_target(
            reward_scale * float(rows.reward[i]),
            float(rows.terminated[i]),
            next_value,
            discount=discount,
        )
        for critic in q:
            value = mlp(critic, [*rows.obs[i], *rows.z[i], *rows.action[i]])[0]
            total += (value - target) ** 2 / len(rows)
    return total


class Drawn(NamedTuple):
    """What the policy drew for one state."""

    action: list[float]
    log_prob: float
    mean: list[float]
    log_std: list[float]


def draw(
    policy: Layers,
    obs: Floats,
    z: Floats,
    noise: Floats,
    *,
    log_std_min: float = -20.0,
    log_std_max: float = 0.0,
) -> Drawn:
    """A tanh-Gaussian action from standard normal noise."""
    outputs = mlp(policy, [*obs, *z])
    half = len(outputs) // 2
    mean = outputs[:half]
    log_std = [min(max(x, log_std_min), log_std_max) for x in outputs[half:]]
    before = [m + math.exp(s) * float(n) for m, s, n in zip(mean, log_std, noise, strict=True)]
    action = [math.tanh(x) for x in before]
    return Drawn(action, tanh_gaussian_log_density(before, mean, log_std), mean, log_std)


def policy_loss(
    policy: Layers,
    q: Sequence[Layers],
    dual: Layers | None,
    alpha: float,
    rows: Rows,
    noise: Floats,
    *,
    entropy_weight: float = 1.0,
    mean_regulariser: float = 1e-3,
    log_std_regulariser: float = 1e-3,
    log_std_max: float = 0.0,
) -> float:
    """log pi(a|s, z) - min Q + alpha D, and the small regularisers of mean and log-std."""
    total = 0.0
    for i in range(len(rows)):
        drawn = draw(policy, rows.obs[i], rows.z[i], noise[i], log_std_max=log_std_max)
        state = [*rows.obs[i], *rows.z[i]]
        value = min(mlp(critic, [*state, *drawn.action])[0] for critic in q)
        total += entropy_weight * drawn.log_prob - value
        total += mean_regulariser * sum(m**2 for m in drawn.mean) / len(drawn.mean)
        total += log_std_regulariser * sum(s**2 for s in drawn.log_std) / len(drawn.log_std)
        if dual is not None:
            at_policy = mlp(dual, [*state, *drawn.action])[0]
            at_data = mlp(dual, [*state, *rows.action[i]])[0]
            total += alpha * dual_divergence(at_policy, at_data)
    return total / len(rows)


def mean_divergence(policy: Layers, dual: Layers, rows: Rows, noise: Floats) -> float:
    """D averaged over a batch, by which alpha moves."""
    total = 0.0
    for i in range(len(rows)):
        state = [*rows.obs[i], *rows.z[i]]
        action = draw(policy, rows.obs[i], rows.z[i], noise[i]).action
        at_policy, at_data = (
            mlp(dual, [*state, *action])[0],
            mlp(dual, [*state, *rows.action[i]])[0],
        )
        total += dual_divergence(at_policy, at_data)
    return total / len(rows)


def v_loss(
    v: Layers,
    policy: Layers,
    q: Sequence[Layers],
    rows: Rows,
    noise: Floats,
    *,
    entropy_weight: float = 1.0,
) -> float:
    """The squared error of V(s, z) towards min Q(s, a, z) - log pi(a|s, z)."""
    total = 0.0
    for i in range(len(rows)):
        state = [*rows.obs[i], *rows.z[i]]
        drawn = draw(policy, rows.obs[i], rows.z[i], noise[i])
        value = min(mlp(critic, [*state, *drawn.action])[0] for critic in q)
        target = value - entropy_weight * drawn.log_prob
        total += (mlp(v, state)[0] - target) ** 2
    return total / len(rows)


def dual_loss(
    dual: Layers,
    rows: Rows,
    policy_action: Floats,
    between: Floats,
    *,
    penalty_weight: float = 5.0,
) -> float:
    """What the dual critic minimises: 5 times the penalty, minus D.

    `between` [n] in [0, 1] places the penalised action: 0 is the policy's, 1 is the data's.
    """
    total, logits = 0.0, []
    for i in range(len(rows)):
        state = [*rows.obs[i], *rows.z[i]]
        mixed = policy_action[i] + between[i] * (rows.action[i] - policy_action[i])
        at_policy = mlp(dual, [*state, *policy_action[i]])[0]
        at_data = mlp(dual, [*state, *rows.action[i]])[0]
        logits.append(mlp(dual, [*state, *mixed])[0])
        total -= dual_divergence(at_policy, at_data) / len(rows)
    return total + penalty_weight * dual_penalty(logits)


# --- TD3+BC ---------------------------------------------------------------------------------


def td3_q_loss(
    q: Sequence[Layers],
    target_q: Sequence[Layers],
    target_policy: Layers,
    rows: Rows,
    noise: Floats,
    *,
    discount: float = 0.99,
    noise_scale: float = 0.2,
    noise_max: float = 0.5,
) -> float:
    """Both critics towards r + discount * min Q'(s', clipped noisy action of the target policy)."""
    total = 0.0
    for i in range(len(rows)):
        next_state = [*rows.next_obs[i], *rows.z[i]]
        next_action = []
        for output, n in zip(mlp(target_policy, next_state), noise[i], strict=True):
            shake = min(max(noise_scale * float(n), -noise_max), noise_max)
            next_action.append(min(max(math.tanh(output) + shake, -1.0), 1.0))
        next_value = min(mlp(critic, [*next_state, *next_action])[0] for critic in target_q)
        target = td_target(
            float(rows.reward[i]), float(rows.terminated[i]), next_value, discount=discount
        )
        for critic in q:
            value = mlp(critic, [*rows.obs[i], *rows.z[i], *rows.action[i]])[0]
            total += (value - target) ** 2 / len(rows)
    return total


def td3_bc_policy_loss(
    q: Sequence[float], action: Floats, data_action: Floats, *, bc_weight: float = 1.0
) -> float:
    """Fujimoto & Gu (2021): -Q / mean|Q| plus the mean squared distance to the data's actions."""
    size = sum(abs(value) for value in q) / len(q)
    value = sum(q) / len(q) / size
    squares = [
        (float(a) - float(b)) ** 2 for a, b in zip(action.flat, data_action.flat, strict=True)
    ]
    return -value + bc_weight * sum(squares) / len(squares)


def td3_policy_terms(policy: Layers, critic: Layers, rows: Rows) -> tuple[list[float], Floats]:
    """The critic's values of the policy's actions, and those actions."""
    values, actions = [], []
    for i in range(len(rows)):
        state = [*rows.obs[i], *rows.z[i]]
        action = [math.tanh(x) for x in mlp(policy, state)]
        values.append(mlp(critic, [*state, *action])[0])
        actions.append(action)
    return values, np.asarray(actions)


# --- The ensemble of models and the uncertainties -------------------------------------------


def model_loss(
    reward: Floats,
    next_obs: Floats,
    rewards: Floats,
    next_observations: Floats,
    *,
    reward_weight: float = 1.0,
    state_weight: float = 1.0,
) -> float:
    """Appendix B: E[1/L sum_i (r - r_i)^2 + ||s' - p_i||^2]."""
    num_models, num = rewards.shape
    total = 0.0
    for t in range(num):
        for i in range(num_models):
            total += reward_weight * (reward[t] - rewards[i, t]) ** 2
            for d in range(next_obs.shape[1]):
                total += state_weight * (next_obs[t, d] - next_observations[i, t, d]) ** 2
    return float(total / (num * num_models))


class Seen(NamedTuple):
    """One episode as the models saw it; only the first `length` steps took place."""

    reward: Floats  # [horizon]
    next_obs: Floats  # [horizon, obs_dim]
    rewards: Floats  # [L, horizon]
    next_observations: Floats  # [L, horizon, obs_dim]
    length: int


def _distance(x: Floats, y: Floats) -> float:
    return math.sqrt(sum((float(a) - float(b)) ** 2 for a, b in zip(x, y, strict=True)))


def return_uncertainty(episodes: Sequence[Seen], *, sign: float = -1.0) -> float:
    """Q_RE (Section 4.2): -1/n_e sum_i sum_t r_t^i."""
    total = 0.0
    for episode in episodes:
        for t in range(episode.length):
            total += float(episode.reward[t])
    return sign * total / len(episodes)


def prediction_error(
    episodes: Sequence[Seen], *, reward_weight: float = 1.0, state_weight: float = 1.0
) -> float:
    """Q_PE (Section 4.2): 1/(HL) sum_t sum_i |r_t - r_i| + ||s_{t+1} - p_i||_2.

    The mean over the hypothesis's n_e episodes, H being each one's own length.
    """
    total = 0.0
    for seen in episodes:
        num_models, one = len(seen.rewards), 0.0
        for t in range(seen.length):
            for i in range(num_models):
                one += reward_weight * abs(float(seen.reward[t]) - float(seen.rewards[i, t]))
                one += state_weight * _distance(seen.next_obs[t], seen.next_observations[i, t])
        total += one / (seen.length * num_models)
    return total / len(episodes)


def prediction_variance(
    episodes: Sequence[Seen], *, reward_weight: float = 1.0, state_weight: float = 1.0
) -> float:
    """Q_PV (Section 4.2): 1/H sum_t max_{i,j} |r_i - r_j| + ||p_i - p_j||_2."""
    total = 0.0
    for seen in episodes:
        one = 0.0
        for t in range(seen.length):
            largest = 0.0
            for i in range(len(seen.rewards)):
                for j in range(len(seen.rewards)):
                    gap = reward_weight * abs(float(seen.rewards[i, t]) - float(seen.rewards[j, t]))
                    gap += state_weight * _distance(
                        seen.next_observations[i, t], seen.next_observations[j, t]
                    )
                    largest = max(largest, gap)
            one += largest
        total += one / seen.length
    return total / len(episodes)


def quantile_threshold(values: Sequence[float], keep_percent: Fraction | int) -> float:
    """Section 4.1's bottom k% quantile: the smallest value that at least k% do not exceed."""
    for candidate in sorted(values):
        at_or_below = sum(1 for value in values if value <= candidate)
        if Fraction(at_or_below, len(values)) >= Fraction(keep_percent) / 100:
            return candidate
    raise AssertionError("k is at most 100")


class Replay(NamedTuple):
    """What Algorithm 1 should have decided, given what happened."""

    hypotheses: list[Floats]
    uncertainty: list[float]
    kept: list[bool]
    threshold: float
    thresholds: list[float]  # that each episode was judged by; the final one would have been
    tied: bool


def replay_idaq(
    reference: Sequence[Floats],
    quantify: Callable[[Floats, list[int]], float],
    *,
    num_reference: int,
    num_iterative: int,
    repeats: int,
    keep_percent: int,
    improvement: bool,
    best: bool,
    untried: Sequence[Floats] | None = None,
    logs: float | None = None,
) -> Replay:
    """Algorithm 1, for an agent whose belief is the mean of the hypotheses of kept episodes.

    `reference` holds the hypotheses of the reference stage; `quantify` gives the uncertainty of
    a hypothesis from the numbers of the episodes that it ran. Every hypothesis except the final
    one runs `repeats` episodes.

    With `improvement`, an iterative episode joins only if it is better than all before it. With
    `best`, the final episode replays the hypothesis of the lowest uncertainty. With `untried` (the
    prior), if the belief was run already, the iterative stage runs instead the hypothesis of the
    prior that was not run yet and is nearest to the best one so far. With `logs` (the uncertainty
    of a logged episode) and as long as the best value is farther from the logs than from the mean
    value, it runs the hypothesis that is farthest from all those run; a hypothesis then counts as
    run if one that was run is closer than a tenth of the prior's median distance.
    """
    total = num_reference + num_iterative
    hypotheses: list[Floats] = []
    uncertainty: list[float] = []
    kept: list[bool] = []

    def believe() -> Floats:
        chosen = [h for h, keep in zip(hypotheses, kept, strict=True) if keep]
        return np.asarray(np.mean(chosen, axis=0), np.float64)

    tolerance = 1e-6
    if logs is not None and untried:
        pairs = itertools.combinations(untried, 2)
        tolerance = 0.1 * float(np.median([_distance(a, b) for a, b in pairs]))

    def was_run(hypothesis: Floats) -> bool:
        return any(_distance(hypothesis, other) <= tolerance for other in hypotheses)

    def best_so_far() -> Floats:
        return hypotheses[uncertainty.index(min(uncertainty))]

    def propose() -> Floats:
        belief = believe()
        fresh = [h for h in untried or () if not was_run(h)]
        if logs is not None and fresh and min(uncertainty) > (logs + np.mean(uncertainty)) / 2:
            return max(fresh, key=lambda h: min(_distance(h, other) for other in hypotheses))
        if not was_run(belief) or not fresh:
            return belief
        return min(fresh, key=lambda h: _distance(h, best_so_far()))

    def run(hypothesis: Floats) -> float:
        numbers = list(range(len(hypotheses), len(hypotheses) + repeats))
        hypotheses.extend([hypothesis] * repeats)
        value = quantify(hypothesis, numbers)
        uncertainty.extend([value] * repeats)
        return value

    # line 3: the reference stage
    for hypothesis in reference:
        run(hypothesis)
        kept.extend([False] * repeats)
    once_each = uncertainty[::repeats]
    threshold = quantile_threshold(once_each, keep_percent)
    kept = [value <= threshold for value in uncertainty]  # line 4, equation (1)
    thresholds = [threshold] * len(uncertainty)
    tied = len(once_each) > 1 and len(set(once_each)) == 1

    # lines 5 to 8: the iterative stage, but for the final episode
    while len(hypotheses) < total - 1:
        before = min(uncertainty)
        value = run(propose())
        accepted = value < before if improvement else value <= threshold
        kept.extend([accepted] * repeats)
        thresholds.extend([before if improvement else threshold] * repeats)
        if improvement:
            threshold = min(threshold, value)

    # line 9: the final policy; only its episode is scored
    final = best_so_far() if best else believe()
    thresholds.append(min(uncertainty) if improvement else threshold)
    hypotheses.append(final)
    uncertainty.append(quantify(final, [total - 1]))
    kept.append(False)
    return Replay(hypotheses, uncertainty, kept, threshold, thresholds, tied)


# --- Statistics -----------------------------------------------------------------------------


def scores(returns: Floats, reference: float, *, cap: float = math.inf) -> list[float]:
    """Per seed, the return averaged over tasks, divided by a reference return; at most `cap`."""
    result = []
    for seed_returns in returns:
        total = 0.0
        for value in seed_returns:
            total += float(value)
        result.append(min(total / len(seed_returns) / reference, cap))
    return result


def bootstrap_interval(
    values: Sequence[float], *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Section 5: the percentile bootstrap interval of the mean over seeds."""
    choice = np.random.default_rng(seed).integers(0, len(values), (resamples, len(values)))
    means: list[float] = []
    for row in choice.tolist():
        means.append(sum(values[i] for i in row) / len(values))
    means.sort()

    def quantile(share: float) -> float:
        place = share * (resamples - 1)
        below = math.floor(place)
        above = min(below + 1, resamples - 1)
        return means[below] + (place - below) * (means[above] - means[below])

    return quantile((1.0 - level) / 2.0), quantile((1.0 + level) / 2.0)


# --- Optimisation ---------------------------------------------------------------------------


def numerical_gradient(loss: Callable[[Floats], float], at: Floats, step: float = 1e-5) -> Floats:
    """Central differences."""
    gradient = np.zeros_like(at)
    for place in range(at.size):
        moved = at.copy()
        moved[place] = at[place] + step
        above = loss(moved)
        moved[place] = at[place] - step
        gradient[place] = (above - loss(moved)) / (2.0 * step)
    return gradient


class Adam:
    """Kingma & Ba (2015), Algorithm 1."""

    def __init__(self, size: int, learning_rate: float) -> None:
        self.learning_rate = learning_rate
        self.count = 0
        self.first, self.second = np.zeros(size), np.zeros(size)

    def step(self, values: Floats, gradient: Floats) -> Floats:
        """The values after one step."""
        self.count += 1
        result = values.copy()
        for i in range(values.size):
            self.first[i] = 0.9 * self.first[i] + 0.1 * gradient[i]
            self.second[i] = 0.999 * self.second[i] + 0.001 * gradient[i] ** 2
            mean = self.first[i] / (1.0 - 0.9**self.count)
            size = math.sqrt(self.second[i] / (1.0 - 0.999**self.count))
            result[i] -= self.learning_rate * mean / (size + 1e-8)
        return result


def flatten(layers: Layers) -> Floats:
    """All parameters of a network in one vector."""
    return np.concatenate([layer[name].ravel() for layer in layers for name in ("weight", "bias")])


def unflatten(values: Floats, like: Layers) -> Layers:
    """The inverse of `flatten`."""
    layers: Layers = []
    start = 0
    for layer in like:
        made = {}
        for name in ("weight", "bias"):
            size = layer[name].size
            made[name] = values[start : start + size].reshape(layer[name].shape)
            start += size
        layers.append(made)
    return layers
