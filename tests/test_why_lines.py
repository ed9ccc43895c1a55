"""The source: where a reader stops, a line says why (at locks, at what makes a write durable, at
numbers that somebody chose, and where the names, the environment or the settings of other projects
are replaced); one class name stands for one thing, and no name says nothing."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests import architecture

REPOSITORY = Path(__file__).parents[1]
LOCKS = re.compile(r"(^|\.)(flock|lockf|Lock|RLock|Semaphore|Condition|fsync)$|^os\.link$")
CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")
TEXT = re.compile(r"""'[^']*'|"[^"]*\"""")
VAGUE = {"own", "each", "beside", "told"}


@cache
def modules() -> dict[str, tuple[str, ast.Module, list[ast.AST]]]:
    """Of every file of the project its text, its tree and all nodes of it."""
    found = {}
    for root in architecture.ROOTS:
        for path in sorted((REPOSITORY / root).rglob("*.py")):
            tree = ast.parse(text := path.read_text())
            found[path.relative_to(REPOSITORY).as_posix()] = text, tree, list(ast.walk(tree))
    return found


def unexplained(text: str, tree: ast.Module, nodes: list[ast.AST]) -> Iterator[str]:
    """The lines of a module that need a comment, on them or above them (one for lines in a row),
    and have none; of a constant its docstring does as well."""
    lines = text.splitlines()
    explained = {n for n, line in enumerate(lines, 1) if "#" in line and "#" in TEXT.sub("", line)}
    foreign = _foreign_names(nodes)
    numbers = [
        statement
        for statement, following in zip(tree.body, [*tree.body[1:], None], strict=True)
        if _is_chosen_number(statement) and not _is_docstring(following)
    ]
    for node in (*numbers, *(n for n in nodes if _is_lock(n) or _replaces_others(n, foreign))):
        if explained.isdisjoint(range(node.lineno - 1, node.end_lineno + 1)):
            yield f"{node.lineno}: {lines[node.lineno - 1].strip()}"
        else:
            explained.add(node.end_lineno)


def _is_chosen_number(node: ast.stmt) -> bool:
    """A number, or a tuple of some, under a name in capitals."""
    if not isinstance(node, ast.Assign | ast.AnnAssign):
        return False
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = [name.id for t in targets for name in ast.walk(t) if isinstance(name, ast.Name)]
    return all(CONSTANT.fullmatch(name) for name in names) and _is_number(node.value)


def _is_number(node: ast.expr | None) -> bool:
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | float) and not isinstance(value, bool)
        case ast.Tuple(elts=elements):
            return any(map(_is_number, elements))
        case ast.BinOp(left=left, right=right):
            return _is_number(left) or _is_number(right)
    return False


def _is_docstring(node: ast.stmt | None) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_lock(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        return LOCKS.search(_dotted(node.func)) is not None
    return isinstance(node, ast.Attribute) and node.attr == "O_EXCL"


def _dotted(node: ast.AST) -> str:
    """A name with its attributes; empty for what has no name."""
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def _foreign_names(nodes: list[ast.AST]) -> set[str]:
    """What a module imports from other projects and the standard library."""
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            root = (node.module or "").partition(".")[0]
            ours = node.level > 0 or root in architecture.ROOTS
            names |= set() if ours else {alias.asname or alias.name for alias in node.names}
    return names


def _replaces_others(node: ast.AST, foreign: set[str]) -> bool:
    """An attribute of something imported that is set, or a variable of the environment."""
    if isinstance(node, ast.Call):
        return _dotted(node.func) in ("os.environ.setdefault", "setattr")
    for target in node.targets if isinstance(node, ast.Assign) else []:
        if isinstance(target, ast.Attribute) and _dotted(target).partition(".")[0] in foreign:
            return True
        if isinstance(target, ast.Subscript) and _dotted(target.value) == "os.environ":
            return True
    return False


@pytest.mark.slow
def test_locks_numbers_and_replacements_have_a_line_that_says_why():
    assert {
        f"{at}:{line}" for at, module in modules().items() for line in unexplained(*module)
    } == (set())


@pytest.mark.slow
def test_a_class_has_a_name_of_its_own_and_no_name_says_nothing():
    classes, vague = defaultdict(list), []
    for where, (_, _, nodes) in modules().items():
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(where)
            if {getattr(node, "id", None), getattr(node, "arg", None)} & VAGUE:
                vague.append(f"{where}:{node.lineno}")
    assert {name: places for name, places in classes.items() if len(places) > 1} == {}
    assert vague == []
