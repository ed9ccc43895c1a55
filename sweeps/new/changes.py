"""Files that a command writes or adds lines to: all are known before the first one is written."""

from __future__ import annotations

import ast
import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from textwrap import indent

from sweeps.text import short_path

WIDTH = 100
"""Most characters of a line of code."""
TEMPLATES = Path(__file__).parent / "templates"


@dataclass(kw_only=True)
class Changes:
    """Files as they are to be; nothing is written before all of them are known."""

    written: dict[Path, str] = field(default_factory=dict)
    """New ones with their text."""
    lines: dict[Path, list[str]] = field(default_factory=dict)
    """Lines that others get, for a person."""
    changed: dict[Path, str] = field(default_factory=dict)
    """The text of these others."""
    copied: dict[Path, Path] = field(default_factory=dict)
    """New ones that are copies, and of what."""

    def write(self, path: Path, text: str) -> None:
        """FileExistsError where there is such a file."""
        if path.exists():
            raise FileExistsError(
                f"{short_path(path)} exists, and is not written over: choose another name, or move "
                "it away"
            )
        self.written[path] = text

    def current_text(self, path: Path) -> str:
        """As it will be."""
        return self.changed.get(path) or path.read_text(encoding="utf-8")

    def insert(self, path: Path, number: int, line: str) -> None:
        """A line behind the first `number` ones."""
        lines = self.current_text(path).splitlines()
        lines.insert(number, line)
        self.changed[path] = "\n".join(lines) + "\n"
        self.lines.setdefault(path, []).append(line)

    def import_from(self, path: Path, module: str, names: str) -> None:
        """An import where its place in the alphabet is."""
        imports = [
            node
            for node in ast.parse(self.current_text(path)).body
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("fgrpo_bench")
        ]
        before = [node.end_lineno or 0 for node in imports if (node.module or "") < module]
        self.insert(
            path, max(before, default=imports[0].lineno - 1), f"from {module} import {names}"
        )

    def add_entry(self, path: Path, table: str, entry: str) -> None:
        """An entry at the end of a dictionary or set of the module."""
        text = self.current_text(path)
        node = _assigned_value(text, table)
        assert node is not None and node.end_lineno is not None
        lines = text.splitlines()
        last = lines[node.end_lineno - 1]
        if node.lineno < node.end_lineno:
            self.insert(path, node.end_lineno - 1, f"    {entry},")
            return
        begin, _, entries = last.partition("{")
        longer = f"{begin}{{{entries.rpartition('}')[0]}, {entry}}}"
        if len(longer) > WIDTH:
            several = [f"    {part}," for part in [*entries.rpartition("}")[0].split(", "), entry]]
            longer = "\n".join([f"{begin}{{", *several, "}"])
        lines[node.end_lineno - 1] = longer
        self.changed[path] = "\n".join(lines) + "\n"
        self.lines.setdefault(path, []).append(longer)

    def conclude(self, next_steps: Sequence[str], *, is_dry: bool) -> int:
        """Write them, or show them, and say what to do next; ValueError, before anything is
        written, where a module would have two things of one name."""
        for path, text in (self.written | self.changed).items():
            if path.suffix == ".py" and (name := _duplicate_name(text)):
                raise ValueError(
                    f"{short_path(path)} has something else that is named {name}: choose another "
                    "name"
                )
        for path, text in self.written.items():
            print(f"{'would write' if is_dry else 'wrote'} {short_path(path)}")
            if is_dry:
                print("".join(f"  {line}\n" for line in text.splitlines()))
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
        for path, source in self.copied.items():
            print(f"{'would write' if is_dry else 'wrote'} {short_path(path)}, as {source} is")
            if not is_dry:
                shutil.copyfile(source, path)
        for path, lines in self.lines.items():
            print(f"{'would add to' if is_dry else 'added to'} {short_path(path)}")
            print(indent("\n".join(lines), "  "))
            if not is_dry:
                path.write_text(self.changed[path], encoding="utf-8")
        if next_steps:
            print("next:")
            print("".join(f"  {step}\n" for step in next_steps), end="")
        return 0


def _assigned_value(text: str, name: str) -> ast.expr | None:
    """What a module assigns to a name; None where it assigns nothing."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if ast.unparse(target) == name:
                return node.value
    return None


def _duplicate_name(text: str) -> str | None:
    """A name that a module gets twice, by imports and definitions; None where there is none."""
    taken: set[str] = set()
    for node in ast.parse(text).body:
        names: list[str] = []
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names = [node.name]
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
        for name in names:
            if name in taken:
                return name
            taken.add(name)
    return None


def filled(template: str, **values: object) -> str:
    """The text of a template with its names in it."""
    text = (TEMPLATES / f"{template}.txt").read_text(encoding="utf-8")
    return Template(text).substitute({name: str(value) for name, value in values.items()})


def with_sorted_imports(text: str) -> str:
    """Imports from this package in the order that the checks want, whatever a name begins with."""
    block = re.search(r"(?:^from fgrpo_.*\n)+", text, re.MULTILINE)
    assert block is not None
    lines = sorted(block[0].splitlines(), key=lambda line: line.split()[1])
    return text.replace(block[0], "\n".join(lines) + "\n")


def quoted(text: str) -> str:
    """A text as YAML has it, whatever it holds; ValueError for what Hydra would replace."""
    if "${" in text:
        raise ValueError(f"{text!r} has ${{, which stands for another value in conf/: rename it")
    is_plain = re.fullmatch(r"[A-Za-z/][\w/.-]*", text) and text.lower() not in (
        *("null", "true", "false", "yes", "no", "on", "off", "y", "n"),
    )
    return text if is_plain else json.dumps(text, ensure_ascii=False)
