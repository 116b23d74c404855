// A decision or an operator's act as a small sign: its shape says the direction, its filling whether it was carried
// out, its colour who wanted it; never the colour alone. Belongs here: that, and grouping those that lie too close.

import { svg } from "./dom.js";
import { knobValue, share } from "./format.js";
import { maybe, t } from "./i18n.js";
import { groupMs, range } from "./timeline.js";

const APART_PX = 13;
const PATHS = {
  up: "M6 1.2 11 10.4H1Z",
  down: "M6 10.8 1 1.6H11Z",
  same: "M6 1.4a4.6 4.6 0 1 0 .01 0Z",
  failed: "M2 2 10 10M10 2 2 10",
  act: "M2 2H10V10H2Z",
};
const BROKEN = ["failed", "diverged", "partial"];
const OPERATORS = ["operator_override", "rollback_values", "rollback_undone"];
/** What is done once, and has no value before. */
const ONCE = ["purge", "preempt"];
const WORTH = { failed: 4, act: 3, up: 2, down: 2, same: 1 };

/** {shape, done, by} of a decision or an act. */
export function signOf(one) {
  if (one.action) return { shape: one.result === "ok" ? "act" : "failed", done: one.result === "ok", by: "operator" };
  const by = OPERATORS.includes(one.reason) ? "operator" : one.reason === "undo_worse" ? "undo" : "policy";
  if (BROKEN.includes(one.status)) return { shape: "failed", done: false, by };
  return { shape: direction(one), done: one.status === "applied" || one.status === "noted", by };
}

/** The sign as a picture. */
export function picture(sign) {
  const path = svg("path", { d: PATHS[sign.shape] });
  const kind = `sign sign-${sign.by}${sign.done ? "" : " sign-open"}${sign.shape === "failed" ? " sign-failed" : ""}`;
  return svg("svg", { class: kind, width: 12, height: 12, viewBox: "0 0 12 12", "aria-hidden": true }, path);
}

/** Those of the window that would cover each other as one: {key, ms, all}, oldest first in each. */
export function grouped(some, width) {
  const [from, to] = range();
  const wide = groupMs(width, APART_PX);
  const groups = new Map();
  for (const one of some) {
    if (one.ms < from || one.ms > to) continue;
    const key = Math.floor(one.ms / wide);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(one);
  }
  return [...groups].sort((a, b) => a[0] - b[0]).map(([key, all]) => group(`${wide.toFixed(3)}:${key}`, all));
}

function group(key, all) {
  all.sort((a, b) => a.ms - b.ms);
  const shown = all.reduce((best, one) => (worth(one) >= worth(best) ? one : best));
  return { key, ms: shown.ms, shown, all };
}

const worth = (one) => WORTH[signOf(one).shape];

function direction(one) {
  if (ONCE.includes(one.knob)) return "same";
  const [old, then] = [number(one.old), number(one.requested ?? one.wanted)];
  if (old === null || then === null || old === then) return "same";
  return then > old ? "up" : "down";
}

const number = (value) => (value === "no limit" ? Infinity : value);

/** A line for a list, or what a screen reader says of a mark. */
export function sentenceOf(one) {
  if (one.action) return `${one.action} ${one.target}: ${one.result === "ok" ? t("act.done") : one.result}`;
  return `${one.knob} ${change(one)}, ${wordOf("reason", one.reason)}, ${t(`status.${one.status}`)}`;
}

/** From what to what. */
export function change(one) {
  if (one.status === "noted") return "";
  const then = one.requested ?? one.wanted;
  if (ONCE.includes(one.knob)) return one.knob === "purge" ? share(then) : knobValue(then);
  return `${knobValue(one.old)} → ${knobValue(then)}`;
}

/** The word for one of the daemon's names, or the name itself readable. */
export const wordOf = (kind, name) => maybe(`${kind}.${name}`) ?? name.replaceAll("_", " ");
