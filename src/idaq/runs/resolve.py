"""From names to the configuration of a run: presets, and what is common to overriding them."""

from dataclasses import replace
from typing import Any

from idaq.algos.entries import ALGORITHMS, default_algorithm
from idaq.algos.presets import check_preset
from idaq.envs import get_family
from idaq.envs.family import TaskFamily, traits_of
from idaq.errors import IdaqError
from idaq.judges.base import JudgeConfig
from idaq.judges.ensemble import EnsembleConfig
from idaq.settings import RunConfig


def resolve(preset: str, family: TaskFamily | str, algorithm: str = "") -> RunConfig:
    """The configuration of a preset on a family, with a judge where the algorithm has one."""
    check_preset(preset)
    entry = ALGORITHMS.get_entry(algorithm or default_algorithm())
    known = get_family(family) if isinstance(family, str) else family
    return entry.preset(preset, traits_of(known))


def judge_kind(config: RunConfig) -> str | None:
    """Which judge a run trains, if it trains one."""
    judge = _judge_of(config)
    return None if judge is None else judge.kind


def without_judge(config: RunConfig) -> RunConfig:
    """The same run without anything that judges episodes."""
    if judge_kind(config) is None:
        return config
    return _with_judge(config, None)


def with_ensemble_size(config: RunConfig, size: int) -> RunConfig:
    """The same run with `size` models; 0 trains none."""
    if size < 0:
        raise IdaqError(f"The ensemble size L is {size}.", "Give 0 (no models) or at least 2.")
    if size == 1:
        raise IdaqError("The ensemble size L is 1.", "A variance needs at least 2 models.")
    if size == 0:
        return without_judge(config)
    if not ALGORITHMS[config.algorithm.kind].has_judge:
        raise IdaqError(
            f"'{config.algorithm.kind}' trains no models.",
            "Leave out `algorithm.ensemble.size`.",
        )
    current = _judge_of(config)
    ensemble = current if isinstance(current, EnsembleConfig) else EnsembleConfig()
    return _with_judge(config, replace(ensemble, size=size))


def _judge_of(config: RunConfig) -> JudgeConfig | None:
    """The judge of an algorithm that can have one, if it has it."""
    judge: JudgeConfig | None = getattr(config.algorithm, "judge", None)
    return judge


def _with_judge(config: RunConfig, judge: EnsembleConfig | None) -> RunConfig:
    algorithm: Any = config.algorithm
    return replace(config, algorithm=replace(algorithm, judge=judge))
