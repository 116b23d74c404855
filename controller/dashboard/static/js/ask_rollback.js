// Roll back, and undo it.

import { change, get } from "./api.js";
import { ask, effects, steps } from "./dialog.js";
import { h } from "./dom.js";
import { knobValue } from "./format.js";
import { t } from "./i18n.js";
import { state, tell } from "./state.js";

/** Whichever of the two is possible now. */
export function askRollback() {
  const undo = Boolean(state.status?.rollback);
  ask({
    title: t(undo ? "undo.title" : "rollback.title"),
    label: t(undo ? "undo.do" : "rollback.do"),
    danger: !undo,
    async fill(body, ready) {
      const plan = await get("/rollback");
      const rows = undo ? plan.undo : plan.enter;
      body.append(...effects(plan.effects), rows.length ? steps(rows, knobValue) : h("p", { text: t("rollback.nothing") }));
      if (!plan.engine_answers) body.append(h("p", { class: "guard", text: t("rollback.silent") }));
      ready(undo === Boolean(plan.current));
    },
    async act() {
      const now = await change("POST", undo ? "/undo" : "/rollback");
      tell("changed");
      const failed = now.knobs.filter((knob) => knob.error).map((knob) => `${knob.knob}: ${knob.error}`);
      return [t(undo ? "undo.done" : "rollback.done"), ...failed].join(" ");
    },
  });
}
