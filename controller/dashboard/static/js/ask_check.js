// Have the checks run now. Never: what they came to (checks.js).

import { change } from "./api.js";
import { ask } from "./dialog.js";
import { h } from "./dom.js";
import { t } from "./i18n.js";
import { state, tell } from "./state.js";

export function askCheck() {
  ask({
    title: t("check.run_title"),
    label: t("check.do"),
    fill(body, ready) {
      body.append(h("p", { text: t("check.effect") }));
      ready(true);
    },
    async act() {
      state.checks = await change("POST", "/check");
      tell("checks");
      return t("check.done");
    },
  });
}
