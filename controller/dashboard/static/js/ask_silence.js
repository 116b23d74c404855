// Silence an alert for a time.

import { change } from "./api.js";
import { ask, field } from "./dialog.js";
import { h } from "./dom.js";
import { moment, span } from "./format.js";
import { t } from "./i18n.js";
import { tell } from "./state.js";

const TIMES_S = [1800, 3600, 14_400, 86_400];
const USUAL_S = 3600;

export function askSilence(alert) {
  const time = h("select", { name: "seconds" }, ...TIMES_S.map((s) => h("option", { value: s, selected: s === USUAL_S, text: span(s) })));
  const comment = h("input", { type: "text", maxlength: 500, name: "comment" });
  ask({
    title: t("silence.title", { alert: alert.alertname }),
    label: t("silence.do"),
    fill(body, ready) {
      const effect = h("p");
      const look = () => {
        effect.textContent = t("silence.effect", { alert: alert.alertname, until: moment(Date.now() + Number(time.value) * 1000) });
      };
      time.addEventListener("input", look);
      look();
      body.append(field(t("override.time"), time), field(t("comment"), comment), effect);
      ready(true);
    },
    async act() {
      const matchers = [`alertname="${alert.alertname}"`];
      await change("POST", "/silences", { matchers, seconds: Number(time.value), comment: comment.value });
      tell("changed");
      return t("silence.done", { alert: alert.alertname });
    },
  });
}
