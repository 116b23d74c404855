// Columns over time: what the history knows, and after it what came live. Belongs here: joining the two, gaps, the value
// at a moment. Never: asking for them (feed.js), drawing.

import { NO_LIMIT } from "./format.js";

const KEPT_TICKS = 4000;
/** Points further apart than so many steps have a gap between them. */
const GAP_STEPS = 3.5;
const LEAST_GAP_MS = 6000;
const PERCENTILES = [50, 95, 99];

/** Live ticks, oldest first: {ms, signals, latencies, knobs, objectives}. */
export const ticks = [];
let past = { ms: [], stepMs: 1000, means: {}, knobs: {} };

/** One more tick; an older one than the newest is known already. */
export function addTick(data) {
  const ms = Date.parse(data.at);
  if (ticks.length && ms <= ticks.at(-1).ms) return;
  ticks.push({ ...data, ms });
  if (ticks.length > KEPT_TICKS) ticks.splice(0, ticks.length - KEPT_TICKS);
}

/** What GET /history answered. */
export function setPast(answer) {
  const ms = answer.at.map((at) => Date.parse(at));
  const stepMs = ms.length > 1 ? median(ms.slice(1).map((at, n) => at - ms[n])) : 1000;
  past = { ms, stepMs, means: answer.means, knobs: answer.knobs };
}

/** {x, y} of a signal in a stretch; null in y breaks the line. */
export const signal = (name, range) => column(range, past.means[name], (tick) => tick.signals[name], true);

/** Of a knob; no limit is Infinity. */
export function knob(name, range) {
  const found = column(range, past.knobs[name], (tick) => tick.knobs[name], true);
  return { x: found.x, y: found.y.map((value) => (value === NO_LIMIT ? Infinity : value)) };
}

/** Of a latency's percentile, which ticks alone carry. */
export function latency(name, percentile, range) {
  const key = `p${nearest(percentile)}_s`;
  return column(range, null, (tick) => tick.latencies[name]?.[key], false);
}

/** Of the percentiles that ticks carry, the one that stands for this. */
export const nearest = (percentile) =>
  PERCENTILES.reduce((best, one) => (Math.abs(one - percentile) < Math.abs(best - percentile) ? one : best));

/** The value that held at a moment; undefined: not known. */
export function at({ x, y }, ms) {
  let low = 0;
  let high = x.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle] <= ms) low = middle + 1;
    else high = middle;
  }
  return low === 0 || y[low - 1] === null ? undefined : y[low - 1];
}

function column([from, to], values, ofTick, withPast) {
  const x = [];
  const y = [];
  const gapMs = Math.max(LEAST_GAP_MS, (withPast ? past.stepMs : 0) * GAP_STEPS);
  // A value that is unknown for a moment is bridged as a late one is; for longer the line ends.
  const add = (ms, value) => {
    if (value === null || value === undefined) return;
    if (x.length && ms - x.at(-1) > gapMs) {
      x.push(x.at(-1) + 1);
      y.push(null);
    }
    x.push(ms);
    y.push(value);
  };
  let joint = -Infinity;
  if (withPast && values) {
    for (let n = first(past.ms, from); n < past.ms.length && past.ms[n] <= to; n += 1) add(past.ms[n], values[n]);
    joint = past.ms.at(-1) ?? joint;
  }
  for (const tick of ticks) {
    if (tick.ms >= from && tick.ms <= to && tick.ms > joint) add(tick.ms, ofTick(tick));
  }
  return { x, y };
}

function first(sorted, from) {
  const found = sorted.findIndex((ms) => ms >= from);
  return found < 0 ? sorted.length : Math.max(0, found - 1);
}

function median(values) {
  return [...values].sort((a, b) => a - b)[values.length >> 1] ?? 1000;
}
