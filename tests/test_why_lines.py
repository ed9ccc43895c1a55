"""Where a reader stops, a line says why: at locks, at what makes a write durable, at numbers that
somebody chose, and where the names, the environment or the settings of other projects are replaced.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests import architecture

REPOSITORY = Path(__file__).parents[1]
LOCKS = re.compile(r"(^|\.)(flock|lockf|Lock|RLock|Semaphore|Condition|fsync)$|^os\.link$")
CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")


def unexplained(source: str) -> Iterator[str]:
    """The lines of a module that need a comment, on them or above them (one for lines in a row),
    and have none; of a constant its docstring does as well."""
    tree, lines = ast.parse(source), source.splitlines()
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    explained = {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
    for statement, following in zip(tree.body, [*tree.body[1:], None], strict=True):
        if _is_chosen_number(statement) and not _is_docstring(following):
            yield from _without_comment(statement, explained, lines)
    foreign = _foreign_names(tree)
    for node in ast.walk(tree):
        if _is_lock(node) or _replaces_others(node, foreign):
            yield from _without_comment(node, explained, lines)


def _without_comment(node: ast.AST, explained: set[int], lines: list[str]) -> Iterator[str]:
    first, last = node.lineno, node.end_lineno
    if explained.isdisjoint(range(first - 1, last + 1)):
        yield f"{first}: {lines[first - 1].strip()}"
    else:
        explained.add(last)


def _is_chosen_number(node: ast.stmt) -> bool:
    """A number, or a tuple of some, under a name in capitals."""
    if not isinstance(node, ast.Assign | ast.AnnAssign):
        return False
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = [name.id for target in targets for name in ast.walk(target) if _is_name(name)]
    return all(CONSTANT.fullmatch(name) for name in names) and _is_number(node.value)


def _is_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name)


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
        return LOCKS.search(ast.unparse(node.func)) is not None
    return isinstance(node, ast.Attribute) and node.attr == "O_EXCL"


def _foreign_names(tree: ast.Module) -> set[str]:
    """What a module imports from other projects and the standard library."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom) and not _is_ours(node.module or ""):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in architecture.ROOTS


def _replaces_others(node: ast.AST, foreign: set[str]) -> bool:
    """An attribute of something imported that is set, or a variable of the environment."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) in ("os.environ.setdefault", "setattr")
    targets = node.targets if isinstance(node, ast.Assign) else []
    for target in targets:
        root = target
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(target, ast.Attribute) and isinstance(root, ast.Name) and root.id in foreign:
            return True
        if isinstance(target, ast.Subscript) and ast.unparse(target.value) == "os.environ":
            return True
    return False


def test_locks_numbers_and_replacements_have_a_line_that_says_why():
    assert {
        f"{path.relative_to(REPOSITORY)}:{line}"
        for root in architecture.ROOTS
        for path in sorted((REPOSITORY / root).rglob("*.py"))
        for line in unexplained(path.read_text())
    } == set()


def test_a_lock_a_number_and_a_replacement_without_one_are_listed():
    source = '''
import os
import other
LIMIT = 3
SECONDS = 0.5
"""Between looks."""
other.function = LIMIT
os.environ["A"] = "b"
# one holder at a time
lock = threading.Lock()
second = threading.Lock()
os.fsync(handle)  # durable
third = threading.Lock()


'''
    listed = [line.partition(":")[0] for line in unexplained(source)]
    assert listed == ["4", "7", "8"]
