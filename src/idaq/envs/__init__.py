"""The task families by name."""

from difflib import get_close_matches

from idaq.envs.base import TaskFamily
from idaq.envs.point_robot import PointRobot
from idaq.errors import IdaqError

FAMILIES: dict[str, TaskFamily] = {
    family.name: family for family in (PointRobot("dense"), PointRobot("sparse"))
}


def get_family(name: str) -> TaskFamily:
    """The family of that name, or an error that lists the names there are."""
    if name not in FAMILIES:
        close = get_close_matches(name, FAMILIES, n=1)
        hint = f"Did you mean '{close[0]}'? " if close else ""
        raise IdaqError(
            f"There is no task family '{name}'.", f"{hint}Known: {', '.join(FAMILIES)}."
        )
    return FAMILIES[name]
