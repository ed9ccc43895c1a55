"""Mutants of the product: an expression of a function, and another in its place.

A mutant is stored by names and text, never by line or file, so that it is found again where code
was moved. Here are the pure parts: what may be mutated, how, where a stored one stands now, and
the source with it. `tests/mutants/__main__.py` runs them.
"""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

SEED = "mutants"
PER_FUNCTION = 2
"""The most mutants that are drawn of one function, so that a long one does not take them all."""
LONGEST = 100
"""Characters of a stored expression: more of it would change at the next edit."""

Function = ast.FunctionDef | ast.AsyncFunctionDef

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Div,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
OPPOSITES = {
    one: other
    for pair in (("min", "max"), ("any", "all"), ("minimum", "maximum"), ("floor", "ceil"))
    for one, other in (pair, pair[::-1])
}
"""Functions that are called instead of each other, by their last name."""
SYMMETRIC = {"isinstance", "suppress", *OPPOSITES}
"""Calls whose arguments are not swapped: nothing would change, or Python itself would refuse."""
LITERAL = ast.Constant | ast.List | ast.Dict
"""Arguments that are not swapped either: the call would fail for their type."""
SPOKEN = {"print", "log", "logger", "logging", "warnings"}
"""What is called to say something: words are not mutated."""
RETURNED = {"bool": ("True", "False"), "int": ("0",), "float": ("0.0",), "str": ("''",)}
"""What a function returns instead, by the annotation of what it returns."""


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One row of the table."""

    id: int
    module: str
    """Where it was drawn; the code may have moved since."""
    function: str
    """Its qualified name, without `<locals>`."""
    expression: str
    """As `ast.unparse` writes it."""
    ordinal: int
    """Which of the equal expressions of that function, from 0."""
    replacement: str
    before: str | None = None
    """The verdict that is kept: "killed" or "survived"; None until it is recorded."""
    equivalent: str | None = None
    """Why no test can tell it from the original; None where one could."""
    replaced_by: int | None = None
    """The mutant in its place where its expression is gone."""

    def __str__(self) -> str:
        where = f"{self.module}.{self.function}"
        return f"{self.id}: {where}: {self.expression}  ->  {self.replacement}"


@dataclass(frozen=True)
class Module:
    """One source file of the product."""

    name: str
    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @cached_property
    def functions(self) -> dict[str, list[ast.expr]]:
        """The expressions of each function by its qualified name, in the order of the source."""
        by_name: dict[str, list[ast.expr]] = {}
        for name, function in functions(self.tree):
            by_name.setdefault(name, []).extend(n for n, _ in expressions(function))
        return by_name

    def place(self, mutant: Mutant) -> ast.expr | None:
        """The expression of a mutant in this file; None where no such function holds it."""
        same = [
            node
            for node in self.functions.get(mutant.function, ())
            if ast.unparse(node) == mutant.expression
        ]
        return same[mutant.ordinal] if mutant.ordinal < len(same) else None

    def mutated(self, mutant: Mutant) -> str:
        """The source with the mutant in it, the rest untouched. LookupError: it is not here."""
        node = self.place(mutant)
        if node is None or node.end_lineno is None or node.end_col_offset is None:
            raise LookupError(f"{self.name} does not hold {mutant}")
        lines = self.text.encode().splitlines(keepends=True)  # ast counts columns in bytes
        begin = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
        end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
        source = self.text.encode()
        return (source[:begin] + f"({mutant.replacement})".encode() + source[end:]).decode()


def read(root: Path, packages: Iterable[str]) -> dict[str, Module]:
    """The modules of some packages of a folder by their dotted names."""
    modules = {}
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            modules[name] = Module(name, path.relative_to(root), path.read_text(encoding="utf-8"))
    return modules


def where(mutant: Mutant, modules: Mapping[str, Module]) -> Module:
    """The file where a mutant stands: its own, or else the only one with such a function.

    LookupError: it stands nowhere, or in several files; says which.
    """
    own = modules.get(mutant.module)
    if own and own.place(mutant) is not None:
        return own
    named = f"def {mutant.function.rpartition('.')[2]}("
    others = [module for module in modules.values() if named in module.text]
    holding = [module for module in others if module.place(mutant) is not None]
    if len(holding) == 1:
        return holding[0]
    several = ", ".join(m.name for m in holding)
    raise LookupError(
        f"{mutant}\n    stands in several files: {several}"
        if holding
        else f"{mutant}\n    is gone: no function of that name holds that expression"
    )


def functions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Functions and methods with their qualified names, those inside functions too."""
    for node in ast.iter_child_nodes(tree):
        inside = prefix
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inside = f"{prefix}{node.name}."
            if not isinstance(node, ast.ClassDef):
                yield prefix + node.name, node
        yield from functions(node, inside)


def expressions(function: Function) -> Iterator[tuple[ast.expr, tuple[ast.AST, ...]]]:
    """Expressions of a function's own body, each with what it stands in, outermost first.

    Left out: docstrings, annotations, decorators, defaults, what is raised or said, f-strings, and
    the bodies of functions inside, which have names of their own.
    """

    def walk(
        node: ast.AST, above: tuple[ast.AST, ...]
    ) -> Iterator[tuple[ast.expr, tuple[ast.AST, ...]]]:
        if isinstance(node, Function | ast.ClassDef | ast.Raise | ast.JoinedStr):
            return
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[0] in SPOKEN:
            return
        # In parentheses a slice is no longer one.
        whole = not isinstance(node, ast.Slice | ast.Starred) and not (
            isinstance(node, ast.Tuple) and any(isinstance(e, ast.Slice) for e in node.elts)
        )
        if isinstance(node, ast.expr) and whole:
            yield node, above
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "ctx"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from walk(child, (*above, node))

    for statement in function.body:
        yield from walk(statement, (function,))


