"""Small wrong changes to a source file, one at a time: what the tests should notice.

What no test can or should see is left alone: docstrings, annotations, decorators, protocols, error
texts, version numbers, `__all__`, and conversions that change no value.
"""

import ast
import copy
from collections.abc import Iterator
from typing import NamedTuple

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
NAMES = {
    "min": "max",
    "minimum": "maximum",
    "argmin": "argmax",
    "nanmin": "nanmax",
    "nanargmin": "nanargmax",
    "any": "all",
    "floor": "ceil",
    "zeros": "ones",
    "zeros_like": "ones_like",
    "sum": "mean",
}
NAMES |= {after: before for before, after in NAMES.items()} | {
    "median": "mean",
    "nanmean": "nanmax",
}
KEPT_CALLS = {"asarray", "ascontiguousarray", "bool", "cast", "dict", "float", "int", "list"}
KEPT_CALLS |= {"frozenset", "jit", "partial", "set", "str", "tuple"}  # no change of value
KEPT_CALLS |= {"adam", "arange", "init", "isinstance", "range", "reshape", "split", "where"}
KEYWORDS_WITHOUT_EFFECT = ("default_factory", "dtype", "encoding", "indent", "strict")
SKIPPED_FIELDS = ("annotation", "bases", "decorator_list", "returns")


class Mutant(NamedTuple):
    """A change of one stretch of a file."""

    file: str
    start: int  # of the stretch, in bytes
    stop: int
    replacement: str
    line: int
    before: str  # the lines that it touches
    after: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.replacement.encode() + source[self.stop :]


def mutants_of(file: str, source: bytes) -> list[Mutant]:
    """Every mutant of a file."""
    offsets = [0]
    for line in source.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    found: dict[bytes, Mutant] = {}
    for node in _nodes(ast.parse(source)):
        if not isinstance(node, ast.expr | ast.stmt):
            continue
        if node.end_lineno is None or node.end_col_offset is None:
            continue
        start = offsets[node.lineno - 1] + node.col_offset
        stop = offsets[node.end_lineno - 1] + node.end_col_offset
        first, last = offsets[node.lineno - 1], offsets[node.end_lineno]
        for replacement in _replacements(node):
            after = source[first:start] + replacement.encode() + source[stop:last]
            before = source[first:last]
            made = Mutant(
                file,
                start,
                stop,
                replacement,
                node.lineno,
                before.decode().rstrip("\n"),
                after.decode().rstrip("\n"),
            )
            changed = made.apply(source)
            if changed != source:
                found.setdefault(changed, made)
    return list(found.values())


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """A node and its descendants, without what no test sees."""
    if _is_left_out(node):
        return
    yield node
    if isinstance(node, ast.Raise):
        return
    for name, value in ast.iter_fields(node):
        if name in SKIPPED_FIELDS or (name == "keywords" and isinstance(node, ast.ClassDef)):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _nodes(child)


def _is_left_out(node: ast.AST) -> bool:
    match node:
        case ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True
        case ast.ClassDef(bases=bases):
            return any(isinstance(base, ast.Name) and base.id == "Protocol" for base in bases)
        case ast.Call(func=func):
            return _name(func).endswith("Error")
        case ast.AnnAssign(target=target) | ast.Assign(targets=[target]):
            name = _name(target)
            is_alias = isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.BitOr)
            is_version = name == "version" or name.endswith("_VERSION")
            return name == "__all__" or is_version or (is_alias and name[:1].isupper())
        case ast.keyword(arg=name):
            return name in KEYWORDS_WITHOUT_EFFECT
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    return False


def _name(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _replacements(node: ast.AST) -> Iterator[str]:
    """Texts to replace a node with."""
    match node:
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise():
            yield "pass"
        case ast.expr():
            for changed in _expressions(node):
                text = ast.unparse(changed)
                simple = isinstance(changed, ast.Name | ast.Attribute | ast.Call)
                yield text if simple or isinstance(node, ast.Constant) else f"({text})"


def _expressions(node: ast.expr) -> Iterator[ast.expr]:
    match node:
        case ast.Compare(ops=[op]):
            for other in COMPARISONS[type(op)]:
                yield ast.Compare(node.left, [other()], node.comparators)
        case ast.BinOp(op=operator) if type(operator) in OPERATORS:
            yield ast.BinOp(node.left, OPERATORS[type(operator)](), node.right)
        case ast.BoolOp(op=joined):
            yield ast.BoolOp(ast.Or() if isinstance(joined, ast.And) else ast.And(), node.values)
        case ast.UnaryOp():
            yield node.operand
        case ast.IfExp():
            yield ast.IfExp(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)
        case ast.Constant(value=value):
            yield from (ast.Constant(other) for other in _constants(value))
        case ast.Name(id=name, ctx=ast.Load()) if name in NAMES:
            yield ast.Name(NAMES[name])
        case ast.Attribute(attr=name, ctx=ast.Load()) if name in NAMES:
            yield ast.Attribute(node.value, NAMES[name])
        case ast.Call():
            yield from _calls(node)


def _constants(value: object) -> tuple[bool | int | float, ...]:
    match value:
        case bool():
            return (not value,)
        case int():
            return (value + 1, value - 1)
        case float():
            return (2.0 * value if value else 1.0,)
    return ()


def _calls(node: ast.Call) -> Iterator[ast.expr]:
    """The call without one of its keywords, or only its first argument."""
    for place, keyword in enumerate(node.keywords):
        if keyword.arg is not None and not _is_left_out(keyword):
            changed = copy.copy(node)
            changed.keywords = node.keywords[:place] + node.keywords[place + 1 :]
            yield changed
    name = _name(node.func)
    is_helper = name and not name[0].isupper() and name not in KEPT_CALLS
    if is_helper and node.args and not isinstance(node.args[0], ast.Starred | ast.GeneratorExp):
        yield node.args[0]
