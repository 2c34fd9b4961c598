"""Write the golden numbers anew: `python -m tests.golden.regenerate`.

It refuses when numbers changed although none of their versions was raised: a result that changes
has another version, so that no cached result of the old code passes for one of the new. Raise
the `version` of the family, the algorithm or the adapter that changed, then run this.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tests.golden.cases import CASES, NEEDS, Golden, Numbers, can_run

FILE = Path(__file__).with_name("golden.json")
RTOL, ATOL = 1e-4, 1e-5  # what rounding on other machines may amount to

Stored = dict[str, dict[str, Any]]


def load() -> Stored:
    """The stored numbers by case."""
    stored: Stored = json.loads(FILE.read_text(encoding="utf-8"))
    return stored


def differing(stored: Numbers, computed: Numbers) -> list[str]:
    """The names whose numbers do not agree."""
    odd = set(stored) ^ set(computed)
    for name in set(stored) & set(computed):
        before, now = np.asarray(stored[name]), np.asarray(computed[name])
        same_shape = before.shape == now.shape
        if not (same_shape and np.allclose(before, now, rtol=RTOL, atol=ATOL, equal_nan=True)):
            odd.add(name)
    return sorted(odd)


def verdict(stored: dict[str, Any] | None, computed: Golden) -> str:
    """`new`, `same`, `raised` (another version, write it) or `changed` (refuse)."""
    if stored is None:
        return "new"
    before, now = stored["versions"], computed.versions
    if any(now.get(name, 0) < version for name, version in before.items()):
        return "changed"
    if now != before:
        return "raised"
    return "changed" if differing(stored["numbers"], computed.numbers) else "same"


def main() -> int:
    """Compute all cases; write those that are new or whose version was raised."""
    stored = load() if FILE.is_file() else {}
    result: Stored = {}
    refused = []
    for name, compute in CASES.items():
        if not can_run(name):
            print(f"left     {name}: {NEEDS[name]} is not installed")
            result |= {name: stored[name]} if name in stored else {}
            continue
        computed = compute()
        said = verdict(stored.get(name), computed)
        print(f"{said:8} {name}")
        if said == "changed":
            names = differing(stored[name]["numbers"], computed.numbers)
            refused.append(f"{name}: {', '.join(names) or 'versions'}")
        keep = said in ("same", "changed")
        fresh = {"versions": computed.versions, "numbers": computed.numbers}
        result[name] = stored[name] if keep else fresh
    if refused:
        print("Results changed and no version was raised; nothing is written:", file=sys.stderr)
        print("\n".join(f"  {line}" for line in refused), file=sys.stderr)
        return 1
    lines = [f"{json.dumps(name)}: {json.dumps(result[name])}" for name in sorted(result)]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
