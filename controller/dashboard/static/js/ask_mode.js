// Switch the mode, or take it back to the file's.

import { change, get } from "./api.js";
import { ask, field } from "./dialog.js";
import { h } from "./dom.js";
import { moment } from "./format.js";
import { t } from "./i18n.js";
import { tell } from "./state.js";

/** What the form sends for the file's own mode. */
const FILE = "file";

export function askMode() {
  const comment = h("input", { type: "text", maxlength: 500, name: "comment" });
  let form = null;
  ask({
    title: t("mode.title"),
    label: t("mode.do"),
    async fill(body, ready) {
      const now = await get("/mode");
      form = h("fieldset", {}, h("legend", { text: t("mode.legend") }), ...choices(now));
      form.addEventListener("change", () => ready(chosen(form) !== now.configured));
      body.append(...standing(now), form, field(t("comment"), comment));
      form.querySelector("input:checked")?.focus();
    },
    async act() {
      const mode = chosen(form);
      const now = mode === FILE ? await change("DELETE", "/mode") : await change("PUT", "/mode", { mode, comment: comment.value });
      tell("changed");
      return t("mode.done", { mode: t(`mode.${now.in_force}`) });
    },
  });
}

const chosen = (form) => form.querySelector("input:checked")?.value;

function choices(now) {
  const rows = Object.entries(now.effects).map(([mode, effect]) => choice(mode, t(`mode.${mode}`), effect, mode === now.configured));
  if (now.changed) rows.push(choice(FILE, t("mode.file", { mode: t(`mode.${now.file}`) }), t("mode.file_effect"), false));
  return rows;
}

function choice(value, name, effect, checked) {
  const input = h("input", { type: "radio", name: "mode", value, checked });
  return h("label", { class: "choice" }, input, h("span", {}, h("b", { text: name }), h("small", { text: effect })));
}

function standing(now) {
  const found = [];
  if (now.because) found.push(h("p", { class: "guard", text: t("mode.because", { mode: t(`mode.${now.in_force}`), why: now.because }) }));
  if (now.changed) {
    const { at, actor, comment } = now.changed;
    const text = t("mode.changed", { at: moment(Date.parse(at)), actor, file: t(`mode.${now.file}`) });
    found.push(h("p", { class: "soft", text: comment ? `${text} ${comment}` : text }));
  }
  return found;
}
