// A lane for each knob: its value over time with its decisions as marks, and a lane for what operators did. Marks are
// buttons: a click or Enter explains, arrow keys go along the lane. Never: what a mark looks like (marks.js).

import { h, keyed, mark, say, svg } from "./dom.js";
import { NO_LIMIT, clock, knobValue, short as shortened, span } from "./format.js";
import { maybe, t } from "./i18n.js";
import { grouped, picture, sentenceOf, signOf } from "./marks.js";
import * as series from "./series.js";
import { state } from "./state.js";
import { LEFT, RIGHT, lines, range, xOf } from "./timeline.js";
import { explain } from "./explain.js";
import { askOverride } from "./ask_override.js";

const HEIGHT = 48;
/** The line lies above, the marks below. */
const TOP = 9;
const FLOOR = 27;
/** The lane of what belongs to no knob of the engine. */
const ACTS = "acts";

let parent = null;
let shown = [];

export function place(element) {
  parent = element;
}

/** Draw all of them. `width` of a lane in pixels. */
export function draw(width) {
  const knobs = state.knobs?.knobs ?? [];
  const names = new Set(knobs.map((knob) => knob.name));
  const decisions = [...state.decisions.values()];
  const acts = [...decisions.filter((one) => !names.has(one.knob)), ...state.actions.values()];
  shown = [
    { name: ACTS, knob: null, marks: acts },
    ...knobs.map((knob) => ({ name: knob.name, knob, marks: decisions.filter((one) => one.knob === knob.name) })),
  ];
  for (const lane of shown) lane.data = lane.knob ? series.knob(lane.name, range()) : { x: [], y: [] };
  const grid = lines(width).map((line) => xOf(line.ms, width));
  keyed(parent, shown, (lane) => lane.name, make, (row, lane) => drawOne(row, lane, width, grid));
  speak(null);
}

/** Say the values at a moment; null: those now. */
export function speak(ms) {
  if (!parent) return;
  for (const [place, lane] of shown.entries()) {
    const row = parent.children[place];
    if (!lane.knob || !row) continue;
    const value = ms === null ? lane.knob.value : series.at(lane.data, ms);
    say(row.querySelector(".lane-value"), knobValue(value));
  }
}

function make(lane) {
  const value = h("b", { class: "lane-value" });
  const name = h("span", { class: "lane-name" });
  const note = h("span", { class: "lane-note" });
  const change = h("button", { class: "quiet lane-change", type: "button" });
  const left = h("div", { class: "row-left lane-left" }, name, value, note, lane.knob ? change : null);
  const plot = h("div", { class: "plot lane-plot", role: "group" });
  plot.style.height = `${HEIGHT}px`;
  plot.append(svg("svg", { class: "lane-line", height: HEIGHT, "aria-hidden": true }), h("div", { class: "marks" }));
  plot.addEventListener("keydown", along);
  change.addEventListener("click", () => askOverride(lane.name));
  return h("div", { class: "row lane", data: { lane: lane.name } }, left, plot);
}

function drawOne(row, lane, width, grid) {
  const [left, plot] = row.children;
  say(left.children[0], lane.knob ? lane.name : t("lane.acts"));
  left.children[0].title = maybe(`knob.${lane.name}`) ?? lane.name;
  say(left.children[2], noteOf(lane));
  left.children[2].title = lane.knob?.reason ?? lane.knob?.override?.withheld ?? startupOf(lane);
  mark(left.children[2], "data-held", lane.knob?.override ? "" : null);
  if (lane.knob) {
    say(left.children[3], t(lane.knob.override ? "lift.open" : "override.open"));
    left.children[3].hidden = lane.knob.support === "off";
    mark(left.children[3], "aria-label", t(lane.knob.override ? "lift.of" : "override.of", { knob: lane.name }));
  }
  mark(row, "data-off", lane.knob?.support === "off" ? "" : null);
  mark(plot, "aria-label", t("lane.marks", { knob: lane.name }));
  drawLine(plot.children[0], lane, width, grid);
  drawMarks(plot.children[1], lane, width);
}

function noteOf(lane) {
  const { knob } = lane;
  if (!knob) return t("lane.acts_note");
  if (knob.support === "off") return t("lane.off");
  if (knob.override) return t("lane.held", { left: span(Math.round(knob.override.left_s)) });
  return t("lane.bounds", { bounds: [knob.minimum, knob.maximum].map(short).join(" – ") });
}