def replacements(node: ast.expr, above: Sequence[ast.AST]) -> Iterator[ast.expr]:
    """What may stand instead of an expression."""
    match node:
        case ast.Compare():
            for place, operator in enumerate(node.ops):
                changed = copy.deepcopy(node)
                changed.ops[place] = COMPARISONS[type(operator)]()
                yield changed
        case ast.BinOp(op=op, left=left, right=right) if type(op) in ARITHMETIC:
            if not any(_is_text(side) or _is_path(side) for side in (left, right)):
                yield ast.BinOp(left, ARITHMETIC[type(op)](), right)
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield ast.Constant(0 if value == 1 else value + 1)
        case ast.Call(func=function, args=args, keywords=keywords):
            *front, last = ast.unparse(function).rsplit(".", 1)
            if last in OPPOSITES:
                opposite = ".".join([*front, OPPOSITES[last]])
                yield ast.Call(ast.parse(opposite, mode="eval").body, args, keywords)
            fixed = any(isinstance(a, ast.Starred | LITERAL) for a in args[:2])
            if len(args) >= 2 and not fixed and last not in SYMMETRIC:
                yield ast.Call(function, [args[1], args[0], *args[2:]], keywords)
    outer, *_, parent = above
    if isinstance(parent, ast.Return) and isinstance(outer, Function) and outer.returns:
        returns = ast.unparse(outer.returns)
        words = ("None",) if returns.endswith(" | None") else RETURNED.get(returns, ())
        for word in words:
            if word != ast.unparse(node):
                yield ast.parse(word, mode="eval").body


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _is_path(node: ast.expr) -> bool:
    """By its name: `/` puts files under folders too, and no other operator does."""
    return any(word in ast.unparse(node) for word in ("folder", "paths."))


def mutants(module: Module) -> Iterator[Mutant]:
    """Every mutant of a module, all with id 0.

    Of several equal expressions of a function the one around is stored, as far as it tells them
    apart, and so of a constant or a name: by itself it would not be found again.
    """
    names = [name for name, _ in functions(module.tree)]
    for name, function in functions(module.tree):
        if names.count(name) > 1:  # a property and its setter: which is meant cannot be said
            continue
        texts = {node: ast.unparse(node) for node, _ in expressions(function)}
        order = list(texts.values())
        for node, above in expressions(function):
            for changed in replacements(node, above):
                around = [n for n in reversed(above) if isinstance(n, ast.expr) and n in texts]
                stored = next(
                    (
                        each
                        for each in (node, *around)
                        if order.count(texts[each]) == 1
                        and not isinstance(each, ast.Constant | ast.Name)
                    ),
                    (node, *around)[-1],
                )
                same = [n for n, text in texts.items() if text == texts[stored]]
                alone = isinstance(stored, ast.Constant | ast.Name) and len(same) > 1
                if not alone and len(texts[stored]) <= LONGEST:
                    yield Mutant(
                        id=0,
                        module=module.name,
                        function=name,
                        expression=texts[stored],
                        ordinal=same.index(stored),
                        replacement=ast.unparse(_with(stored, node, changed)),
                    )


def _with(outer: Any, inner: ast.expr, changed: ast.expr) -> Any:
    """A copy of an expression in which another stands for one of its parts."""
    if outer is inner:
        return changed
    if isinstance(outer, list):
        return [_with(part, inner, changed) for part in outer]
    if isinstance(outer, ast.AST):
        return type(outer)(**{f: _with(v, inner, changed) for f, v in ast.iter_fields(outer)})
    return outer


def _compiles(source: str) -> bool:
    try:
        compile(source, "mutant", "exec", dont_inherit=True)
    except SyntaxError:  # a pattern of `match` takes no sum
        return False
    return True


def draw(
    modules: Mapping[str, Module],
    prefix: str,
    number: int,
    *,
    first_id: int,
    taken: Sequence[Mutant] = (),
    seed: str = SEED,
) -> list[Mutant]:
    """Some mutants of the modules whose names begin with a prefix, none of them taken before.

    They have the ids from first_id on. ValueError: there are not that many.
    """
    rng = random.Random(f"{seed} {prefix}")
    inside = [m for name, m in modules.items() if f"{name}.".startswith(f"{prefix}.")]
    pool = [mutant for module in inside for mutant in mutants(module)]
    rng.shuffle(pool)
    old = {replace(m, id=0, before=None, equivalent=None, replaced_by=None) for m in taken}
    drawn: list[Mutant] = []
    for mutant in pool:
        same = [m for m in drawn if (m.module, m.function) == (mutant.module, mutant.function)]
        if len(drawn) == number:
            break
        free = mutant not in old and len(same) < PER_FUNCTION
        if free and _compiles(modules[mutant.module].mutated(mutant)):
            drawn.append(replace(mutant, id=first_id + len(drawn)))
    if len(drawn) < number:
        raise ValueError(f"{prefix} has {len(drawn)} mutants to draw, {number} are wanted")
    return drawn


def elsewhere(mutant: Mutant, modules: Mapping[str, Module]) -> list[Mutant]:
    """The same expression under other names of functions, in the product."""
    return [
        replace(mutant, module=module.name, function=name, ordinal=0)
        for module in modules.values()
        for name, nodes in module.functions.items()
        if any(ast.unparse(node) == mutant.expression for node in nodes)
    ]
