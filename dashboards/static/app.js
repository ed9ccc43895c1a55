// Draws the charts that the page holds as JSON, follows choosers, and fetches a page of
// a running sweep again. No text from the data becomes markup here.
"use strict";

const LEGEND_BELOW = { orientation: "h", x: 0, y: -0.2, yanchor: "top" };

function base() {
  const ink = DARK.matches ? "#e4e6e9" : "#222222", line = DARK.matches ? "#3a3f46" : "#e4e4e4";
  return {
    layout: {
      font: { family: "system-ui, sans-serif", size: 13, color: ink },
      margin: { l: 58, r: 14, t: 8, b: 46 },
      hovermode: "closest",
      hoverlabel: { align: "left" },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
    },
    axis: { gridcolor: line, zeroline: false, linecolor: "#8a8f96", automargin: true },
  };
}

function draw(div) {
  const chart = JSON.parse(document.getElementById("data-" + div.dataset.chart).textContent);
  const { layout: common, axis } = base();
  const layout = { ...common, ...themed(chart.layout) };
  for (const name of ["xaxis", "yaxis"]) {
    layout[name] = { ...axis, ...layout[name] };
    if (layout[name].title) layout[name].title = { ...layout[name].title, standoff: 8 };
  }
  const shown = named(chart).length;
  const narrow = div.clientWidth < 500;
  // Names in a chart would leave a phone no room for lines and bars.
  const direct = div.clientWidth < (chart.direct === "end" ? 500 : 420) ? "" : chart.direct;
  if (direct) {
    layout.showlegend = false;
    if (direct === "end") layout.margin = { ...layout.margin, r: room(chart) };
  } else if (shown) {
    const rows = Math.ceil(shown / (narrow ? 1 : 3));
    div.dataset.height ??= div.clientHeight;
    const height = Number(div.dataset.height) + 22 * rows;
    layout.height = height;
    div.style.height = `${height}px`;
    layout.legend = { ...LEGEND_BELOW, y: -50 / (height - 50 - 22 * rows) };
    layout.margin = { ...layout.margin, b: 50 + 22 * rows };
  }
  const config = {
    responsive: true,
    displaylogo: false,
    displayModeBar: narrow ? false : "hover", // on a phone it would cover the chart
    modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"],
    showSendToCloud: false, // nothing of a page goes to another machine
    plotlyServerURL: "",
  };
  const isHeat = chart.data.some((trace) => trace.type === "heatmap");
  if (narrow) {
    layout.dragmode = false;
    // Both axes would push the margins about on so small a chart.
    layout.xaxis.automargin = false;
    if (isHeat) {
      layout.yaxis.showticklabels = false;
      layout.margin = { ...layout.margin, l: 8 };
    }
    if (layout.yaxis.ticktext) {
      const ticktext = layout.yaxis.ticktext.map(wrapped);
      layout.yaxis = { ...layout.yaxis, ticktext, tickfont: { size: 11 } };
      const lines = Math.max(...ticktext.map((text) => text.split("<br>").length));
      layout.height = Math.max(div.clientHeight, 70 + ticktext.length * (14 * lines + 8));
      div.style.height = `${layout.height}px`;
    }
  }
  if (isHeat && (narrow || crowded(layout.xaxis.ticktext, div.clientWidth))) {
    const ticktext = layout.xaxis.ticktext.map((text) => text.replaceAll("<br>", " "));
    const tickfont = { size: 12 };
    layout.xaxis = { ...layout.xaxis, ticktext, tickfont, tickangle: -90, automargin: true };
  }
  Plotly.newPlot(div, themed(chart.data), layout, config)
    .then(() => direct && directly(div, chart))
    .then(() => div.setAttribute("data-drawn", "yes"));
  if (chart.clicks) div.on("plotly_click", (event) => follow(chart.clicks, event.points[0]));
}

