// The charts of the subjects, by plotly, each beside its legend. Belongs here: drawing and saying their lines. Never:
// what the lines are (subjects.js), the knobs' lanes (lanes.js).
/* global Plotly */

import { byId, h, keyed, mark, say, svg } from "./dom.js";
import { UNKNOWN } from "./format.js";
import { t } from "./i18n.js";
import { scale } from "./scales.js";
import { at } from "./series.js";
import { SUBJECTS } from "./subjects.js";
import { colour } from "./theme.js";
import { LEFT, RIGHT, lines as timeLines, range } from "./timeline.js";

const HEIGHT = 104;
const TALL = 148;
const STILL = { staticPlot: true, displayModeBar: false, responsive: false };
const FILLS = { solid: null, dash: "6px,4px", dot: "2px,3px" };

const rows = SUBJECTS.map((subject) => ({ subject, hidden: new Set(), lines: [], plot: null, drawn: false }));

/** Put the rows into the page. */
export function place(parent) {
  for (const row of rows) {
    const { id, tall } = row.subject;
    row.plot = h("div", { class: "plot", role: "img", data: { plot: id } });
    row.plot.style.height = `${tall ? TALL : HEIGHT}px`;
    row.legend = h("div", { class: "legend" });
    row.none = h("p", { class: "none", hidden: true });
    const title = h("h3", { data: { i18n: `chart.${id}` } });
    const left = h("div", { class: "row-left" }, title, row.legend);
    parent.append(h("div", { class: "row chart-row", data: { chart: id } }, left, row.plot, row.none));
  }
}

/** Draw all of them. `width` of a plot in pixels. */
export function draw(width) {
  const stretch = range();
  const grid = timeLines(width, stretch).map((line) => line.ms);
  for (const row of rows) {
    row.lines = row.subject.lines().map((line) => ({ ...line, data: line.column(stretch) }));
    drawOne(row, width, stretch, grid);
  }
  speak(null);
}

/** Say the values at a moment in the legends; null: the newest. */
export function speak(ms) {
  const when = ms ?? range()[1];
  for (const row of rows) {
    keyed(row.legend, row.lines, (line) => line.id, (line) => entry(row, line), (element, line) => {
      const value = at(line.data, when);
      const known = value !== undefined && value !== null;
      const hidden = row.hidden.has(line.id);
      mark(element, "aria-pressed", !hidden);
      say(element.children[1], line.label);
      say(element.children[2], known ? line.say(value) : UNKNOWN);
      mark(element, "data-missed", ms === null && line.missed ? "" : null);
      element.title = line.bound ? t("line.bound", { bound: line.say(line.bound) }) : t("line.toggle");
    });
    const told = row.lines.map((line) => `${line.label} ${line.say(at(line.data, when))}`).join(", ");
    mark(row.plot, "aria-label", `${t(`chart.${row.subject.id}`)}: ${told}`);
  }
}

function entry(row, line) {
  const dash = { solid: null, dash: "5 3", dot: "1.5 3" }[line.dash];
  const stroke = svg("line", { x1: 1, x2: 17, y1: 5, y2: 5, "stroke-width": 2, "stroke-dasharray": dash });
  stroke.style.stroke = `var(--${line.colour})`;
  const swatch = svg("svg", { width: 18, height: 10, "aria-hidden": true }, stroke);
  const toggle = () => {
    if (!row.hidden.delete(line.id)) row.hidden.add(line.id);
    drawOne(row, byId("axis").clientWidth, range(), null);
    speak(null);
  };
  return h("button", { class: "legend-entry", type: "button", on: { click: toggle } }, swatch, h("span"), h("b"));
}

function drawOne(row, width, stretch, grid) {
  const shown = row.lines.filter((line) => !row.hidden.has(line.id));
  const values = shown.flatMap((line) => (line.bound ? [...line.data.y, line.bound] : line.data.y));
  const axis = scale(row.subject.scale, values);
  const empty = !row.lines.some((line) => line.data.y.some((value) => value !== null));
  row.none.hidden = !empty;
  if (empty) say(row.none, t(`none.${row.subject.id}`));
  const layout = layoutOf(row, width, stretch, grid ?? row.grid, axis);
  row.grid = grid ?? row.grid;
  const grounds = shown.filter((line) => line.fill).map(ground);
  const traces = [...grounds, ...shown.map(trace), ...shown.filter((line) => line.bound).map((line) => bound(line, stretch))];
  if (row.drawn) Plotly.react(row.plot, traces, layout, STILL);
  else Plotly.newPlot(row.plot, traces, layout, STILL);
  row.drawn = true;
}

function trace(line) {
  return {
    type: "scatter",
    mode: "lines",
    x: line.data.x,
    y: line.data.y,
    connectgaps: false,
    line: { color: colour(line.colour), width: 1.6, dash: FILLS[line.dash] ?? "solid", shape: line.step ? "hv" : "linear" },
  };
}

/** The ground below a line. plotly would fill a gap too, so that here it goes down to 0 and up again. */
function ground(line) {
  const { x, y } = line.data;
  const at = x.flatMap((ms, n) => (y[n] === null && n + 1 < x.length ? [ms, x[n + 1] - 1] : [ms]));
  const value = y.flatMap((one, n) => (one === null ? (n + 1 < x.length ? [0, 0] : [0]) : [one]));
  const none = { width: 0, color: "rgba(0,0,0,0)" };
  return { type: "scatter", mode: "lines", x: at, y: value, fill: "tozeroy", fillcolor: colour(`${line.colour}-soft`), line: none };
}

function bound(line, [from, to]) {
  return {
    type: "scatter",
    mode: "lines",
    x: [from, to],
    y: [line.bound, line.bound],
    line: { color: colour(line.colour), width: 1.2, dash: "7px,5px" },
    opacity: 0.8,
  };
}

function layoutOf(row, width, stretch, grid, axis) {
  const { tall, unit, scale: kind } = row.subject;
  const font = { family: getComputedStyle(document.body).fontFamily, size: 11, color: colour("muted") };
  const plain = { showline: false, zeroline: false, gridcolor: colour("grid"), fixedrange: true };
  return {
    width,
    height: tall ? TALL : HEIGHT,
    margin: { l: LEFT, r: RIGHT, t: 8, b: 8 },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font,
    showlegend: false,
    hovermode: false,
    xaxis: { ...plain, type: "linear", range: stretch, tickvals: grid, showticklabels: false },
    yaxis: {
      ...plain,
      type: kind === "log" ? "log" : "linear",
      range: axis.range,
      tickvals: axis.ticks,
      ticktext: axis.ticks.map((value) => unit(value)),
    },
  };
}
