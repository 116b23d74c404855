// What is asked of the daemon and when: all of it at the start and after a gap, then what an event says is another.
// Belongs here: routes that are read, events taken in. Never: showing anything.

import { Refused, get } from "./api.js";
import * as series from "./series.js";
import { on, state, tell } from "./state.js";
import { follow } from "./stream.js";
import * as timeline from "./timeline.js";

const MOST = 500;
const POINTS = 900;
/** Events come in bunches: one question for all of them. */
const CALM_MS = 250;
const SLOWLY_MS = { status: 10_000, knobs: 30_000, alerts: 15_000, cost: 60_000, checks: 60_000, past: 60_000 };
const RANGE_PAD_MS = 2000;

/** Which questions an event of a kind raises. */
const RAISED = {
  decision: ["knobs"],
  alert: ["alerts"],
  mode: ["status", "knobs"],
  override: ["status", "knobs"],
  rollback: ["status", "knobs"],
  source: ["status"],
  engine: ["status", "knobs"],
  problem: ["status"],
  action: ["status", "knobs", "checks"],
};

const loaders = { status, knobs, alerts, cost, checks, past, decisions };
const waiting = new Map();
let stream = null;

/** Ask for everything and follow. */
export function start() {
  stream = follow(heard, fared);
  for (const [name, everyMs] of Object.entries(SLOWLY_MS)) setInterval(() => document.hidden || ask(name, 0), everyMs);
  on("token", () => stream.again());
  on("changed", () => askAll(["status", "knobs", "alerts"]));
  on("window", () => askAll(["past", "decisions"]));
  document.addEventListener("visibilitychange", () => document.hidden || askAll(Object.keys(loaders)));
}

function askAll(names) {
  for (const name of names) ask(name);
}

/** Ask soon, once for all that want it. */
function ask(name, afterMs = CALM_MS) {
  if (waiting.has(name) || state.connection === "lost") return;
  const asked = (async () => {
    await new Promise((resolve) => setTimeout(resolve, afterMs));
    waiting.delete(name);
    try {
      await loaders[name]();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      state.refused = error.message;
    }
  })();
  waiting.set(name, asked);
}

async function status() {
  state.status = await get("/status");
  tell("status");
}

async function knobs() {
  state.knobs = await get("/knobs");
  tell("knobs");
}

async function alerts() {
  state.alerts = (await get("/alerts")).alerts;
  tell("alerts");
}

async function cost() {
  state.cost = await get("/cost");
  tell("cost");
}

async function checks() {
  state.checks = await get("/check");
  tell("checks");
}

async function past() {
  const [from, to] = timeline.range();
  const span = { since: iso(from - RANGE_PAD_MS), until: iso(to + RANGE_PAD_MS) };
  series.setPast(await get("/history", { ...span, points: POINTS }));
  tell("decisions");
}

async function decisions() {
  const [from, to] = timeline.range();
  const span = { since: iso(from), until: iso(to + RANGE_PAD_MS), limit: MOST };
  const [made, acts] = await Promise.all([get("/decisions", { ...span, changes: true }), get("/audit", span)]);
  for (const one of made.decisions) keep(one);
  for (const one of acts.actions) keepAct(one);
  tell("decisions");
}

const iso = (ms) => new Date(ms).toISOString();

function keep(one) {
  const key = one.uid ?? `#${one.id}`;
  const before = state.decisions.get(key);
  state.decisions.set(key, { ...before, ...one, ms: Date.parse(one.at) });
  forget(state.decisions);
}

function keepAct(one) {
  const ms = Date.parse(one.at);
  state.actions.set(`${one.request_id} ${one.action} ${one.target} ${ms}`, { ...one, ms });
  forget(state.actions);
}

/** What is older than everything that can be looked at goes. */
function forget(some) {
  for (const key of some.keys()) {
    if (some.size <= MOST * 4) return;
    some.delete(key);
  }
}

function fared(now, error) {
  if (now === "live") {
    state.connection = "live";
    state.lostAt = null;
    askAll(Object.keys(loaders));
  } else if (state.connection !== now) {
    state.lostAt = state.connection === "live" ? Date.now() : (state.lostAt ?? Date.now());
    state.connection = now;
  }
  state.refused = error instanceof Refused && now === "refused" ? error.message : null;
  tell("connection");
}

function heard(events) {
  const raised = new Set();
  let ticked = false;
  for (const { kind, data } of events) {
    for (const name of RAISED[kind] ?? []) raised.add(name);
    if (kind === "tick") {
      series.addTick(data);
      ticked = true;
    } else if (kind === "decision" && data.status !== "hold") keep(data);
    else if (kind === "outcome") judged(data);
    else if (kind === "action") keepAct(data);
    else if (kind === "gap") askAll(Object.keys(loaders));
  }
  if (ticked) {
    timeline.newest(series.ticks.at(-1).ms);
    tell("tick", series.ticks.at(-1));
  }
  askAll(raised);
  if (events.some(({ kind }) => ["decision", "outcome", "action"].includes(kind))) tell("decisions");
}

function judged({ uid, verdict, sentence, undo }) {
  const one = state.decisions.get(uid);
  if (one) state.decisions.set(uid, { ...one, outcome: { verdict, sentence, undo, numbers: {} } });
}
