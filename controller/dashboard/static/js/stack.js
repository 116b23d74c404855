// Charts and lanes as one picture over one time axis: its width, when it is drawn, the line under the pointer, choosing
// a stretch with the mouse. Never: what is in a chart or a lane.

import * as charts from "./charts.js";
import { byId, h, mark, say, svg } from "./dom.js";
import { clock, moment } from "./format.js";
import { t } from "./i18n.js";
import * as lanes from "./lanes.js";
import { on } from "./state.js";
import { LEFT, RIGHT, SPANS_S, isLive, lines, live, msAt, pause, range, spanOf, xOf, zoom } from "./timeline.js";

/** A drag shorter than this is a click. */
const DRAG_PX = 6;
/** A window of days need not be drawn each second. */
const CALM_S = 3600;
const CALM_MS = 5000;

let width = 0;
let drawnAt = 0;
let asked = false;
let hover = null;
let dragFrom = null;

/** Put everything into the page, and go on drawing. */
export function start() {
  charts.place(byId("charts"));
  lanes.place(byId("lanes"));
  controls();
  new ResizeObserver(() => {
    if (byId("axis").clientWidth !== width) draw(true);
  }).observe(byId("axis"));
  on("window", showWindow); // what was chosen is shown at once, the picture follows with the next frame
  on("window words theme decisions knobs connection", () => draw(true));
  on("tick", () => draw(spanOf() < CALM_S || !isLive()));
  document.addEventListener("visibilitychange", () => draw(true));
  pointer(byId("stack"));
}

function draw(now) {
  if (asked || document.hidden || (!now && performance.now() - drawnAt < CALM_MS)) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    drawnAt = performance.now();
    width = byId("axis").clientWidth;
    if (width < LEFT + RIGHT + 50) return;
    axis();
    charts.draw(width);
    lanes.draw(width);
    showWindow();
    point(hover);
  });
}

function axis() {
  const found = lines(width);
  const texts = found.map(({ ms, text }) =>
    svg("text", { x: Math.round(xOf(ms, width)), y: 17, "text-anchor": "middle", text }),
  );
  byId("axis").replaceChildren(svg("svg", { width, height: 26, "aria-hidden": true }, ...texts));
}

function controls() {
  const choose = byId("span");
  choose.append(...SPANS_S.map((seconds) => h("option", { value: seconds, data: { i18n: `span.${seconds}` } })));
  choose.value = spanOf();
  choose.addEventListener("change", () => choose.value && live(Number(choose.value)));
  byId("live").addEventListener("click", () => (isLive() ? pause() : live()));
}

function showWindow() {
  const button = byId("live");
  mark(button, "aria-pressed", isLive());
  say(button, t(isLive() ? "window.live" : "window.back"));
  button.title = t(isLive() ? "window.pause" : "window.back");
  byId("span").value = spanOf();
  const [from, to] = range();
  byId("axis").title = `${moment(from)} – ${moment(to)}`;
}

function pointer(stack) {
  stack.addEventListener("pointermove", (event) => point(placeOf(event)));
  stack.addEventListener("pointerleave", () => point(null));
  stack.addEventListener("pointerdown", (event) => {
    const inPlot = event.target.closest(".plot") && !event.target.closest("button");
    dragFrom = event.pointerType === "mouse" && event.button === 0 && inPlot ? placeOf(event) : null;
    if (dragFrom !== null) event.preventDefault();
  });
  addEventListener("pointerup", (event) => {
    const from = dragFrom;
    dragFrom = null;
    byId("chosen").hidden = true;
    const to = from === null ? null : placeOf(event, true);
    if (to === null || Math.abs(to - from) < DRAG_PX) return;
    zoom(...[msAt(Math.min(from, to), width), msAt(Math.max(from, to), width)]);
  });
  stack.addEventListener("dblclick", (event) => event.target.closest(".plot") && live());
}

/** Pixels from the plots' left edge; null: beside them. */
function placeOf(event, clamp = false) {
  const x = event.clientX - byId("axis").getBoundingClientRect().left;
  const inside = Math.min(Math.max(x, LEFT), width - RIGHT);
  return clamp || inside === x ? inside : null;
}

function point(x) {
  hover = x;
  const cross = byId("cross");
  cross.hidden = x === null;
  const ms = x === null ? null : msAt(x, width);
  const offset = byId("axis").offsetLeft;
  if (ms !== null) {
    cross.style.transform = `translateX(${Math.round(offset + x)}px)`;
    say(byId("cross-time"), clock(ms));
  }
  byId("cross-time").hidden = x === null;
  if (ms !== null) byId("cross-time").style.transform = `translateX(${Math.round(x)}px)`;
  charts.speak(ms);
  lanes.speak(ms);
  if (dragFrom !== null && x !== null) chosen(offset, Math.min(dragFrom, x), Math.abs(x - dragFrom));
}

function chosen(offset, from, wide) {
  const box = byId("chosen");
  box.hidden = false;
  box.style.transform = `translateX(${offset + from}px)`;
  box.style.width = `${wide}px`;
}
