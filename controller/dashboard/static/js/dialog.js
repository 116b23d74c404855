// One dialog for everything that changes something: it says what will happen, asks for the token where there is none,
// shows a refusal with its remedy, and says what came of it. Never: what the change is.

import { Refused } from "./api.js";
import { byId, h } from "./dom.js";
import { t } from "./i18n.js";
import { token, useToken } from "./token.js";

const TOAST_MS = 8000;

let timer = null;

/** Ask. `fill(body, ready)` puts the question in, may await, and calls `ready(true)` when it can be confirmed;
 * `act()` does it and answers a sentence. `label` is what the button says. */
export function ask({ title, label, danger = false, needsToken = true, fill, act }) {
  const dialog = byId("dialog");
  if (dialog.open) return;
  const parts = build(title, label, danger, needsToken);
  dialog.replaceChildren(parts.form);
  dialog.showModal();
  parts.cancel.focus();
  const ready = (can) => (parts.confirm.disabled = !can);
  ready(false);
  parts.form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!parts.confirm.disabled) carryOut(dialog, parts, act);
  });
  parts.cancel.addEventListener("click", () => dialog.close());
  Promise.resolve(fill(parts.body, ready)).catch((error) => refuse(parts, error));
}

/** Say something at the page's edge for a while. */
export function toast(text, bad = false) {
  const place = byId("toast");
  place.textContent = text;
  place.classList.toggle("bad", bad);
  place.hidden = false;
  clearTimeout(timer);
  timer = setTimeout(() => (place.hidden = true), TOAST_MS);
}

/** A field with its label. */
export function field(label, input, hint = null) {
  return h("label", { class: "field" }, h("span", { text: label }), input, hint === null ? null : h("small", { text: hint }));
}

/** Sentences that say what will happen. */
export const effects = (sentences) => sentences.map((text) => h("p", { text }));

/** Knobs from what they are to what they would be. */
export function steps(rows, valueOf) {
  const head = h("tr", {}, ...["step.knob", "step.now", "step.then"].map((key) => h("th", { scope: "col", text: t(key) })));
  const lines = rows.map((row) =>
    h("tr", {}, h("td", { text: row.knob }), h("td", { text: valueOf(row.now) }), h("td", {}, h("b", { text: valueOf(row.then) }))),
  );
  return h("table", { class: "steps" }, h("thead", {}, head), h("tbody", {}, ...lines));
}

function build(title, label, danger, needsToken) {
  const body = h("div", { class: "dialog-body" });
  const error = h("p", { class: "bad", role: "alert", hidden: true });
  const secret = needsToken && token() === null ? secretInput() : null;
  const confirm = h("button", { class: danger ? "danger" : "primary", type: "submit", text: label });
  const cancel = h("button", { type: "button", text: t("dialog.cancel") });
  const form = h(
    "form",
    { method: "dialog" },
    h("h2", { id: "dialog-title", text: title }),
    body,
    secret ? field(t("token.field"), secret, t("token.hint")) : null,
    error,
    h("div", { class: "dialog-buttons" }, cancel, confirm),
  );
  return { form, body, error, secret, confirm, cancel };
}

/** Where a token is typed. It may stay empty: the daemon says then what is missing. */
export function secretInput() {
  return h("input", { type: "password", autocomplete: "off", spellcheck: "false", name: "token" });
}

async function carryOut(dialog, parts, act) {
  if (parts.secret?.value) useToken(parts.secret.value.trim());
  parts.confirm.disabled = true;
  parts.form.setAttribute("aria-busy", "true");
  try {
    const sentence = await act();
    dialog.close();
    if (sentence) toast(sentence);
  } catch (error) {
    if (error instanceof Refused && error.status === 401) forget(parts);
    refuse(parts, error);
    parts.confirm.disabled = false;
  } finally {
    parts.form.removeAttribute("aria-busy");
  }
}

/** A wrong token is asked for again. */
function forget(parts) {
  useToken(null);
  if (!parts.secret) {
    parts.secret = secretInput();
    parts.error.before(field(t("token.field"), parts.secret, t("token.hint")));
  }
  parts.secret.value = "";
  parts.secret.focus();
}

function refuse(parts, error) {
  if (!(error instanceof Refused)) throw error;
  parts.error.textContent = error.message;
  parts.error.hidden = false;
}
