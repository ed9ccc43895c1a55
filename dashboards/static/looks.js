// Colours of the system's setting, and names of traces beside what they name.
"use strict";

const DARK = matchMedia("(prefers-color-scheme: dark)");

function hsl(red, green, blue) {
  const [r, g, b] = [red / 255, green / 255, blue / 255];
  const high = Math.max(r, g, b), low = Math.min(r, g, b), l = (high + low) / 2, d = high - low;
  if (!d) return [0, 0, l];
  const h = high === r ? ((g - b) / d + 6) % 6 : high === g ? (b - r) / d + 2 : (r - g) / d + 4;
  return [60 * h, d / (1 - Math.abs(2 * l - 1)), l];
}

// A dark colour becomes a light one and a light one darker, so that what stood out still does, and
// shades of one colour stay apart; white is the page.
function turned(red, green, blue, alpha = 1) {
  const [h, s, l] = hsl(red, green, blue);
  if (l === 1) return `rgba(22,25,29,${alpha})`;
  const light = Math.min(0.86, Math.max(0.45, 1.02 - 0.8 * l));
  return `hsla(${h.toFixed(0)},${(85 * s).toFixed(0)}%,${(100 * light).toFixed(0)}%,${alpha})`;
}

function channels(color) {
  const hex = /^#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})$/i.exec(color);
  if (hex) return hex.slice(1).map((part) => parseInt(part, 16));
  const parts = /^rgba?\(([\d., ]+)\)$/.exec(color);
  return parts ? parts[1].split(",").map(Number) : null;
}

// A figure's colours as this setting has them; a scale of colours stays, its numbers are read by it.
function themed(value, key = "") {
  if (!DARK.matches || key === "colorscale" || key === "pattern") return value;
  if (Array.isArray(value)) {
    return /colors?$/.test(key) || typeof value[0] === "object"
      ? value.map((each) => themed(each, key)) : value;
  }
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([name, own]) => [name, themed(own, name)]));
  }
  const parts = typeof value === "string" && /color$/.test(key) ? channels(value) : null;
  return parts ? turned(...parts) : value;
}

function ink(color) {
  const parts = channels(color);
  if (!parts || DARK.matches) return color;
  return `rgb(${parts.slice(0, 3).map((part) => Math.round(0.62 * part)).join(",")})`;
}

const SIZE = 12, LINE = 15;
const pen = document.createElement("canvas").getContext("2d");

const named = (chart) => chart.data.filter((trace) => trace.showlegend !== false && trace.name);
const plain = (text) => text.replace(/&(lt|gt|amp);/g, (_, name) => ({ lt: "<", gt: ">", amp: "&" })[name]);
const strong = (trace) => trace.line?.width > 2 || trace.error_y?.visible === true;

function wide(trace) {
  pen.font = `bold ${SIZE}px system-ui, sans-serif`;
  return pen.measureText(plain(trace.name)).width;
}

// Room that names need to the right of a chart.
function room(chart) {
  return 14 + Math.max(0, ...named(chart).map(wide));
}

function note(trace, more) {
  const color = ink(trace.marker?.color ?? trace.line?.color ?? "#555555");
  const text = strong(trace) ? `<b>${trace.name}</b>` : trace.name;
  return { text, font: { size: SIZE, color: themed(color, "color") }, ...more };
}

// Of more lines than there is room for, those whose names hide no other, the strong ones first; the
// pointer names the rest.
function fitting(ends, height) {
  if (ends.length * LINE <= height) return ends;
  const kept = [];
  for (const end of [...ends].sort((one, other) => strong(other.trace) - strong(one.trace))) {
    if (kept.every((other) => Math.abs(other.at - end.at) >= LINE)) kept.push(end);
  }
  return kept;
}

// At the ends of lines, as near to their heights as the letters allow.
function atEnds(div, chart) {
  const axis = div._fullLayout.yaxis, height = axis._length;
  const ends = fitting(
    named(chart).map((trace) => ({ trace, at: axis.d2p(trace.y[trace.y.length - 1]) })), height);
  ends.sort((one, other) => one.at - other.at);
  ends.forEach((end, i) => {
    if (i) end.at = Math.max(end.at, ends[i - 1].at + LINE);
  });
  let lowest = height + LINE / 2;
  for (const end of ends.reverse()) {
    end.at = Math.min(end.at, lowest);
    lowest = end.at - LINE;
  }
  return ends.map(({ trace, at }) => note(trace, {
    xref: "paper", yref: "paper", x: 1, y: 1 - at / height, xanchor: "left", yanchor: "middle",
    xshift: 6, showarrow: false,
  }));
}

const overlap = (a, b) =>
  Math.max(0, Math.min(a.right, b.right) - Math.max(a.left, b.left)) *
  Math.max(0, Math.min(a.low, b.low) - Math.max(a.high, b.high));
const box = (x, y, width, height) =>
  ({ left: x - width / 2, right: x + width / 2, high: y - height / 2, low: y + height / 2 });

