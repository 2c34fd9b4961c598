"""The task families by name."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from idaq.envs.cheetah_vel import CheetahVel
from idaq.envs.family import (
    DRAW_SIGN,
    KIND,
    JaxFamily,
    ScriptedHostFamily,
    TaskFamily,
    check_family,
    check_seed,
    is_family,
    is_redrawable,
)
from idaq.envs.metaworld.sets import ml1_families
from idaq.envs.point_robot import PointRobot
from idaq.registry import Registry

POINT_FAMILIES: dict[str, JaxFamily] = {
    family.name: family for family in (PointRobot("dense"), PointRobot("sparse"))
}
CHEETAH_VEL = CheetahVel()
ML1_FAMILIES: dict[str, ScriptedHostFamily] = {family.name: family for family in ml1_families()}
BUILT_IN = (*POINT_FAMILIES.values(), CHEETAH_VEL, *ML1_FAMILIES.values())


class Families(Registry[TaskFamily]):
    """The families, and other draws of their tasks: `NAME@7`."""

    def __getitem__(self, name: str) -> TaskFamily:
        base, sign, draw = name.partition(DRAW_SIGN)
        if not sign or name in self.added:
            return super().__getitem__(name)
        family = super().__getitem__(base)
        if not is_redrawable(family) or not (draw.isascii() and draw.isdigit()):
            raise KeyError(name)
        check_seed(int(draw))
        return family.redrawn(int(draw))

    def is_built_in(self, name: str) -> bool:
        return super().is_built_in(name.partition(DRAW_SIGN)[0])

    def _remedy(self, name: str) -> str:
        base, sign, _ = name.partition(DRAW_SIGN)
        if not sign or base not in self:
            return super()._remedy(base)
        if not is_redrawable(self[base]):
            return f"'{base}' has no other draws of its tasks."
        return f"Give a whole number after '{DRAW_SIGN}': a draw of the tasks of '{base}'."


FAMILIES = Families(
    KIND,
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
