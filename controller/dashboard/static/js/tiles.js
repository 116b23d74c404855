// The figures at the top: what an operator looks at first. Belongs here: which, and their words. Never: charts.

import { byId, h, keyed, mark, say } from "./dom.js";
import { UNKNOWN, fixed, knobValue, money, num, share, short, span } from "./format.js";
import { maybe, t } from "./i18n.js";
import * as series from "./series.js";
import { on, state } from "./state.js";

/** Figures that change each second keep their decimals, so that they do not jump about. */
const TILES = [
  ["rate", rate],
  ["queue", queue],
  ["latency", latency],
  ["cache", cache],
  ["gpu", gpu],
  ["cost", cost],
  ["alerts", alerts],
];

export function start() {
  on("tick status alerts cost words connection", show);
  show();
}

function show() {
  const tick = series.ticks.at(-1) ?? null;
  const shown = TILES.map(([id, of]) => ({ id, ...of(tick?.signals ?? {}, tick) }));
  keyed(byId("tiles"), shown, (tile) => tile.id, make, (element, tile) => {
    const [label, value, sub] = element.children;
    say(label, tile.label);
    say(value.children[0], tile.value);
    say(value.children[1], tile.unit ?? "");
    say(sub, tile.sub ?? "");
    mark(element, "data-kind", tile.kind ?? null);
    element.title = tile.title ?? tile.sub ?? "";
  });
}

const make = (tile) =>
  h(
    "div",
    { class: "tile", data: { tile: tile.id } },
    h("span", { class: "tile-label" }),
    h("span", { class: "tile-value" }, h("b"), h("i")),
    h("span", { class: "tile-sub" }),
  );

function rate(now) {
  const tokens = t("tile.tokens", { out: short(now.generation_tokens_per_s), in: short(now.prompt_tokens_per_s) });
  return { label: t("tile.rate"), value: fixed(now.requests_per_s, 1), unit: "/s", sub: tokens };
}

function queue(now, tick) {
  const running = tick?.running ?? now.running;
  const waiting = tick?.waiting ?? now.waiting;
  const cap = knobValue(tick?.knobs.max_num_seqs);
  const sub = t("tile.queue_sub", { cap, oldest: span(now.oldest_waiting_s) });
  return { label: t("tile.queue"), value: `${num(running)} / ${num(waiting)}`, sub };
}

/** The objective that is kept worst; without any the first token's. */
function latency(now, tick) {
  const objectives = (tick?.objectives ?? []).filter((one) => one.over_ratio !== null);
  const worst = objectives.sort((a, b) => b.over_ratio / b.allowed_ratio - a.over_ratio / a.allowed_ratio)[0];
  const name = worst?.latency ?? tick?.objectives[0]?.latency ?? "time_to_first_token";
  const percentile = series.nearest(worst?.percentile ?? tick?.objectives[0]?.percentile ?? 99);
  const value = span(tick?.latencies[name]?.[`p${percentile}_s`]);
  const label = `${maybe(`latency.${name}`) ?? name} P${percentile}`;
  if (!worst) return { label, value, sub: t(tick?.objectives.length ? "tile.no_samples" : "tile.no_objective") };
  const missed = worst.over_ratio > worst.allowed_ratio;
  const words = { bound: span(worst.bound_s), over: share(worst.over_ratio, 1), allowed: share(worst.allowed_ratio) };
  return { label, value, sub: t(missed ? "tile.missed" : "tile.kept", words), kind: missed ? "bad" : "good" };
}

function cache(now) {
  const hot = now.hot_blocks_ratio;
  const cold = typeof hot === "number" ? 1 - hot : null;
  const sub = t("tile.cache_sub", { hits: share(now.cache_hit_ratio), hot: share(hot), cold: share(cold) });
  return { label: t("tile.cache"), value: share(now.kv_cache_usage_ratio, 1), sub };
}

function gpu(now) {
  const label = t("tile.gpu");
  if (state.status && !state.status.gpus.length) return { label, value: UNKNOWN, sub: t("tile.no_gpu") };
  const celsius = typeof now.gpu_temperature_c === "number" ? `${num(now.gpu_temperature_c)} °C` : UNKNOWN;
  const watts = typeof now.gpu_power_w === "number" ? `${num(now.gpu_power_w)} W` : UNKNOWN;
  const sub = t("tile.gpu_sub", { memory: share(now.gpu_memory_usage_ratio), watts, celsius });
  return { label, value: share(now.gpu_utilization_ratio), sub };
}

function cost() {
  const label = t("tile.cost");
  const found = state.cost?.column.figures.cost_per_1k_requests;
  if (!found) return { label, value: UNKNOWN, sub: t("tile.cost_sub") };
  if (found.value === null) return { label, value: UNKNOWN, sub: t("tile.cost_none"), title: found.why };
  return { label, value: money(found.value, "").trim(), unit: state.cost.currency, sub: t("tile.cost_sub") };
}

function alerts() {
  const all = state.alerts ?? [];
  const firing = all.filter((one) => one.state === "firing");
  const critical = firing.filter((one) => one.severity === "critical").length;
  const sub = t("tile.alerts_sub", { critical, pending: all.length - firing.length });
  const kind = critical ? "bad" : firing.length ? "warn" : "good";
  return { label: t("tile.alerts"), value: state.alerts ? num(firing.length) : UNKNOWN, sub, kind: state.alerts ? kind : null };
}
