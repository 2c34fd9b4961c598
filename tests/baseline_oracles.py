"""What OP+CL, MACAW and BOReL should compute, as float64 loops written from their papers.

Like `tests.oracles`, nothing here imports the package, and constants are keyword arguments.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tests.oracles import Floats, Layers, mlp

# --- OP+CL ----------------------------------------------------------------------------------


def product_of_gaussians(means: Floats, variances: Floats) -> tuple[Floats, Floats]:
    """PEARL, Section 4.1: the normalised product of factors [n, dim], one pair at a time."""
    mean, variance = means[0].copy(), variances[0].copy()
    for other_mean, other_variance in zip(means[1:], variances[1:], strict=True):
        total = variance + other_variance
        mean = (mean * other_variance + other_mean * variance) / total
        variance = variance * other_variance / total
    return mean, variance


def gaussian_kl(
    mean: Floats, variance: Floats, prior_mean: Floats, prior_variance: Floats
) -> float:
    """KL(N(mean, variance) || N(prior mean, prior variance)), summed over the dimensions."""
    total = 0.0
    for m, v, pm, pv in zip(mean, variance, prior_mean, prior_variance, strict=True):
        total += 0.5 * (math.log(pv / v) + (v + (m - pm) ** 2) / pv - 1.0)
    return total


# --- MACAW ----------------------------------------------------------------------------------


def discounted_returns(rewards: Sequence[float], discount: float) -> list[float]:
    """Per step, the sum over k of discount^k times the reward k steps later."""
    return [
        sum(discount**k * r for k, r in enumerate(rewards[start:])) for start in range(len(rewards))
    ]


def advantage_weights(
    advantages: Sequence[float], *, temperature: float = 1.0, most: float = 20.0
) -> list[float]:
    """exp(min(standardised A / T, ln 20))."""
    mean = sum(advantages) / len(advantages)
    std = math.sqrt(sum((a - mean) ** 2 for a in advantages) / len(advantages))
    return [math.exp(min((a - mean) / std / temperature, math.log(most))) for a in advantages]


def emitted(code: Floats, weight: Floats, bias: Floats) -> Floats:
    """What a weight-transform layer emits."""
    values = bias.copy()
    for place in range(len(bias)):
        for row in range(len(code)):
            values[place] += code[row] * weight[row, place]
    return values


Tensors = tuple[Floats, Floats, Floats]  # code, map, bias of the map
TensorRates = tuple[float, float, float]


def stepped(tensors: Tensors, rates: TensorRates, gradient: Floats) -> Tensors:
    """One gradient step of all three tensors, given the gradient of the emitted weights."""
    code, weight, bias = tensors
    code_gradient = np.asarray([float(row @ gradient) for row in weight])
    map_gradient = np.asarray([[c * g for g in gradient] for c in code])
    return (
        code - rates[0] * code_gradient,
        weight - rates[1] * map_gradient,
        bias - rates[2] * gradient,
    )


def as_layers(flat: Floats, sizes: Sequence[int]) -> Layers:
    """All emitted weights as the layers of a network: each one's weights, then its biases."""
    layers: Layers = []
    start = 0
    for rows, columns in pairwise(sizes):
        weight = flat[start : start + rows * columns].reshape(rows, columns)
        start += rows * columns
        layers.append({"weight": weight, "bias": flat[start : start + columns]})
        start += columns
    return layers


def value_loss(flat: Floats, sizes: Sequence[int], obs: Floats, target: Floats) -> float:
    """The mean squared error towards the Monte-Carlo returns."""
    layers = as_layers(flat, sizes)
    errors = [(mlp(layers, o)[0] - t) ** 2 for o, t in zip(obs, target, strict=True)]
    return float(sum(errors) / len(errors))


def policy_loss(
    flat: Floats,
    sizes: Sequence[int],
    obs: Floats,
    action: Floats,
    advantages: Sequence[float],
    *,
    head: Layers | None = None,
    head_weight: float = 0.0,
    std: float = 0.2,
    temperature: float = 1.0,
    most: float = 20.0,
) -> float:
    """Minus the advantage-weighted log density, up to its constant, and the head's error."""
    layers = as_layers(flat, sizes)
    weights = advantage_weights(advantages, temperature=temperature, most=most)
    total = 0.0
    for o, a, w, advantage in zip(obs, action, weights, advantages, strict=True):
        features = [max(x, 0.0) for x in mlp(layers[:-1], o)]
        mean = [math.tanh(x) for x in mlp(layers[-1:], features)]
        total += w * sum((x - m) ** 2 for x, m in zip(a, mean, strict=True)) / (2 * std**2)
        if head is not None:
            total += head_weight * (mlp(head, [*features, *a])[0] - advantage) ** 2
    return total / len(obs)


def inner_step(layers: Sequence[Tensors], rates: Sequence[TensorRates], gradient: Floats) -> Floats:
    """All emitted weights of a network after one step of all tensors of its layers."""
    result, start = [], 0
    for tensors, rate in zip(layers, rates, strict=True):
        size = len(tensors[2])
        result.append(emitted(*stepped(tensors, rate, gradient[start : start + size])))
        start += size
    return np.concatenate(result)


# --- BOReL ----------------------------------------------------------------------------------


def sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x))


def gru(memory: Floats, projected: Floats, recurrent: Floats, bias: Floats) -> Floats:
    """One step of a GRU, a unit at a time; gates are reset, update, candidate."""
    size = len(memory)
    from_memory = [
        float(bias[i]) + sum(memory[j] * recurrent[j, i] for j in range(size))
        for i in range(3 * size)
    ]
    after = np.zeros(size)
    for i in range(size):
        reset = sigmoid(projected[i] + from_memory[i])
        update = sigmoid(projected[size + i] + from_memory[size + i])
        candidate = math.tanh(projected[2 * size + i] + reset * from_memory[2 * size + i])
        after[i] = (1.0 - update) * candidate + update * memory[i]
    return after


def elbo_terms(
    decoder: Layers,
    means: Floats,
    log_variances: Floats,
    noise: Floats,
    steps: Sequence[Sequence[float]],
    rewards: Sequence[float],
) -> tuple[float, float]:
    """Both terms for one sequence, averaged over its prefixes.

    `means`, `log_variances` and `noise` are [steps + 1, dim]; a step is (s, a, s') in one list.
    """
    dim = means.shape[1]
    reconstruction, chain = 0.0, 0.0
    previous = (np.zeros(dim), np.ones(dim))
    for mean, log_variance, n in zip(means, log_variances, noise, strict=True):
        variance = np.exp(log_variance)
        latent = mean + np.sqrt(variance) * n
        for step, reward in zip(steps, rewards, strict=True):
            reconstruction += (mlp(decoder, [*latent, *step])[0] - reward) ** 2
        chain += gaussian_kl(mean, variance, *previous)
        previous = (mean, variance)
    return reconstruction / len(means), chain / len(means)
