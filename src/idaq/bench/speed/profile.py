"""Where the time of an update goes, by kind of operation, from the profiler's own trace.

The compiled program says what every operation is, the trace how long it took. An operation that
fuses several counts as the most expensive kind among them: a product, if there is one.
"""

import gzip
import json
import re
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import jax

KINDS = {  # an operation is of the first kind that it contains
    "products": {"dot", "convolution"},
    "sampling": {"gather", "scatter", "sort", "rng-bit-generator", "shift-right-logical"},
    "elementwise": {
        *("add", "subtract", "multiply", "divide", "maximum", "minimum", "negate", "select"),
        *("compare", "exponential", "log", "log-plus-one", "tanh", "logistic", "power", "rsqrt"),
        *("sqrt", "abs", "sign", "and", "or", "not", "reduce", "convert", "clamp", "floor"),
    },
    "moving": {
        *("copy", "transpose", "broadcast", "concatenate", "pad", "slice", "dynamic-slice"),
        *("dynamic-update-slice", "iota", "reverse", "reshape", "bitcast"),
    },
}
_CONTAINERS = {"while", "conditional", "call", "async-start", "async-done"}
_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) .*\{$")
_OPERATION = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (?:\([^=]*?\)|\S+) ([a-z][\w\-]*)\(")
_CALLS = re.compile(r"(?:calls|to_apply)=%?([\w.\-]+)")


def kinds_of(program: str) -> dict[str, str]:
    """The kind of every operation, by name, in a compiled program's text."""
    opcodes: dict[str, set[str]] = {}  # by computation, including those of what it calls
    operations: list[tuple[str, str, list[str]]] = []
    computation = ""
    for line in program.splitlines():
        if begun := _COMPUTATION.match(line):
            computation = begun[1]
            opcodes[computation] = set()
        elif found := _OPERATION.match(line):
            called = _CALLS.findall(line)
            opcodes[computation].add(found[2])
            for name in called:  # defined further up
                opcodes[computation] |= opcodes.get(name, set())
            operations.append((found[1], found[2], called))
    return {
        name: _kind({opcode, *(each for place in called for each in opcodes.get(place, ()))})
        for name, opcode, called in operations
        if opcode not in _CONTAINERS
    }


def _kind(opcodes: set[str]) -> str:
    return next((kind for kind, known in KINDS.items() if opcodes & known), "other")


def seconds_by_kind(run: Callable[[], object], program: str) -> dict[str, float]:
    """Run once under the profiler: the time in operations of each kind."""
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    with tempfile.TemporaryDirectory() as place:
        with jax.profiler.trace(place, create_perfetto_trace=True, profiler_options=options):
            jax.block_until_ready(run())  # type: ignore[no-untyped-call]
        (file,) = Path(place).rglob("perfetto_trace.json.gz")
        with gzip.open(file) as trace:
            events = json.load(trace)["traceEvents"]
    kinds, total = kinds_of(program), Counter[str]()
    for event in events:
        kind = kinds.get(event.get("name", ""))
        if kind and event.get("ph") == "X":
            total[kind] += event["dur"]
    return {kind: total[kind] / 1e6 for kind in (*KINDS, "other")}
