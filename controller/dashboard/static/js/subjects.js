// What each chart shows: its lines, their colours and units. Belongs here: that. Never: drawing it.

import { knobValue, num, share, short, span } from "./format.js";
import { maybe, t } from "./i18n.js";
import * as series from "./series.js";

/** Shown even where no objective speaks of them, with the colour that stays theirs. */
const LATENCIES = [
  ["time_to_first_token", "line-1", "solid"],
  ["inter_token_latency", "line-2", "solid"],
  ["e2e_request_latency", "line-3", "solid"],
  ["request_queue_time", "line-4", "solid"],
  ["request_inference_time", "line-5", "solid"],
];
const ALWAYS = 3;
const DEFAULT_PERCENTILE = 99;

/** Charts from top to bottom. `lines()` answers {id, label, colour, dash, column(range), say, bound, fill}. */
export const SUBJECTS = [
  { id: "latency", tall: true, scale: "log", unit: span, lines: latencyLines },
  { id: "rate", scale: "count", unit: short, lines: () => [ofSignal("requests_per_s", "line-1", num, { fill: true })] },
  { id: "queue", scale: "count", unit: short, lines: queueLines },
  { id: "cache", scale: "share", unit: share, lines: cacheLines },
  { id: "gpu", scale: "share", unit: share, lines: gpuLines },
];

function latencyLines() {
  const objectives = series.ticks.at(-1)?.objectives ?? [];
  return LATENCIES.flatMap(([name, colour, dash], place) => {
    const own = objectives.filter((one) => one.latency === name);
    const shown = own.length || place < ALWAYS ? [own.length ? own : [null]].flat() : [];
    return shown.map((objective) => latencyLine(name, colour, dash, objective));
  });
}

function latencyLine(name, colour, dash, objective) {
  const percentile = series.nearest(objective?.percentile ?? DEFAULT_PERCENTILE);
  return {
    id: `${name}.${percentile}`,
    label: `${maybe(`latency.${name}`) ?? name} P${percentile}`,
    colour,
    dash,
    column: (range) => series.latency(name, percentile, range),
    say: span,
    bound: objective?.bound_s ?? null,
    missed: objective !== null && objective.over_ratio !== null && objective.over_ratio > objective.allowed_ratio,
  };
}

function queueLines() {
  return [
    ofSignal("running", "line-1", num, { fill: true }),
    ofSignal("waiting", "line-2", num, { dash: "solid" }),
    {
      id: "cap",
      label: t("line.cap"),
      colour: "muted",
      dash: "dash",
      step: true,
      column: (range) => capColumn(range),
      say: knobValue,
    },
  ];
}

/** The cap is per engine core, what runs is over all of them. */
function capColumn(range) {
  const { x, y } = series.knob("max_num_seqs", range);
  return { x, y: y.map((value) => (value === Infinity ? null : value)) };
}

function cacheLines() {
  return [
    ofSignal("kv_cache_usage_ratio", "line-1", share, { fill: true }),
    ofSignal("cache_hit_ratio", "line-3", share, { dash: "solid" }),
    ofSignal("hot_blocks_ratio", "line-2", share, { dash: "dash" }),
    {
      ...ofSignal("hot_blocks_ratio", "line-4", share, { dash: "dot" }),
      id: "cold",
      label: t("line.cold"),
      column: (range) => {
        const { x, y } = series.signal("hot_blocks_ratio", range);
        return { x, y: y.map((value) => (value === null ? null : 1 - value)) };
      },
    },
  ];
}

function gpuLines() {
  return [
    ofSignal("gpu_utilization_ratio", "line-1", share, { fill: true }),
    ofSignal("gpu_memory_usage_ratio", "line-2", share, {}),
    ofSignal("sm_activity_ratio", "line-3", share, { dash: "dash" }),
  ];
}

function ofSignal(name, colour, say, more) {
  return {
    id: name,
    label: maybe(`line.${name}`) ?? name,
    colour,
    dash: "solid",
    column: (range) => series.signal(name, range),
    say,
    ...more,
  };
}
