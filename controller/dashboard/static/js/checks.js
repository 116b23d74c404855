// The checks beside the charts: how many came out how, those that do not hold, and the command that cures one. Never:
// running such a command, alerts.

import { askCheck } from "./ask_check.js";
import { byId, h, keyed, mark, say } from "./dom.js";
import { tellIn } from "./explain.js";
import { moment } from "./format.js";
import { t } from "./i18n.js";
import { on, state } from "./state.js";

/** Worst first, each with its sign. */
const SIGNS = { fail: "■", warn: "▲", unknown: "?", pass: "✓", not_applicable: "–" };
const STATES = Object.keys(SIGNS);
const BAD = ["fail", "warn"];

export function start() {
  byId("check-run").addEventListener("click", askCheck);
  byId("check-all").addEventListener("click", () => detail(() => t("check.title"), ordered, byId("check-all")));
  on("checks words", show);
  show();
}

function show() {
  const all = ordered();
  byId("no-checks").hidden = all.length > 0 || state.checks === null;
  byId("check-all").hidden = all.length === 0;
  say(byId("check-all"), t("check.all", { count: all.length }));
  const there = STATES.filter((name) => all.some((one) => one.state === name));
  keyed(byId("check-counts"), there, (name) => name, makeCount, (item, name) => {
    const count = all.filter((one) => one.state === name).length;
    say(item.lastChild, `${count} ${t(`checked.${name}`)}`);
  });
  const bad = all.filter((one) => BAD.includes(one.state));
  keyed(byId("checks"), bad, (one) => one.name, makeRow, (row, one) => {
    const button = row.firstElementChild;
    const [sign, name, why] = button.children;
    button.check = one;
    mark(button, "data-state", one.state);
    mark(button, "aria-label", `${one.name}, ${t(`checked.${one.state}`)}: ${one.why}`);
    say(sign, SIGNS[one.state]);
    say(name, one.name + (worse(one) ? ` · ${t("check.worse")}` : ""));
    say(why, one.why);
  });
}

const rank = (one) => STATES.indexOf(one.state);
const ordered = () => [...(state.checks?.results ?? [])].sort((a, b) => rank(a) - rank(b));
const worse = (one) => state.checks.worse.includes(one.name);

const makeCount = (name) =>
  h(
    "li",
    { class: "check-count", data: { state: name } },
    h("span", { "aria-hidden": "true", text: SIGNS[name] }),
    h("span"),
  );

function makeRow() {
  const button = h("button", { class: "check", type: "button" }, h("span"), h("b"), h("small"));
  button.addEventListener("click", () => detail(() => button.check.name, () => [button.check], button));
  return h("li", {}, button);
}

/** In the drawer, whole: what was asked, what was found, the command. */
function detail(title, found, from) {
  const looked = () => h("p", { class: "soft", text: t("check.at", { at: moment(Date.parse(state.checks.at)) }) });
  tellIn(title, () => [looked(), ...found().map(entry)], from);
}

function entry(one) {
  const fell = worse(one) ? ` · ${t("check.worse")}` : "";
  return h(
    "div",
    { class: "check-entry", data: { state: one.state } },
    h("h4", { text: `${SIGNS[one.state]} ${one.name}: ${t(`checked.${one.state}`)}${fell}` }),
    h("p", { text: one.why }),
    one.cure === null ? null : h("small", { class: "soft", text: t("check.cure") }),
    one.cure === null ? null : h("code", { class: "cure", text: one.cure }),
    h("p", { class: "soft", text: t("check.asks", { asks: one.asks, source: one.source }) }),
  );
}
