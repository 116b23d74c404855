// The bar and the strip below it: what is connected, what is wrong, the mode, what an operator can do. Never: doing it.

import { askMode } from "./ask_mode.js";
import { askPurge } from "./ask_purge.js";
import { askRollback } from "./ask_rollback.js";
import { askToken } from "./ask_token.js";
import { byId, h, mark, say } from "./dom.js";
import { tellIn } from "./explain.js";
import { clock, moment, span } from "./format.js";
import { LANGUAGES, language, t, use } from "./i18n.js";
import { on, state } from "./state.js";
import * as theme from "./theme.js";
import { token } from "./token.js";

const CLOCK_MS = 1000;

export function start() {
  const heard = {
    mode: askMode,
    rollback: askRollback,
    purge: askPurge,
    token: askToken,
    theme: theme.toggle,
    language: nextLanguage,
    strip: problems,
  };
  for (const [id, click] of Object.entries(heard)) byId(id).addEventListener("click", click);
  on("status connection words token tick", show);
  setInterval(() => state.connection !== "live" && show(), CLOCK_MS);
  show();
}

export function nextLanguage() {
  use(LANGUAGES[(LANGUAGES.indexOf(language()) + 1) % LANGUAGES.length]);
}

function show() {
  const { status } = state;
  say(byId("node"), status?.node ?? "");
  say(byId("mode-name"), status ? t(`mode.${modeNow()}`) : t("unknown"));
  mark(byId("mode"), "data-mode", status ? modeNow() : null);
  byId("mode").title = status?.mode.because ?? t("mode.title");
  say(byId("rollback"), t(status?.rollback ? "undo.open" : "rollback.open"));
  mark(byId("rollback"), "data-on", status?.rollback ? "" : null);
  say(byId("token-word"), t(token() === null ? "token.none" : "token.held"));
  mark(byId("token"), "aria-pressed", token() !== null);
  say(byId("language"), t("language.other"));
  strip();
}

const modeNow = () => state.status.mode.in_force;

function strip() {
  const [kind, text] = said();
  mark(byId("strip"), "data-kind", kind);
  say(byId("strip-sign"), { good: "●", warn: "▲", bad: "■", wait: "◌" }[kind]);
  say(byId("strip-text"), text);
  const more = wrong().length;
  say(byId("strip-more"), more > 1 ? t("strip.more", { count: more }) : more === 1 ? t("strip.one") : "");
  document.documentElement.dataset.connection = state.connection;
}

/** [good, warn, bad or wait, one line]: the worst there is to say. */
function said() {
  const { status, connection } = state;
  if (connection === "refused") return ["bad", state.refused ?? t("strip.refused")];
  if (connection === "lost") {
    const since = span(Math.round((Date.now() - state.lostAt) / 1000));
    return ["bad", t("strip.lost", { at: clock(state.lostAt), span: since })];
  }
  if (!status) return ["wait", t("strip.connecting")];
  if (!status.ticks.fresh && status.ticks.ticks) return ["bad", t("strip.stands_still")];
  const [first] = status.problems;
  if (first) return [status.engine.answers ? "warn" : "bad", sentence(first)];
  if (status.rollback) return ["warn", t("strip.rollback", { since: moment(Date.parse(status.rollback.since)) })];
  if (status.mode.because) return ["warn", t("mode.because", { mode: t(`mode.${modeNow()}`), why: status.mode.because })];
  const [found] = status.diagnoses;
  if (found) return ["warn", found.sentence];
  const { url, vllm_version: version } = status.engine;
  return ["good", t("strip.well", { url, version: version ?? "–", tick: span(status.ticks.tick_s) })];
}

const wrong = () => [...(state.status?.problems ?? []), ...(state.status?.diagnoses ?? [])];
const sentence = ({ what, reason, remedy }) => `${what}: ${reason}; ${remedy}`;

function problems() {
  const body = () => {
    const problem = ({ what, reason, remedy }) => entry(what, reason, remedy);
    const diagnosis = ({ cause, sentence: said, action }) => entry(cause.replaceAll("_", " "), said, action);
    const found = [...(state.status?.problems ?? []).map(problem), ...(state.status?.diagnoses ?? []).map(diagnosis)];
    return [...(found.length ? found : [h("p", { text: t("strip.nothing") })]), about()];
  };
  tellIn(() => t("strip.title"), body, byId("strip"));
}

function entry(title, text, remedy) {
  const more = remedy ? h("p", { class: "soft", text: remedy }) : null;
  return h("div", { class: "problem" }, h("h4", { text: title }), h("p", { text }), more);
}

function about() {
  const { status } = state;
  if (!status) return "";
  const rows = [
    [t("about.daemon"), `${status.version}, ${t("about.since", { at: moment(Date.parse(status.started_at)) })}`],
    [t("about.engine"), status.engine.url],
    ["vLLM", status.engine.vllm_version ?? "–"],
    [t("about.gpus"), status.gpus.join(", ") || "–"],
    [t("about.history"), status.history.where],
    ...status.sources.map((one) => [one.name, one.problem ?? t("about.age", { age: span(one.age_s) })]),
  ];
  return h("dl", { class: "facts" }, ...rows.flatMap(([name, value]) => [h("dt", { text: name }), h("dd", { text: value })]));
}
