// Numbers, times and shares as people read them; what is not known is a dash, never 0. Never: words of their own.

import { locale, t } from "./i18n.js";

export const UNKNOWN = "–";
export const NO_LIMIT = "no limit";

const known = (value) => typeof value === "number" && Number.isFinite(value);
const said = (value, options) => new Intl.NumberFormat(locale(), options).format(value);

/** Three figures, or whole where it is large. */
export function num(value) {
  if (!known(value)) return UNKNOWN;
  const size = Math.abs(value);
  if (size >= 100 || Number.isInteger(value)) return said(value, { maximumFractionDigits: 0 });
  return said(value, size >= 10 ? { minimumFractionDigits: 1, maximumFractionDigits: 1 } : { maximumSignificantDigits: 3 });
}

/** Large numbers shortened: 12.4k. */
export function short(value) {
  if (!known(value)) return UNKNOWN;
  if (Math.abs(value) < 10_000) return num(value);
  const [by, unit] = Math.abs(value) >= 1e6 ? [1e6, "M"] : [1e3, "k"];
  return num(value / by) + unit;
}

/** A number with a fixed count of decimals: it does not jump about while it changes. */
export const fixed = (value, decimals) =>
  known(value) ? said(value, { minimumFractionDigits: decimals, maximumFractionDigits: decimals }) : UNKNOWN;

/** 0.425 as 42.5 %; small shares keep a digit. */
export function share(value, decimals) {
  if (!known(value)) return UNKNOWN;
  const digits = decimals ?? (value !== 0 && Math.abs(value) < 0.1 ? 1 : 0);
  return `${said(value * 100, { minimumFractionDigits: digits, maximumFractionDigits: digits })} %`;
}

/** Seconds as ms, s, min, h or d. */
export function span(seconds) {
  if (!known(seconds)) return UNKNOWN;
  const size = Math.abs(seconds);
  if (size === 0) return "0 s";
  if (size < 1) return `${num(seconds * 1000)} ms`;
  if (size < 120) return `${num(seconds)} s`;
  if (size < 3600) return `${num(seconds / 60)} min`;
  if (size < 172_800) return `${num(seconds / 3600)} h`;
  return `${num(seconds / 86_400)} d`;
}

/** A knob's value, with its limit that may be off and its switches. */
export function knobValue(value) {
  if (value === NO_LIMIT || value === Infinity) return t("no_limit");
  return known(value) ? said(value, { maximumFractionDigits: 4 }) : UNKNOWN;
}

/** The time of day of this browser's zone. */
export const clock = (ms, seconds = true) =>
  new Date(ms).toLocaleTimeString(locale(), {
    hour: "2-digit",
    minute: "2-digit",
    second: seconds ? "2-digit" : undefined,
    hour12: false,
  });

/** Day and time. */
export const moment = (ms) =>
  `${new Date(ms).toLocaleDateString(locale(), { year: "numeric", month: "2-digit", day: "2-digit" })} ${clock(ms)}`;

/** Day alone, without the year. */
export const day = (ms) => new Date(ms).toLocaleDateString(locale(), { month: "short", day: "numeric" });

/** An amount of money with the tariff's currency, four figures. */
export function money(value, currency) {
  if (!known(value)) return UNKNOWN;
  return `${said(value, { maximumSignificantDigits: 3 })} ${currency}`;
}
