"""What a check returns, its settings, and how it writes numbers."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from fractions import Fraction

from idaq.theory.families import TabularFamily
from idaq.theory.lemmas import Inequality
from idaq.theory.random_families import Choose, draw_family


@dataclass(frozen=True, kw_only=True)
class Check:
    """One statement of the paper, and what computing it gives.

    `holds` is None where the statement is a bound that says nothing (`vacuous`).
    """

    name: str
    statement: str
    paper: str
    computed: str
    holds: bool | None
    vacuous: bool = False
    note: str = ""

    def as_dict(self) -> dict[str, str | bool | None]:
        """The check as JSON writes it."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How much to compute."""

    v_range: range = range(3, 11)
    num_families: int = 200
    num_datasets: int = 400
    seed: int = 0

    @property
    def v_text(self) -> str:
        """The range of v as it is written on the command line."""
        first, last = self.v_range[0], self.v_range[-1]
        return f"v = {first}" if first == last else f"v = {first}..{last}"

    def families(self, *, max_horizon: int = 2) -> Iterator[tuple[TabularFamily, Choose]]:
        """Random families, each with the source of integers that it was drawn from."""
        choose = random.Random(self.seed).randint
        for _ in range(self.num_families):
            yield draw_family(choose, max_horizon=max_horizon), choose


def listed(values: Iterable[Fraction | int]) -> str:
    """Exact numbers in a row, or one of them when they all agree."""
    texts = [str(value) for value in values]
    return texts[0] if len(set(texts)) == 1 else ", ".join(texts)


def number(value: Fraction | float) -> str:
    """A number to three significant digits."""
    return f"{float(value):.3g}"


def judge(instances: Iterable[Inequality]) -> tuple[bool | None, bool, str]:
    """Whether inequalities hold where they are informative: (holds, vacuous, what was seen)."""
    seen = list(instances)
    informative = [instance for instance in seen if not instance.is_vacuous]
    violations = sum(not instance.holds for instance in informative)
    ratios = [float(i.left / i.right) for i in informative if i.right]
    summary = (
        f"{violations} violations in {len(informative)} cases; left side at most "
        f"{number(max(ratios, default=0.0))} of the bound"
    )
    if not informative:
        return None, True, summary
    return violations == 0, False, summary
