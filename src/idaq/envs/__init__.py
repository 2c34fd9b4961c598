"""The task families by name."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from idaq.envs.cheetah_vel import CheetahVel
from idaq.envs.family import JaxFamily, ScriptedHostFamily, TaskFamily, check_family, is_family
from idaq.envs.metaworld.sets import ml1_families
from idaq.envs.point_robot import PointRobot
from idaq.registry import Registry

POINT_FAMILIES: dict[str, JaxFamily] = {
    family.name: family for family in (PointRobot("dense"), PointRobot("sparse"))
}
CHEETAH_VEL = CheetahVel()
ML1_FAMILIES: dict[str, ScriptedHostFamily] = {family.name: family for family in ml1_families()}
BUILT_IN = (*POINT_FAMILIES.values(), CHEETAH_VEL, *ML1_FAMILIES.values())

FAMILIES: Registry[TaskFamily] = Registry(
    "task family",
    "families",
    is_family,
    check=lambda _, family: check_family(family),
    built_in=("idaq.envs:BUILT_IN",),
    listed_by="`idaq list` shows them all.",
)


def match_families(patterns: Iterable[str]) -> list[TaskFamily]:
    """The families that the patterns (`ml1/*`) name, each once, in order; or an error."""
    found: dict[str, TaskFamily] = {}
    for pattern in patterns:
        is_pattern = any(sign in pattern for sign in "*?[")
        names = [name for name in FAMILIES if fnmatchcase(name, pattern)] if is_pattern else []
        found |= {name: FAMILIES[name] for name in names} or {pattern: get_family(pattern)}
    return list(found.values())


def get_family(name: str) -> TaskFamily:
    """The family of that name, or an error that lists the names there are."""
    return FAMILIES.get_entry(name)
