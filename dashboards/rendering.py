"""From a Page to HTML by the templates, everything escaped; the policy that browsers enforce."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from dashboards.glossary import Glossary
from dashboards.page import Address, Chart, Page, available_views, first_view
from dashboards.pages.groups import GroupsEntry, GroupsPage
from dashboards.pages.overview import HEIGHT, WIDTH, EvaluationEntry, run_title, sweep_entry
from dashboards.text import rendered, shortened, visible
from fgrpo_bench.files.paths import RunPaths

HERE = Path(__file__).parent
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'"
)
"""Scripts only from our own files; Plotly sets styles on its elements, so these may be inline."""
ASSETS = {
    "app.js": HERE / "static" / "app.js",
    "looks.js": HERE / "static" / "looks.js",
    "style.css": HERE / "static" / "style.css",
    "plotly.min.js": Path(str(files("plotly") / "package_data" / "plotly.min.js")),
}
"""Every file that a page may load, by name."""


@cache
def template_environment() -> Environment:
    """Templates with everything escaped, and an error for whatever is not there."""
    templates = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # JSON in browsers has no nan: better an error here than a page whose charts stay empty.
    templates.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    templates.filters["rendered"] = rendered
    templates.filters["visible"] = visible
    templates.filters["shortened"] = shortened
    return templates


def html(page: Page, runs: Sequence[RunPaths]) -> str:
    """The whole document of a page. runs: what the chooser of sweeps offers."""
    run = page.address.run
    views = {
        name: (title, Address(run=run, view=name).href, name == page.address.view)
        for name, title in available_views(run).items()
    }
    others = [
        (run_title(other), Address(run=other, view=first_view(other)).href, other == run)
        for other in (runs if run in runs else [run, *runs])
    ]
    return _document(
        f"{page.address.view}.html",
        page=page,
        charts={chart.name: chart for chart in page.charts},
        views=views,
        runs=others,
        run=run_title(run),
        payload=_payload,
        data=page.address.data,
    )


def groups_html(page: GroupsPage) -> str:
    """The whole document of groups of a training run."""
    return _document("groups.html", page=page, payload=_payload)


def listing(
    runs: Sequence[RunPaths],
    evaluations: Sequence[EvaluationEntry],
    groups: Sequence[GroupsEntry],
    *,
    root: Path,
) -> str:
    """The first page: every sweep, every evaluation and all groups under the root."""
    entries = sorted((sweep_entry(run) for run in runs), key=lambda entry: entry.order)
    size = {"width": WIDTH, "height": HEIGHT}
    return _document(
        "index.html",
        entries=entries,
        evaluations=evaluations,
        groups=groups,
        root=str(root),
        size=size,
    )


def message(title: str, text: str) -> str:
    """A page that says what went wrong."""
    return _document("message.html", title=title, text=text)


def _document(template: str, **values: Any) -> str:
    document = template_environment().get_template(template)
    return document.render(policy=POLICY, glossary=Glossary(), **values)


def _payload(chart: Chart) -> dict[str, Any]:
    return {
        "data": chart.figure["data"],
        "layout": chart.figure["layout"],
        "clicks": chart.clicks,
        "direct": chart.direct,
    }
