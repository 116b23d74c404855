// What a key does. Belongs here: which, and the list of them. Never: inside a dialog or a field, where keys are typed.

import { askMode } from "./ask_mode.js";
import { askPurge } from "./ask_purge.js";
import { askRollback } from "./ask_rollback.js";
import { byId, h } from "./dom.js";
import { close, tellIn } from "./explain.js";
import { nextLanguage } from "./head.js";
import { t } from "./i18n.js";
import * as theme from "./theme.js";
import { SPANS_S, isLive, live, pause } from "./timeline.js";

const KEYS = {
  m: askMode,
  r: askRollback,
  p: askPurge,
  f: () => (isLive() ? pause() : live()),
  t: theme.toggle,
  l: nextLanguage,
  d: () => document.querySelector(".mark[tabindex='0']")?.focus(),
  "?": help,
};

export function start() {
  byId("help").addEventListener("click", help);
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || byId("dialog").open) return;
    if (event.target.closest("input, select, textarea")) return;
    if (event.key === "Escape" && !byId("drawer").hidden) close();
    const span = SPANS_S[Number(event.key) - 1];
    const does = KEYS[event.key] ?? (span ? () => live(span) : null);
    if (!does) return;
    event.preventDefault();
    does();
  });
}

function help() {
  const keys = [...Object.keys(KEYS), `1 – ${SPANS_S.length}`, "← →", "Esc"];
  const names = { "?": "help", "← →": "arrows", Esc: "escape" };
  const wordsOf = (key) => t(`key.${names[key] ?? (key.length > 3 ? "spans" : key)}`);
  const row = (key) => [h("dt", {}, h("kbd", { text: key })), h("dd", { text: wordsOf(key) })];
  const body = () => [h("dl", { class: "facts keys" }, ...keys.flatMap(row)), ...signs()];
  tellIn(() => t("key.title"), body, byId("help"));
}

function signs() {
  const names = ["direction", "open", "failed", "who", "verdict"];
  return [h("h4", { text: t("sign.title") }), ...names.map((name) => h("p", { text: t(`sign.${name}`) }))];
}