const startupOf = ({ knob }) => (knob ? t("lane.startup", { value: knobValue(knob.startup) }) : "");

/** A bound as short as it goes. */
const short = (value) => (value === NO_LIMIT ? "∞" : shortened(value));

function drawLine(picture, lane, width, grid) {
  picture.setAttribute("width", width);
  const parts = grid.map((x) => svg("line", { class: "grid", x1: x, x2: x, y1: 0, y2: HEIGHT }));
  const known = lane.data.y.filter((value) => value !== null && Number.isFinite(value));
  if (lane.knob && known.length) {
    const low = known.reduce((a, b) => Math.min(a, b));
    const high = known.reduce((a, b) => Math.max(a, b));
    const y = (value) => heightOf(value, low, high);
    parts.push(svg("path", { class: "lane-path", d: pathOf(lane.data, width, y) }));
    parts.push(svg("text", { x: LEFT - 6, y: y(high) + 4, "text-anchor": "end", text: knobValue(high) }));
    if (y(low) - y(high) > 12) {
      parts.push(svg("text", { x: LEFT - 6, y: y(low) + 5, "text-anchor": "end", text: knobValue(low) }));
    }
  } else if (lane.knob && lane.data.y.includes(Infinity)) {
    parts.push(svg("path", { class: "lane-path", d: pathOf(lane.data, width, () => TOP) }));
  }
  picture.replaceChildren(...parts);
}

/** What did not move lies in the middle; no limit lies above everything. */
function heightOf(value, low, high) {
  if (value === Infinity) return TOP - 5;
  return high === low ? (TOP + FLOOR) / 2 : FLOOR - ((value - low) / (high - low)) * (FLOOR - TOP);
}

function pathOf({ x, y }, width, heightAt) {
  const stretch = range();
  const edge = (value) => Math.min(Math.max(value, LEFT), width - RIGHT);
  let text = "";
  let open = false;
  let before = null;
  for (let n = 0; n < x.length; n += 1) {
    if (y[n] === null) {
      if (open) text += `H${edge(xOf(x[n], width, stretch)).toFixed(1)}`;
      open = false;
    } else if (!open || y[n] !== before || n === x.length - 1) {
      const at = edge(xOf(x[n], width, stretch)).toFixed(1);
      text += open ? `H${at}V${heightAt(y[n]).toFixed(1)}` : `M${at} ${heightAt(y[n]).toFixed(1)}`;
      open = true;
    }
    before = y[n];
  }
  return text;
}

function drawMarks(place, lane, width) {
  const groups = grouped(lane.marks, width);
  const update = (button, group) => {
    button.group = group;
    const sign = signOf(group.shown);
    const look = `${sign.shape} ${sign.done} ${sign.by} ${group.shown.outcome?.verdict ?? ""} ${group.all.length}`;
    if (button.dataset.look !== look) {
      button.dataset.look = look;
      const count = group.all.length > 1 ? h("span", { class: "mark-count", text: group.all.length }) : null;
      button.replaceChildren(picture(sign), ...(count ? [count] : []));
      mark(button, "data-verdict", group.shown.outcome?.verdict ?? null);
    }
    button.style.transform = `translateX(${Math.round(xOf(group.ms, width)) - 11}px)`;
    const more = group.all.length > 1 ? ` (${t("mark.more", { count: group.all.length - 1 })})` : "";
    mark(button, "aria-label", `${clock(group.ms)}: ${sentenceOf(group.shown)}${more}`);
    button.title = button.getAttribute("aria-label");
  };
  keyed(place, groups, (group) => group.key, makeMark, update);
  roving(place);
}

function makeMark() {
  const button = h("button", { class: "mark", type: "button", tabindex: -1 });
  button.addEventListener("click", () => explain(button.group.all, button));
  button.addEventListener("focus", () => {
    for (const other of button.parentElement.children) other.tabIndex = other === button ? 0 : -1;
  });
  return button;
}

/** One stop of the Tab key for each lane: the mark that had the focus last, else the newest. */
function roving(place) {
  const all = [...place.children];
  if (all.length && !all.some((one) => one.tabIndex === 0)) all.at(-1).tabIndex = 0;
}

function along(event) {
  const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
  const here = event.target.closest(".mark");
  if (step === undefined || !here) return;
  const all = [...here.parentElement.children];
  const place = Math.min(Math.max(all.indexOf(here) + step, 0), all.length - 1);
  all[place].focus();
  event.preventDefault();
}