// What error bars of a trace cover, those of all its points.
function bars({ xaxis, yaxis }, trace) {
  return [[xaxis, trace.error_x], [yaxis, trace.error_y]].flatMap(([axis, bar]) => {
    if (!bar || bar.visible === false) return [];
    return bar.array.map((above, i) => {
      const at = (axis === xaxis ? trace.x : trace.y)[i];
      const [px, py] = [xaxis.d2p(trace.x[i]), yaxis.d2p(trace.y[i])];
      const [one, other] = [axis.d2p(at - bar.arrayminus[i]), axis.d2p(at + above)];
      const [middle, length] = [(one + other) / 2, Math.abs(one - other)];
      return axis === xaxis ? box(middle, py, length, 6) : box(px, middle, 6, length);
    });
  });
}

// What the points of a trace and the line through them cover.
function along({ xaxis, yaxis }, trace) {
  const points = trace.x.map((x, i) => [xaxis.d2p(x), yaxis.d2p(trace.y[i])]);
  const boxes = points.map(([px, py]) => box(px, py, 12, 12));
  if (!trace.mode.includes("lines")) return boxes;
  points.slice(1).forEach(([px, py], i) => {
    const [fromX, fromY] = points[i];
    const n = Math.ceil(Math.hypot(px - fromX, py - fromY) / 8);
    for (let part = 1; part < n; part++) {
      boxes.push(box(fromX + (px - fromX) * part / n, fromY + (py - fromY) * part / n, 8, 8));
    }
  });
  return boxes;
}

// Beside the last point of each trace, where it hides least and crosses no bar; a name without such
// a place, and a weak one that would hide much, is left to the pointer.
function besidePoints(div, chart) {
  const { xaxis, yaxis } = div._fullLayout;
  const traces = named(chart);
  const points = traces.map((trace) => {
    const i = trace.x.length - 1;
    return { trace, x: trace.x[i], y: trace.y[i], px: xaxis.d2p(trace.x[i]), py: yaxis.d2p(trace.y[i]) };
  });
  const kept = traces.flatMap((trace) => bars(div._fullLayout, trace));
  const taken = traces.flatMap((trace) => along(div._fullLayout, trace));
  points.sort((one, other) => strong(other.trace) - strong(one.trace));
  return points.flatMap(({ trace, x, y, px, py }) => {
    const width = wide(trace) + 4;
    const places = [];
    for (const far of [0, 16, 32, 48, 64, 80]) {
      const aside = width / 2 + 8;
      for (const up of far ? [-far, far] : [0]) {
        places.push([aside, up], [-aside, up], [0, up || -13], [0, up || 13]);
      }
    }
    const hides = ([ax, ay], boxes) => {
      const own = box(px + ax, py + ay, width, LINE);
      return boxes.reduce((sum, other) => sum + overlap(own, other), 0);
    };
    const hidden = (place) => {
      const all = width * LINE;
      const inside = { left: 0, right: xaxis._length, high: 0, low: yaxis._length };
      return hides(place, taken) + 2 * (all - hides(place, [inside]));
    };
    const cost = (place) => hidden(place) + 0.4 * Math.hypot(place[0] - width / 2, place[1]);
    const free = places.filter((place) => !hides(place, kept));
    if (!free.length) return [];
    const [ax, ay] = free.reduce((best, place) => (cost(place) < cost(best) ? place : best));
    if (hidden([ax, ay]) > (strong(trace) ? 0.5 : 0.12) * width * LINE) return [];
    taken.push(box(px + ax, py + ay, width, LINE));
    const far = Math.abs(ay) > 13;
    return [note(trace, {
      x, y, ax, ay, xanchor: "center", yanchor: "middle", showarrow: true, arrowhead: 0,
      arrowwidth: 0.8, arrowcolor: far ? themed("#8a8f96", "color") : "rgba(0,0,0,0)", standoff: 5,
      borderpad: 0,
    })];
  });
}

// Whether names under the columns of a heat map, which break between words, would run into each
// other; the left quarter is for the names of rows.
function crowded(names, width) {
  pen.font = "13px system-ui, sans-serif";
  const words = names.flatMap((name) => name.split(/<br>| /));
  const widest = Math.max(0, ...words.map((word) => pen.measureText(plain(word)).width));
  return widest > (0.75 * width) / names.length;
}

// Names on an axis in lines that leave room for the chart on a phone.
function wrapped(text) {
  const lines = text.split("<br>").map((part) => part.split(" ").reduce((line, word) => {
    const last = line.split("<br>").pop().replace(/<[^>]*>/g, "");
    return line + (last.length + word.length > 21 ? "<br>" : " ") + word;
  }));
  return lines.join("<br>");
}

function directly(div, chart) {
  const names = chart.direct === "end" ? atEnds(div, chart) : besidePoints(div, chart);
  const annotations = [...(div.layout.fixed ?? []), ...names];
  return Plotly.relayout(div, { annotations });
}
