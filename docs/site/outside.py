"""Files outside docs/ that pages link to become part of the site, so that links which work in the
checkout work there too: README as the first page, others below `repository/`. A notebook becomes a
page with its code and what the code showed.

MkDocs calls what begins with `on_`. A link to nothing, or to a folder, is left as it is,
and the strict build refuses it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"(?<=\]\()([^)\s#]+)(?=[)#])")
CODE = re.compile(r"(^ *```.*?^ *```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def address(path: Path) -> str:
    """Of a file of the repository within the site's sources."""
    if path.is_relative_to(DOCS):
        page = path.with_suffix(".md") if path.suffix == ".ipynb" else path
        return page.relative_to(DOCS).as_posix()
    return "index.md" if path == ROOT / "README.md" else f"repository/{path.relative_to(ROOT)}"


def linked(page: Path) -> set[Path]:
    """Files of the repository that a page links to."""
    prose = CODE.sub("", page.read_text(encoding="utf-8"))
    targets = {(page.parent / link).resolve() for link in LINK.findall(prose) if "://" not in link}
    return {path for path in targets if path.is_file() and path.is_relative_to(ROOT)}


def on_files(files: Files, *, config: Any, **_: Any) -> Files:
    reached = {ROOT / name for name in ("README.md", "AGENTS.md", "CHANGELOG.md")}
    ahead = {*reached, *(Path(str(f.abs_src_path)) for f in files.documentation_pages())}
    while ahead:
        page = ahead.pop()
        new = linked(page) - reached if page.suffix == ".md" else set()
        reached |= new
        ahead |= new
    for path in sorted(path for path in reached if not path.is_relative_to(DOCS)):
        level = InclusionLevel.NOT_IN_NAV
        files.append(File.generated(config, address(path), abs_src_path=str(path), inclusion=level))
    for path in sorted(DOCS.rglob("*.ipynb")):
        for name, content in pages_of(path):
            files.append(File.generated(config, name, content=content))
    return files


def pages_of(notebook: Path) -> Iterator[tuple[str, str]]:
    """Address and content of its figures, then of its page."""
    page, parts = address(notebook), []
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(f"```python\n{source}\n```" if cell["cell_type"] == "code" else source)
        for number, output in enumerate(cell.get("outputs", [])):
            data = {kind: "".join(lines) for kind, lines in output["data"].items()}
            if (drawn := data.get("image/svg+xml")) is not None:
                figure = f"{page.removesuffix('.md')}-{cell['id']}-{number}.svg"
                yield figure, drawn
                parts.append(f"![what the code above draws]({Path(figure).name})")
            else:
                parts.append(f"```\n{data['text/plain']}\n```")
    yield page, "\n\n".join(parts)


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    if page.is_homepage:  # a list of one page
        page.meta["hide"] = ["navigation"]
    if page.file.abs_src_path is None:  # of a notebook, whose links are those of the page
        return markdown
    source = Path(page.file.abs_src_path)

    def moved(link: re.Match[str]) -> str:
        path = (source.parent / link[0]).resolve()
        if "://" in link[0] or not path.is_file():
            return link[0]
        return os.path.relpath(address(path), Path(page.file.src_uri).parent)

    parts = CODE.split(markdown)
    return "".join(part if i % 2 else LINK.sub(moved, part) for i, part in enumerate(parts))


def on_post_page(output: str, **_: Any) -> str:
    """The theme's search has no name for a screen reader."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"', 1)


def on_post_template(output_content: str, **_: Any) -> str:
    """The page of addresses that lead nowhere is no page to MkDocs."""
    return on_post_page(output_content)
