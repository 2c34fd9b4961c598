"""The 50 task sets of ML1 by the paper's names, and what is fixed in their scripted experts.

This file is data only and needs no simulator.
"""

from dataclasses import dataclass

NEVER = 1_000_000  # successful steps in a row, more than an episode has: the hand never stays

_NAMES = """
assembly basketball bin-picking box-close button-press button-press-topdown
button-press-topdown-wall button-press-wall coffee-button coffee-pull coffee-push dial-turn
disassemble door-close door-lock door-open door-unlock drawer-close drawer-open faucet-close
faucet-open hammer hand-insert handle-press handle-press-side handle-pull handle-pull-side
lever-pull peg-insert-side peg-unplug-side pick-out-of-hole pick-place pick-place-wall plate-slide
plate-slide-back plate-slide-back-side plate-slide-side push push-back push-wall reach reach-wall
shelf-place soccer stick-pull stick-push sweep sweep-into window-close window-open
"""


@dataclass(frozen=True)
class Fix:
    """What an expert does differently from metaworld's script. The default is the script itself.

    Lengths are in metres; x points to the robot's right, y away from it, z up.
    """

    hold_after: int = NEVER  # successful steps in a row after which the hand stays where it is
    hold_lift: float = 0.0  # it stays this much higher
    hold_gripper: float | None = None  # the gripper's command meanwhile; the last one, if None
    open_wide: bool = False  # a gripper that the script leaves alone (command 0) is opened
    # added to the true positions before the script sees them
    shift_object: tuple[float, float, float] = (0.0, 0.0, 0.0)
    shift_goal: tuple[float, float, float] = (0.0, 0.0, 0.0)


# docs/ml1-experts.md says why, set by set
FIXES = {
    "box-close": Fix(hold_after=8, shift_object=(-0.004, -0.004, 0.0)),
    "button-press": Fix(shift_object=(0.0, 0.0, 0.12)),
    "button-press-topdown-wall": Fix(shift_object=(0.0, 0.077, 0.0)),
    "coffee-button": Fix(shift_object=(0.0, 0.0, 0.13)),
    "door-open": Fix(shift_object=(0.01, 0.0, 0.0)),
    "door-unlock": Fix(hold_after=8),
    "faucet-close": Fix(hold_after=8),
    "faucet-open": Fix(hold_after=8),
    "hammer": Fix(hold_after=8),
    "hand-insert": Fix(hold_after=8, open_wide=True),
    "handle-press": Fix(hold_after=1, hold_lift=0.035),
    "handle-press-side": Fix(hold_after=1),
    "handle-pull-side": Fix(hold_after=60),
    "lever-pull": Fix(hold_after=1),
    "peg-insert-side": Fix(shift_object=(0.0, 0.0, 0.008)),
    "peg-unplug-side": Fix(hold_after=20, hold_gripper=0.6),
    "pick-out-of-hole": Fix(hold_after=60),
    "plate-slide": Fix(hold_after=8),
    "plate-slide-back": Fix(hold_after=8),
    "plate-slide-back-side": Fix(hold_after=8),
    "plate-slide-side": Fix(hold_after=8),
    "push": Fix(hold_after=8, open_wide=True),
    "push-back": Fix(hold_after=8, shift_object=(0.0, 0.0, -0.005)),
    "push-wall": Fix(hold_after=8),
    "reach": Fix(shift_goal=(0.0, 0.0, 0.045)),
    "reach-wall": Fix(shift_goal=(0.0, 0.0, 0.03)),
    "shelf-place": Fix(hold_after=8),
    "stick-pull": Fix(shift_goal=(0.05, -0.03, 0.14)),
    "stick-push": Fix(hold_after=8),
    "sweep-into": Fix(hold_after=1, shift_object=(0.0, 0.0, 0.01)),
    "window-open": Fix(shift_object=(0.0, 0.03, 0.12)),
}


def ml1_names() -> list[str]:
    """The paper's names, sorted."""
    return _NAMES.split()