function follow(clicks, point) {
  const [row, column] = point.pointIndex;
  const [a, b] = clicks.points[column];
  const more = new URLSearchParams({ problem: clicks.problems[row], a, b });
  location.href = clicks.href + (clicks.href.includes("?") ? "&" : "?") + more;
}

// A chooser goes at once when the pointer chose, and by Enter from the keyboard, where
// every arrow would otherwise load a page.
function choosers(root) {
  for (const select of root.querySelectorAll("select[data-go]")) {
    const go = () => { if (select.value) location.href = select.value; };
    let typed = false;
    select.addEventListener("keydown", (event) => {
      typed = true;
      if (event.key === "Enter") go();
    });
    select.addEventListener("pointerdown", () => { typed = false; });
    select.addEventListener("change", () => { if (!typed) go(); });
  }
}

// What was opened stays open on the pages after it; a button comes with something to send.
function folds(root) {
  for (const fold of root.querySelectorAll("details[data-kept]")) {
    const key = "open-" + fold.dataset.kept;
    try {
      fold.open ||= sessionStorage.getItem(key) === "yes"; // or opened before this ran
      fold.addEventListener("toggle", () => sessionStorage.setItem(key, fold.open ? "yes" : "no"));
    } catch {
      return; // a browser that keeps nothing
    }
  }
  for (const form of root.querySelectorAll("form")) {
    const button = form.querySelector("button");
    button.hidden = true;
    form.addEventListener("input", () => { button.hidden = false; });
  }
}

// The meaning of a word, beside it: while the pointer is on either or the word has the focus, and
// until Escape.
let said = null;

function explain(term) {
  hush();
  const tip = document.getElementById(term.getAttribute("aria-describedby"));
  tip.hidden = false;
  const word = term.getBoundingClientRect(), own = tip.getBoundingClientRect();
  const left = Math.max(8, Math.min(word.left, document.documentElement.clientWidth - own.width - 8));
  const below = word.bottom + own.height + 8 <= innerHeight || word.top < own.height + 8;
  tip.style.left = `${left + scrollX}px`;
  tip.style.top = `${(below ? word.bottom + 2 : word.top - own.height - 2) + scrollY}px`;
  said = { term, tip };
}

function hush() {
  if (said) said.tip.hidden = true;
  said = null;
}

const near = (target) => target instanceof Element && said &&
  (said.term.contains(target) || said.tip.contains(target));
for (const kind of ["pointerover", "focusin"]) {
  document.addEventListener(kind, (event) => {
    const term = event.target.closest(".term");
    if (term && term !== said?.term) explain(term);
    else if (kind === "focusin" && !term) hush();
  });
}
document.addEventListener("pointerout", (event) => {
  if (near(event.target) && !near(event.relatedTarget) && document.activeElement !== said.term) hush();
});
document.addEventListener("focusout", (event) => { if (event.target === said?.term) hush(); });
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hush(); });

// An arrow key follows the link that names it, unless something has the focus that the key is for.
document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (event.target.closest("input, select, textarea, [tabindex='0']")) return;
  document.querySelector(`a[data-key="${CSS.escape(event.key)}"]`)?.click();
});

async function refresh() {
  if (document.hidden || document.activeElement?.closest("main :is(select, input, .term)")) return;
  let text;
  try {
    text = await (await fetch(location.href)).text();
  } catch {
    return; // the server is gone; the page stays as it was
  }
  const next = new DOMParser().parseFromString(text, "text/html");
  document.getElementById("main").replaceWith(next.getElementById("main"));
  if (!next.body.dataset.refresh) clearInterval(timer);
  start(document.getElementById("main"));
}

function start(root) {
  choosers(root);
  folds(root);
  for (const div of root.querySelectorAll("[data-chart]")) draw(div);
}

start(document);
DARK.addEventListener("change", () => {
  for (const div of document.querySelectorAll("[data-chart]")) draw(div);
});
const seconds = Number(document.body.dataset.refresh);
const timer = seconds ? setInterval(refresh, 1000 * seconds) : null;
