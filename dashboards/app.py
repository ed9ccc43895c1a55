"""The server: a thin layer from addresses to pages, read-only, on this machine unless told else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from polars.exceptions import PolarsError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from dashboards import rendering
from dashboards.mlflow_ui import check_port, in_url
from dashboards.page import CSV, VIEWS, Address, Chart, first_view
from dashboards.pages import BUILDERS
from dashboards.pages.groups import build as build_groups
from dashboards.pages.groups import groups_entry
from dashboards.pages.overview import evaluation_entry
from dashboards.queries import RunRoot
from fgrpo_bench.analysis.results import evaluations_at
from fgrpo_bench.analysis.rollouts import group_names
from fgrpo_bench.command.runs import tracked
from fgrpo_bench.files.paths import RunPaths

HEADERS = {
    "Content-Security-Policy": f"{rendering.POLICY}; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",  # a page is of the files as they are now
}
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
"""This machine, as a request names it."""


def make_app(root: Path, *, hosts: Sequence[str] = LOOPBACK) -> Starlette:
    """The application over a run root. hosts: names that a request may ask for, which keeps pages
    of other sites from reading this one through a name of theirs; `*` is any."""
    run_root = RunRoot(root=root)

    async def index(_: Request) -> Response:
        def listing() -> str:
            evaluated = [evaluation_entry(root, name) for name in run_root.evaluations()]
            groups = [groups_entry(root, name) for name in group_names(root)]
            return rendering.listing(run_root.runs(), evaluated, groups, root=root)

        return _page(await run_in_threadpool(listing))

    async def compare(request: Request) -> Response:
        """The evaluations that were ticked on the first page, the first as the base."""
        names = [name for name in request.query_params.getlist("name") if name]
        if len(names) < 2:
            text = (
                "Tick at least two evaluations; the first of them is what the others differ from."
            )
            return _page(rendering.message("Which ones?", text), 400)
        run = evaluations_at(root, names)
        return RedirectResponse(Address(run=run, view="compare").href)

    async def asset(request: Request) -> Response:
        path = rendering.ASSETS.get(request.path_params["name"])
        if path is None:
            return _page(rendering.message("Not found", "There is no such file."), 404)
        return FileResponse(path, headers=HEADERS | {"Cache-Control": "max-age=3600"})

    async def view(request: Request) -> Response:
        # An analysis takes seconds: in the event loop it would hold up every other request.
        return await run_in_threadpool(answer, request)

    def answer(request: Request) -> Response:
        names = request.path_params
        given = {key: request.query_params.getlist(key) for key in request.query_params}
        chart_name = given.pop(CSV, [None])[-1]
        try:
            results = run_root.open(names["sweep"], names["experiment"], names["version"])
            if names["view"] not in BUILDERS:
                raise LookupError(f"there is no such view: it is one of {', '.join(VIEWS)}")
            page = BUILDERS[names["view"]](results, given)
        except LookupError as error:
            return _page(rendering.message("Not found", str(error.args[0])), 404)
        except (OSError, ValueError, PolarsError) as error:
            return _page(rendering.message("These files cannot be shown", str(error)), 500)
        if chart_name is None:
            return _page(rendering.html(page, run_root.runs()))
        return _data(page.charts, chart_name)

    async def groups(request: Request) -> Response:
        def shown() -> Response:
            try:
                page = build_groups(root, request.path_params["name"])
            except FileNotFoundError as error:
                return _page(rendering.message("Not found", str(error)), 404)
            except (OSError, ValueError) as error:
                return _page(rendering.message("These files cannot be shown", str(error)), 500)
            if (chart_name := request.query_params.get(CSV)) is not None:
                return _data(page.charts, chart_name)
            return _page(rendering.groups_html(page))

        return await run_in_threadpool(shown)

    async def start(request: Request) -> Response:
        run = RunPaths(root=root, **request.path_params)
        return RedirectResponse(Address(run=run, view=first_view(run)).href)

    return Starlette(
        routes=[
            Route("/", index),
            Route("/_static/{name}", asset),
            Route("/compare", compare),
            Route("/_groups/{name}", groups),
            Route("/{sweep}/{experiment}/{version}", start),
            Route("/{sweep}/{experiment}/{version}/{view}", view),
        ],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=list(hosts), www_redirect=False),
            # Level 9 takes three times as long as level 4 and saves 3% more of a page.
            Middleware(GZipMiddleware, minimum_size=2_000, compresslevel=4),
        ],
        exception_handlers={404: _missing},
    )


def _data(charts: Sequence[Chart], name: str) -> Response:
    """The data of a chart of a page as CSV."""
    for chart in charts:
        if chart.name == name:
            return Response(
                chart.data.write_csv(),
                media_type="text/csv; charset=utf-8",
                headers=HEADERS | {"Content-Disposition": f'attachment; filename="{name}.csv"'},
            )
    return _page(rendering.message("Not found", "This page has no such chart."), 404)


async def _missing(_: Request, __: Exception) -> Response:
    text = "There is no such page; the first page lists what there is."
    return _page(rendering.message("Not found", text), 404)


def _page(content: str, status: int = 200) -> Response:
    # A lone surrogate, which no UTF-8 holds, shows as a question mark.
    return HTMLResponse(content.encode("utf-8", "replace"), status_code=status, headers=HEADERS)


def serve(root: Path, *, host: str, port: int) -> None:
    """Serve until Ctrl-C; FileNotFoundError where the root holds no sweep, OSError for a port that
    is taken."""
    import uvicorn

    if not tracked(root) and not group_names(root):
        raise FileNotFoundError(
            f"{root} holds no sweep: run `fgrpo-bench sweep run <sweep>` first, or evaluate a "
            "model with `fgrpo-bench evaluate`, or name another --root"
        )
    check_port(host, port)
    name = in_url(host)
    hosts = LOOPBACK if name in LOOPBACK else ("*",)
    print(f"Dashboard: http://{name}:{port}  (Ctrl-C stops it)", flush=True)
    _load()
    uvicorn.run(make_app(root, hosts=hosts), host=host, port=port, log_level="warning")


def _load() -> None:
    """Import and compile what the first click would otherwise wait for."""
    import latex2mathml.converter  # noqa: F401
    import scipy.optimize.elementwise
    import scipy.special  # noqa: F401

    for name in rendering.template_environment().list_templates():
        rendering.template_environment().get_template(name)
