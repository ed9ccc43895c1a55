// Draws the charts that the page holds as JSON, follows choosers and sliders, and fetches a page of
// a running sweep again. No text from the data becomes markup here.
"use strict";

const LAYOUT = {
  font: { family: "system-ui, sans-serif", size: 13, color: "#222" },
  margin: { l: 62, r: 16, t: 12, b: 52 },
  hovermode: "closest",
  paper_bgcolor: "rgba(0,0,0,0)",
  plot_bgcolor: "rgba(0,0,0,0)",
};
const LEGEND_BELOW = { orientation: "h", x: 0, y: -0.2, yanchor: "top" };
const AXIS = { gridcolor: "#e4e4e4", zeroline: false, linecolor: "#555", automargin: true };
const CONFIG = {
  responsive: true,
  displaylogo: false,
  modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"],
};

function draw(div) {
  const chart = JSON.parse(document.getElementById("data-" + div.dataset.chart).textContent);
  const layout = { ...LAYOUT, ...chart.layout, legend: LEGEND_BELOW };
  for (const name of ["xaxis", "yaxis"]) {
    layout[name] = { ...AXIS, ...chart.layout[name] };
    if (layout[name].title) layout[name].title = { ...layout[name].title, standoff: 8 };
  }
  const shown = chart.data.filter((trace) => trace.showlegend !== false && trace.name).length;
  const narrow = div.clientWidth < 500;
  const rows = Math.ceil(shown / (narrow ? 1 : 3));
  if (!div.classList.contains("tall") && shown) {
    const height = 330 + 22 * rows;
    layout.height = height;
    layout.legend = { ...LEGEND_BELOW, y: -70 / (height - 70 - 22 * rows) };
    layout.margin = { ...LAYOUT.margin, b: 60 + 22 * rows };
  }
  Plotly.newPlot(div, chart.data, layout, CONFIG).then(() => div.setAttribute("data-drawn", "yes"));
  if (chart.clicks) div.on("plotly_click", (event) => follow(chart.clicks, event.points[0]));
  if (chart.frames) slide(div, chart.frames);
}

function follow(clicks, point) {
  const [row, column] = point.pointIndex;
  let href = clicks.at ? clicks.at[row + "," + column] : null;
  if (clicks.href) {
    const [a, b] = clicks.points[column];
    const more = new URLSearchParams({ problem: clicks.problems[row], a, b });
    href = clicks.href + (clicks.href.includes("?") ? "&" : "?") + more;
  }
  if (href) location.href = href;
}

function slide(div, frames) {
  const name = div.dataset.chart;
  const sliders = [...document.querySelectorAll(`[data-slider="${name}"]`)];
  const say = document.getElementById("say-" + name);
  const show = () => {
    for (const slider of sliders) {
      const words = slider.dataset.words.split("|")[Number(slider.value)];
      slider.nextElementSibling.textContent = words;
      slider.setAttribute("aria-valuetext", words);
    }
    const frame = frames[sliders.map((slider) => slider.value).join(",")];
    say.textContent = frame.say;
    Plotly.restyle(div, { y: frame.y }, frame.y.map((_, i) => i));
  };
  for (const slider of sliders) slider.addEventListener("input", show);
  show();
}

// A chooser goes at once when the pointer chose, and by Enter or its button from the keyboard, where
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
    const button = document.querySelector(`[data-go-button="${select.id}"]`);
    button.addEventListener("click", go);
  }
}

async function refresh() {
  if (document.hidden || document.activeElement?.closest("main :is(select, input)")) return;
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
  for (const div of root.querySelectorAll("[data-chart]")) draw(div);
}

start(document);
const seconds = Number(document.body.dataset.refresh);
const timer = seconds ? setInterval(refresh, 1000 * seconds) : null;
