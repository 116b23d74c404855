// The one time axis: which stretch is shown, where a moment lies, where its lines are. Never: drawing.

import { clock, day } from "./format.js";
import { tell } from "./state.js";

export const SPANS_S = [300, 900, 3600, 21_600, 86_400, 604_800];
/** Room beside every plot, in pixels: numbers at the left, the newest mark at the right. */
export const LEFT = 52;
export const RIGHT = 14;
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const STEPS = [1, 2, 5, 10, 15, 30].map((n) => n * SECOND).concat(
  [1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  [1, 2, 3, 6, 12].map((n) => n * HOUR),
  [1, 2, 7].map((n) => n * DAY),
);
const LEAST_ZOOM_MS = 5 * SECOND;

let spanS = 900;
let still = null;
let newestMs = null;

/** From and to, in milliseconds. */
export function range() {
  if (still) return still;
  const to = newestMs ?? Date.now();
  return [to - spanS * SECOND, to];
}

export const isLive = () => still === null;
export const spanOf = () => spanS;

/** A tick came. */
export function newest(ms) {
  newestMs = Math.max(newestMs ?? 0, ms);
}

/** The last so many seconds, going along with time. */
export function live(seconds = spanS) {
  spanS = seconds;
  still = null;
  tell("window");
}

/** Stand still where it is. */
export function pause() {
  still = range();
  tell("window");
}

/** Show this stretch. */
export function zoom(from, to) {
  if (to - from < LEAST_ZOOM_MS) return;
  still = [from, to];
  tell("window");
}

/** Pixels from the left edge of a plot that is `width` wide, its margins included. */
export function xOf(ms, width, [from, to] = range()) {
  return LEFT + ((ms - from) / (to - from)) * (width - LEFT - RIGHT);
}

/** The moment at a pixel. */
export function msAt(x, width, [from, to] = range()) {
  return from + ((x - LEFT) / (width - LEFT - RIGHT)) * (to - from);
}

/** Moments of round time with their words, as many as go beside each other. */
export function lines(width, [from, to] = range()) {
  const room = Math.max(2, (width - LEFT - RIGHT) / 84);
  const step = STEPS.find((one) => (to - from) / one <= room) ?? STEPS.at(-1);
  const zone = new Date(to).getTimezoneOffset() * MINUTE;
  const found = [];
  for (let ms = Math.ceil((from - zone) / step) * step + zone; ms <= to; ms += step) {
    found.push({ ms, text: step >= DAY || isMidnight(ms) ? day(ms) : clock(ms, step < MINUTE) });
  }
  return found;
}

const isMidnight = (ms) => {
  const at = new Date(ms);
  return at.getHours() === 0 && at.getMinutes() === 0 && at.getSeconds() === 0;
};

/** Width of the group of marks that would cover each other, in milliseconds: fixed places, so groups stay as they are. */
export function groupMs(width, pixels, [from, to] = range()) {
  return Math.max(1, (pixels / Math.max(1, width - LEFT - RIGHT)) * (to - from));
}
