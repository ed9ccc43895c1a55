"""The dashboard in a real browser, over a real smoke sweep."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from dashboards.page import VIEWS
from fgrpo_bench.files.paths import RunPaths
from fgrpo_bench.stages.locks import locked
from tests.browser.conftest import NARROW, SHOWN, WIDE, drawn, findings

CHARTS = {"sweep": 2, "compare": 4, "forgetting": 2, "draws": 0, "rollouts": 0, "audit": 0}
MARKS = "svg.main-svg :is(.trace, .hm, .point, .points path)"
"""What Plotly draws of data."""

BUTTONS = {"Download plot as a PNG", "Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"}
"""None of them sends anything to another machine."""

OpenPage = Callable[..., Page]


def offered(page: Page) -> set[str | None]:
    """What the charts of a page offer beside them, by title; none knows an address to send to."""
    charts = page.locator("[data-drawn]").all()
    assert all(chart.evaluate("e => e._context.plotlyServerURL") == "" for chart in charts)
    return {button.get_attribute("data-title") for button in page.locator(".modebar-btn").all()}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["1280", "390"])
def test_every_page_renders_with_data_and_fits(open_page: OpenPage, dashboard: str, view, size):
    page = open_page(f"{dashboard}/{view}", size)
    assert page.locator("[data-drawn]").count() == CHARTS[view]
    for i in range(CHARTS[view]):
        assert page.locator("[data-drawn]").nth(i).locator(MARKS).count() > 0
    assert offered(page) == (BUTTONS if size == WIDE and CHARTS[view] else set())
    widths = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert widths[0] <= widths[1], "the page must not scroll sideways"
    assert page.locator("main td").count() + CHARTS[view] > 1
    small = page.evaluate(
        "[...document.querySelectorAll('main *')].filter(e => e.childElementCount === 0 &&"
        " e.textContent.trim() && !e.closest('svg') && e.getClientRects().length &&"
        " parseFloat(getComputedStyle(e).fontSize) < 11).length"
    )
    assert small == 0, "letters of less than 11 pixels"


@pytest.mark.parametrize("view", ["sweep", "compare", "forgetting", "draws"])
def test_every_link_of_every_control_changes_what_the_page_says(open_page, dashboard, view):
    page = open_page(f"{dashboard}/{view}")
    links = page.locator(".controls a:not([aria-current])")
    hrefs = [link.get_attribute("href") for link in links.all()]
    assert len(hrefs) > 2
    before = page.locator("main").inner_html()
    for href in hrefs:
        page.goto(dashboard.partition("/smoke")[0] + href)
        drawn(page)
        assert page.locator("main").inner_html() != before, href


def test_a_chooser_goes_by_pointer_at_once_and_by_keyboard_with_enter(open_page, dashboard):
    page = open_page(f"{dashboard}/draws")
    before = page.locator("h1").inner_text()
    page.select_option("#choose-problem", index=3)
    page.wait_for_url("**/draws?*problem=*")
    assert page.locator("h1").inner_text() != before
    page.locator("#choose-b").focus()
    page.keyboard.press("ArrowUp")
    assert "b=grpo-n4-g0-s11" not in page.url
    page.keyboard.press("Enter")
    page.wait_for_url("**b=grpo-n4-g0-s11**")
    assert page.locator(".side h2").nth(1).inner_text() == "GRPO N=4, seed 11"


def test_checkboxes_and_lengths_change_what_is_shown(open_page, dashboard):
    page = open_page(f"{dashboard}/compare")
    rows = page.locator(".grid").first.locator("tbody tr")
    assert rows.count() == 3
    assert not page.locator("form.cells button").is_visible()
    page.click("details.fold > summary")
    page.uncheck("input[value=base]")
    page.click("form.cells button")
    page.wait_for_url("**cell=**")
    drawn(page)
    assert rows.count() == 2
    page.goto(f"{dashboard}/draws")
    drawn(page)
    n = page.locator(".draw").count()
    if not page.locator("form.lengths").is_visible():
        page.click("details.fold > summary")
    page.fill("input[name=max]", "2")
    page.click("form.lengths button")
    page.wait_for_url("**max=2**")
    assert page.locator(".draw").count() < n
    assert page.locator(".filter").inner_text().startswith("Only draws of at most 2 tokens")
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**max=2**problem=**")
    assert "2 of " in page.locator("p.lead").inner_text()


def test_everything_can_be_reached_and_opened_with_the_keyboard(open_page, dashboard):
    page = open_page(f"{dashboard}/compare")
    page.click("details.fold > summary")
    page.reload()
    drawn(page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    seen = set()
    for _ in range(150):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.outerHTML.slice(0, 200)"))
    wanted = page.evaluate(
        "[...document.querySelectorAll("
        "'main :is(a[href], button, input, summary), nav a, header select')]"
        ".filter(e => !e.closest('.plot') && e.getClientRects().length)"
        ".map(e => e.outerHTML.slice(0, 200))"
    )
    assert set(wanted) <= seen
    assert page.locator("details.fold .controls").is_visible(), "what was opened stays open"
    page.locator(".under summary").first.focus()
    page.keyboard.press("Enter")
    assert page.locator(".under pre").first.is_visible()
    assert "analysis = load(" in page.locator(".under pre").first.inner_text()


def test_the_page_of_a_running_sweep_follows_it(open_page, dashboard, run: RunPaths):
    marker = run.point("grpo-n4-g1-s11").done
    aside = marker.with_name("aside.json")
    with locked(run.driver_lock, wait=False, what="the sweep"):
        page = open_page(f"{dashboard}/sweep")
        badge = page.locator(".states .done")
        before = badge.inner_text()
        marker.rename(aside)
        try:
            expect(badge).not_to_have_text(before, timeout=20_000)
            drawn(page)
        finally:
            aside.rename(marker)
        expect(badge).to_have_text(before, timeout=20_000)


def test_a_dark_system_has_dark_pages_and_every_name_is_told_apart_from_them(browser, dashboard):
    context = browser.new_context(color_scheme="dark")
    page = context.new_page()
    page.goto(f"{dashboard}/compare")
    drawn(page)
    colors = "e => ['color', 'backgroundColor'].map(n => getComputedStyle(e)[n])"
    ink, ground = page.locator("body").evaluate(colors)
    assert min(channels(ink)) > 180 and max(channels(ground)) < 60
    names = page.locator("#chart-curves .annotation-text")
    assert names.count() == 3
    for name in names.all():
        assert max(channels(name.evaluate("e => getComputedStyle(e).fill"))) > 110
    context.close()


def channels(color: str) -> list[int]:
    return [int(float(part)) for part in re.findall(r"[\d.]+", color)[:3]]


@pytest.mark.parametrize(("theme", "size"), SHOWN)
def test_no_page_keeps_anybody_out(browser, dashboard, theme, size):
    home = dashboard.rsplit("/", 3)[0]
    for address in (home, f"{home}/nothing", *(f"{dashboard}/{view}" for view in VIEWS)):
        context = browser.new_context(viewport=size, color_scheme=theme)
        page = context.new_page()
        page.goto(address)
        drawn(page)
        assert findings(page) == [], address
        context.close()


@pytest.mark.parametrize("view", ["compare", "sweep", "forgetting"])
def test_a_word_of_ours_has_its_meaning_beside_it_until_escape(open_page, dashboard, view):
    page = open_page(f"{dashboard}/{view}")
    terms, tips = page.locator(".term:visible"), page.locator(".tip:visible")
    assert terms.count() > 3
    for term in terms.all():
        term.focus()
        (shown,) = tips.all()
        assert shown.get_attribute("id") == term.get_attribute("aria-describedby")
        box = shown.bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= WIDE["width"]
        page.keyboard.press("Escape")
        assert tips.count() == 0
    terms.first.hover()
    assert tips.count() == 1
    tips.first.hover()
    assert tips.count() == 1, "it can be pointed at"
    page.mouse.move(1, 1)
    assert tips.count() == 0


CROSSED = """div => {
  const boxes = (query) => [...div.querySelectorAll(query)].map((e) => e.getBoundingClientRect());
  const names = boxes(".annotation-text"), bars = boxes(".xerror, .yerror");
  return names.filter((one) => bars.some((bar) => bar.width + bar.height > 0 &&
    one.left < bar.right && bar.left < one.right && one.top < bar.bottom && bar.top < one.bottom
  )).length;
}"""


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["1280", "390"])
def test_no_name_in_the_plane_crosses_an_error_bar(open_page, dashboard, size):
    page = open_page(f"{dashboard}/compare", size)
    plane = page.locator("#chart-plane")
    assert plane.locator(".xerror, .yerror").count() > 1
    assert plane.locator(".annotation-text, .legendtext").count() > 1
    assert plane.evaluate(CROSSED) == 0


def test_what_compare_opens_on_is_above_the_fold(open_page, dashboard):
    page = open_page(f"{dashboard}/compare", {"width": 1280, "height": 800})
    for name in ("differences", "plane", "curves"):
        box = page.locator(f"#chart-{name}").bounding_box()
        assert box["y"] + box["height"] <= 800, name


def test_a_cell_of_the_heat_map_and_of_its_table_opens_the_draws(open_page, dashboard):
    page = open_page(f"{dashboard}/forgetting")
    page.locator("#chart-heat .nsewdrag").first.click(position={"x": 300, "y": 60})
    page.wait_for_url("**/draws?**")
    assert page.locator(".side").count() == 2
    assert page.locator(".draw").count() > 2
    page.goto(f"{dashboard}/forgetting")
    page.locator("table.narrow td a").last.focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/draws?**")
    assert page.locator(".steps b").inner_text()


def test_the_data_of_a_chart_is_downloaded(open_page, dashboard, tmp_path: Path):
    page = open_page(f"{dashboard}/compare")
    with page.expect_download() as download:
        page.locator("a[download='curves.csv']").click()
    download.value.save_as(tmp_path / "curves.csv")
    assert (tmp_path / "curves.csv").read_text().startswith("cell,step,k,mean,low,high")
