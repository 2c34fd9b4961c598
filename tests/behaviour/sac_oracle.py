"""What soft actor-critic should compute, as float64 loops written from Haarnoja et al. (2018)."""

import math
from collections.abc import Sequence

from tests.oracles import Drawn, Floats, Layers, Rows, mlp, tanh_gaussian_log_density, td_target


def draw(
    policy: Layers,
    obs: Floats,
    condition: Floats,
    noise: Floats,
    *,
    log_std_min: float = -4.0,
    log_std_max: float = 2.0,
) -> Drawn:
    """A tanh-Gaussian action from standard normal noise; the log-std is squashed by tanh."""
    outputs = mlp(policy, [*obs, *condition])
    half = len(outputs) // 2
    mean = outputs[:half]
    share = [0.5 * (math.tanh(x) + 1.0) for x in outputs[half:]]
    log_std = [log_std_min + s * (log_std_max - log_std_min) for s in share]
    before = [m + math.exp(s) * float(n) for m, s, n in zip(mean, log_std, noise, strict=True)]
    action = [math.tanh(x) for x in before]
    return Drawn(action, tanh_gaussian_log_density(before, mean, log_std), mean, log_std)


def q_loss(
    q: Sequence[Layers],
    target_q: Sequence[Layers],
    policy: Layers,
    rows: Rows,
    noise: Floats,
    *,
    temperature: float,
    discount: float,
    reward_scale: float,
) -> float:
    """Both critics towards r + discount * (min target Q(s', a') - temperature * log pi(a'|s'))."""
    total = 0.0
    for i in range(len(rows)):
        drawn = draw(policy, rows.next_obs[i], rows.z[i], noise[i])
        following = [*rows.next_obs[i], *rows.z[i], *drawn.action]
        value = min(mlp(critic, following)[0] for critic in target_q)
        target = td_target(
            reward_scale * float(rows.reward[i]),
            float(rows.terminated[i]),
            value - temperature * drawn.log_prob,
            discount=discount,
        )
        for critic in q:
            found = mlp(critic, [*rows.obs[i], *rows.z[i], *rows.action[i]])[0]
            total += (found - target) ** 2 / len(rows)
    return total


def policy_loss(
    policy: Layers, q: Sequence[Layers], rows: Rows, noise: Floats, *, temperature: float
) -> float:
    """temperature * log pi(a|s) - min Q(s, a)."""
    total = 0.0
    for i in range(len(rows)):
        drawn = draw(policy, rows.obs[i], rows.z[i], noise[i])
        state = [*rows.obs[i], *rows.z[i], *drawn.action]
        total += temperature * drawn.log_prob - min(mlp(critic, state)[0] for critic in q)
    return total / len(rows)


def temperature_loss(
    log_temperature: float,
    policy: Layers,
    rows: Rows,
    noise: Floats,
    *,
    target_entropy: float,
) -> float:
    """-temperature * (log pi(a|s) + target entropy)."""
    total = 0.0
    for i in range(len(rows)):
        log_prob = draw(policy, rows.obs[i], rows.z[i], noise[i]).log_prob
        total -= math.exp(log_temperature) * (log_prob + target_entropy)
    return total / len(rows)
