// The column beside the charts: alerts, the last decisions, objectives, what it costs. Never: charts, dialogs.

import { askSilence } from "./ask_silence.js";
import { byId, h, keyed, mark, say } from "./dom.js";
import { explain } from "./explain.js";
import { UNKNOWN, clock, money, num, share, span } from "./format.js";
import { maybe, t } from "./i18n.js";
import { change, picture, signOf, wordOf } from "./marks.js";
import { ticks } from "./series.js";
import { on, state } from "./state.js";

const SHOWN = 30;
const FIGURES = [
  ["cost_per_1k_requests", "money"],
  ["total_cost", "money"],
  ["energy_cost", "money"],
  ["gpu_cost", "money"],
  ["network_cost", "money"],
  ["cost_per_million_tokens", "money"],
  ["energy_kwh", "num"],
  ["joules_per_token", "num"],
  ["gpu_hours", "num"],
  ["requests", "num"],
];

export function start() {
  on("alerts words", alerts);
  on("decisions words", decisions);
  on("tick words", objectives);
  on("cost words", cost);
}

function alerts() {
  const found = [...(state.alerts ?? [])].sort((a, b) => order(a) - order(b));
  byId("no-alerts").hidden = state.alerts === null || found.length > 0;
  keyed(byId("alerts"), found, (one) => one.fingerprint ?? one.alertname, makeAlert, (row, one) => {
    row.alert = one;
    mark(row, "data-severity", one.severity);
    mark(row, "data-state", one.state);
    const [head, text, button] = row.children;
    say(head.children[0], { critical: "■", warning: "▲" }[one.severity] ?? "●");
    say(head.children[1], one.alertname);
    const since = one.starts_at ? t("alert.since", { at: clock(Date.parse(one.starts_at)) }) : "";
    const muted = one.muted ? t("alert.muted") : "";
    say(head.children[2], [t(`severity.${one.severity}`), t(`alert.${one.state}`), since, muted].filter(Boolean).join(" · "));
    say(text, one.annotations.summary ?? one.annotations.description ?? "");
    say(button, t("silence.open"));
    button.hidden = Boolean(one.muted);
  });
}

const order = (one) => (one.state === "firing" ? 0 : 10) + ({ critical: 0, warning: 1 }[one.severity] ?? 2);

function makeAlert() {
  const head = h("div", { class: "alert-head" }, h("span", { class: "alert-sign", "aria-hidden": true }), h("b"), h("small"));
  const row = h("li", { class: "alert" }, head, h("p"), h("button", { class: "quiet", type: "button" }));
  row.children[2].addEventListener("click", () => askSilence(row.alert));
  return row;
}

function decisions() {
  const all = [...state.decisions.values()].sort((a, b) => b.ms - a.ms).slice(0, SHOWN);
  byId("no-decisions").hidden = all.length > 0;
  keyed(byId("decisions"), all, (one) => one.uid ?? one.id, makeDecision, (row, one) => {
    const button = row.firstElementChild;
    button.decision = one;
    const [sign, time, knob, what, why] = button.children;
    const look = JSON.stringify(signOf(one));
    if (sign.dataset.look !== look) {
      sign.dataset.look = look;
      sign.replaceChildren(picture(signOf(one)));
    }
    say(time, clock(one.ms));
    say(knob, one.knob);
    say(what, change(one));
    const verdict = one.outcome ? `${t(`verdict.${one.outcome.verdict}`)} · ` : "";
    const fate = one.status === "applied" ? "" : `${t(`status.${one.status}`)} · `;
    say(why, fate + verdict + wordOf("reason", one.reason));
    mark(button, "title", one.sentence);
  });
}

function makeDecision() {
  const parts = [h("span"), h("time"), h("span"), h("b"), h("small")];
  const button = h("button", { class: "item", type: "button" }, ...parts);
  button.addEventListener("click", () => explain([button.decision], button));
  return h("li", {}, button);
}

function objectives() {
  const found = ticks.at(-1)?.objectives ?? [];
  byId("no-objectives").hidden = found.length > 0;
  const key = (one) => `${one.latency} ${one.percentile}`;
  const make = () => h("li", { class: "objective" }, h("b"), h("span"), h("small"));
  keyed(byId("objectives"), found, key, make, (row, one) => {
    const missed = one.over_ratio !== null && one.over_ratio > one.allowed_ratio;
    const [name, kept, over] = row.children;
    say(name, `${maybe(`latency.${one.latency}`) ?? one.latency} P${one.percentile} ≤ ${span(one.bound_s)}`);
    say(kept, one.over_ratio === null ? UNKNOWN : t(missed ? "objective.missed" : "objective.kept"));
    say(over, t("objective.over", { over: share(one.over_ratio, 1), allowed: share(one.allowed_ratio) }));
    mark(row, "data-missed", missed ? "" : null);
  });
}

function cost() {
  const figures = state.cost?.column.figures;
  if (!figures) return;
  const rows = FIGURES.map(([name, kind]) => ({ name, kind, ...figures[name] }));
  const make = () => h("tr", {}, h("th", { scope: "row" }), h("td"));
  keyed(byId("cost"), rows, (row) => row.name, make, (element, row) => {
    say(element.children[0], t(`cost.${row.name}`));
    say(element.children[1], row.kind === "money" ? money(row.value, state.cost.currency) : num(row.value));
    element.title = row.why ?? "";
  });
  const unknown = rows.find((row) => row.value === null && row.why);
  say(byId("cost-why"), unknown ? `${t(`cost.${unknown.name}`)}: ${unknown.why}` : "");
}
