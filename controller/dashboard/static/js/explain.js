// The drawer that explains: one decision with what it rested on and what came of it, or an operator's act. Never: what
// a mark looks like, asking for anything but the one explanation.

import { Refused, get } from "./api.js";
import { byId, h } from "./dom.js";
import { UNKNOWN, knobValue, moment, num } from "./format.js";
import { on } from "./state.js";
import { t } from "./i18n.js";
import { change, picture, sentenceOf, signOf, wordOf } from "./marks.js";

/** A decision that was made this second may not be in the history yet. */
const AGAIN_MS = 700;
const TRIES = 5;

let opener = null;
let now = null;

export function start() {
  byId("drawer-close").addEventListener("click", close);
  byId("drawer").addEventListener("keydown", (event) => event.key === "Escape" && close());
  on("words", () => now && show(now));
}

/** Explain one, or let choose among several; the newest comes first. `from` gets the focus back. */
export function explain(some, from) {
  opener = from;
  const drawer = byId("drawer");
  drawer.hidden = false;
  if (some.length === 1) one(some[0]);
  else show(() => list(some));
  byId("drawer-title").focus({ preventScroll: true });
}

/** Show lines of words in the drawer. */
export function tellIn(title, content, from) {
  opener = from;
  byId("drawer").hidden = false;
  show(() => [title(), content()]);
  byId("drawer-title").focus({ preventScroll: true });
}

export function close() {
  byId("drawer").hidden = true;
  now = null;
  if (opener?.isConnected) opener.focus({ preventScroll: true });
}

function show(made) {
  now = made;
  const [title, body] = made();
  byId("drawer-title").textContent = title;
  byId("drawer-body").replaceChildren(...[body].flat());
}

function list(some) {
  const rows = [...some].reverse().map((each) => {
    const words = h("span", { text: sentenceOf(each) });
    const time = h("time", { text: moment(each.ms) });
    return h("li", {}, h("button", { class: "item", type: "button", on: { click: () => one(each) } }, picture(signOf(each)), words, time));
  });
  return [t("explain.several", { count: some.length }), h("ul", { class: "list" }, ...rows)];
}

async function one(each) {
  if (each.action) {
    show(() => ofAct(each));
    return;
  }
  const mine = () => ofDecision({ decision: each, run: null, before: null, after: null }, true);
  show(mine);
  try {
    const id = each.id ?? (await written(each, () => now === mine));
    const found = id === null ? null : await get(`/decisions/${id}`);
    if (now !== mine) return;
    if (found) show(() => ofDecision(found, false));
    else byId("drawer-loading").textContent = t("explain.not_written");
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    if (now === mine) byId("drawer-body").append(h("p", { class: "bad", text: error.message }));
  }
}

/** The number of a decision that came as an event, once the history has it; null: it does not have it yet. */
async function written({ uid, knob, ms }, wanted) {
  const span = { since: new Date(ms - 1).toISOString(), until: new Date(ms + 1).toISOString() };
  for (let tries = 0; tries < TRIES && wanted(); tries += 1) {
    if (tries) await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    const found = (await get("/decisions", { ...span, knob })).decisions.find((one) => one.uid === uid);
    if (found) return found.id;
  }
  return null;
}

function ofAct(act) {
  const detail = Object.entries(act.detail ?? {}).filter(([, value]) => value !== "" && value !== null);
  return [
    `${act.action} ${act.target}`,
    [
      h("p", { class: act.result === "ok" ? "" : "bad", text: act.result === "ok" ? t("act.done") : act.result }),
      facts([
        [t("explain.when"), moment(act.ms)],
        [t("explain.who"), act.actor],
        ...detail.map(([name, value]) => [name, typeof value === "object" ? JSON.stringify(value) : String(value)]),
      ]),
    ],
  ];
}

function ofDecision(found, brief) {
  const { decision } = found;
  const at = Date.parse(decision.at);
  const title = `${decision.knob} ${change(decision)}`;
  const body = [
    h("p", { class: "sentence", text: decision.sentence }),
    ...decision.guards.map((guard) => h("p", { class: "guard", text: guard })),
    decision.error ? h("p", { class: "bad", text: decision.error }) : null,
    three(decision),
    facts([
      [t("explain.when"), moment(at)],
      [t("explain.status"), t(`status.${decision.status}`)],
      [t("explain.who"), decision.policy],
      [t("explain.why"), wordOf("reason", decision.reason)],
      [t("explain.mode"), t(`mode.${decision.mode}`)],
    ]),
    brief ? h("p", { id: "drawer-loading", class: "soft", text: t("explain.loading") }) : null,
    ...(brief ? [] : rest(found)),
  ];
  return [title, body.filter((part) => part !== null)];
}

/** The three values that are never merged. */
function three(decision) {
  const cells = ["old", "wanted", "requested", "observed"].map((name) =>
    h("div", {}, h("span", { text: t(`value.${name}`) }), h("b", { text: knobValue(decision[name]) })),
  );
  return h("div", { class: "three" }, ...cells);
}

function rest({ decision, run, before, after }) {
  return [
    outcome(decision),
    section(t("explain.evidence"), decision.evidence),
    decision.diagnoses.length
      ? h("div", {}, h("h4", { text: t("explain.diagnoses") }), ...decision.diagnoses.map((text) => h("p", { text })))
      : null,
    run ? h("p", { class: "soft", text: `vLLM ${run.vllm_version}, ${run.engine_url}, ${run.node}` }) : null,
    neighbours(before, after),
  ].filter((part) => part !== null);
}

function outcome({ outcome: judged, status }) {
  if (!judged) return status === "applied" ? h("p", { class: "soft", text: t("explain.not_judged") }) : null;
  const verdict = h("b", { class: `verdict verdict-${judged.verdict}`, text: t(`verdict.${judged.verdict}`) });
  const head = h("h4", {}, `${t("explain.outcome")}: `, verdict);
  return h("div", {}, head, h("p", { text: judged.sentence }), numbers(judged.numbers));
}

function section(title, values) {
  return Object.keys(values).length ? h("div", {}, h("h4", { text: title }), numbers(values)) : null;
}

const numbers = (values) =>
  facts(Object.entries(values).map(([name, value]) => [name, typeof value === "number" ? num(value) : (value ?? UNKNOWN)]));

function facts(pairs) {
  return h("dl", { class: "facts" }, ...pairs.flatMap(([name, value]) => [h("dt", { text: name }), h("dd", { text: value })]));
}

function neighbours(before, after) {
  const go = (each, key) => {
    if (!each) return null;
    const found = { ...each, ms: Date.parse(each.at) };
    const label = `${t(key)}: ${change(each)}`;
    return h("button", { class: "quiet", type: "button", text: label, on: { click: () => one(found) } });
  };
  return h("p", { class: "neighbours" }, go(before, "explain.before"), go(after, "explain.after"));
}
