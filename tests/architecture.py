"""The picture of the architecture, drawn from the imports: `python -m tests.architecture`.

It writes docs/developers/architecture.svg (and .png where a path is given): a box a package, and
three of the paper's, each on the first floor above everything that it imports, and an arrow for
each import that no other path implies.
Raises ValueError where packages import each other in a circle.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import grimp

ROOTS = ("fgrpo_bench", "sweeps", "evaluators", "dashboards")
PICTURE = Path(__file__).parents[1] / "docs" / "developers" / "architecture.svg"
LIBRARY = PICTURE.parents[2] / ROOTS[0]
PAPER = "paper"
"""Its packages are boxes of their own: the analysis stands on one, another on the analysis."""
FOLDERS = {
    *ROOTS[1:],
    *(path.parent.name for path in LIBRARY.glob("*/__init__.py")),
    *(f"{PAPER}/{path.parent.name}" for path in LIBRARY.glob(f"{PAPER}/*/__init__.py")),
} - {PAPER}
Imports = Mapping[str, frozenset[str]]
"""By package, the packages that it imports."""


def package_of(module: str) -> str:
    """The box of a module: a folder of fgrpo_bench, else the application as a whole. A file beside
    the folders is part of the front door."""
    root, *below = module.split(".")
    if root != "fgrpo_bench":
        return root
    folder = "/".join(below[:2] if below[:1] == [PAPER] else below[:1])
    return folder if folder in FOLDERS else root


def imports() -> Imports:
    """Between packages, as the code has them, imports inside functions included."""
    graph = grimp.build_graph(*ROOTS, cache_dir=None)
    edges: dict[str, set[str]] = defaultdict(set)
    for module in graph.modules:
        own = package_of(module)
        edges[own] |= {package_of(m) for m in graph.find_modules_directly_imported_by(module)}
    # the package's own front door re-exports names, and its version is read from there; its
    # commands hand on to others
    edges.pop("fgrpo_bench")
    return {name: frozenset(of - {name, "fgrpo_bench"}) for name, of in edges.items()}


def floors(edges: Imports) -> dict[str, int]:
    """How many packages stand below each on the longest way down; ValueError for a circle."""
    heights: dict[str, int] = {}

    def height(name: str, above: tuple[str, ...]) -> int:
        if name in above:
            circle = " -> ".join([*above[above.index(name) :], name])
            raise ValueError(f"packages import each other in a circle: {circle}")
        if name not in heights:
            below = (height(each, (*above, name)) + 1 for each in sorted(edges[name]))
            heights[name] = max(below, default=0)
        return heights[name]

    for name in sorted(edges):
        height(name, ())
    return heights


def needed(edges: Imports) -> set[tuple[str, str]]:
    """The imports that no way through other packages implies."""

    def reached(names: Iterable[str]) -> set[str]:
        names = set(names)
        return names.union(*(reached(edges[name]) for name in names)) if names else names

    return {
        (name, own)
        for name, of in edges.items()
        for own in of
        if own not in reached(each for other in of - {own} for each in edges[other])
    }


def main(arguments: list[str] | None = None) -> int:
    """Draw it; exit code 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.architecture", description=__doc__)
    parser.add_argument("--to", type=Path, default=PICTURE, help="file (.svg or .png)")
    options = parser.parse_args(arguments)
    draw(imports(), options.to)
    return 0


def places(edges: Imports) -> dict[str, tuple[float, float]]:
    """x and y of each box's middle: a row a floor, in it near what it imports."""
    heights = floors(edges)
    rows: dict[int, list[str]] = defaultdict(list)
    for name, floor in sorted(heights.items()):
        rows[floor].append(name)
    at: dict[str, tuple[float, float]] = {}
    for floor, names in sorted(rows.items()):
        below = {n: [at[each][0] for each in edges[n]] or [0.0] for n in names}
        ordered = sorted(names, key=lambda n: (sum(below[n]) / len(below[n]), n))
        for index, name in enumerate(ordered):
            at[name] = (index - (len(names) - 1) / 2, float(floor))
    return at


def draw(edges: Imports, path: Path) -> None:
    """Write the picture; the same imports give the same bytes."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    at = places(edges)
    width = max(abs(x) for x, _ in at.values())
    height = max(y for _, y in at.values())
    with rc_context({"svg.hashsalt": "architecture", "svg.fonttype": "none"}):
        figure = Figure(figsize=(2.6 * width + 2, 0.75 * height + 1))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(-width - 0.6, width + 0.6), ylim=(-0.6, height + 0.6))
        axes.axis("off")
        for name, own in sorted(needed(edges)):
            axes.annotate(
                "",
                xy=(at[own][0], at[own][1] + 0.24),
                xytext=(at[name][0], at[name][1] - 0.24),
                arrowprops={"arrowstyle": "->", "color": "0.6", "lw": 0.8},
            )
        for name, (x, y) in at.items():
            axes.text(
                x,
                y,
                name + "/" * (name in FOLDERS),
                ha="center",
                va="center",
                family="monospace",
                bbox={"boxstyle": "round", "facecolor": "white", "edgecolor": "0.2"},
            )
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=100)


if __name__ == "__main__":
    raise SystemExit(main())
