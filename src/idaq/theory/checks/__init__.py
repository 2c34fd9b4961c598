"""The paper's statements as named checks.

A check computes what a statement claims and says whether it holds. A statement that is false as
printed has a check whose name ends in `-as-printed`, which shows a minimal counterexample, and
beside it a check of the corrected form.
"""

from idaq.theory.checks.record import Check, Settings
from idaq.theory.checks.registry import check_names, is_as_expected, run_checks

__all__ = ["Check", "Settings", "check_names", "is_as_expected", "run_checks"]
