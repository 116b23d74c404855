// Override a knob for a time, or lift the override that holds it.

import { change, get } from "./api.js";
import { ask, field, steps } from "./dialog.js";
import { h } from "./dom.js";
import { NO_LIMIT, knobValue, moment, span } from "./format.js";
import { maybe, t } from "./i18n.js";
import { atVersion } from "./knob_change.js";
import { state, tell } from "./state.js";

const TIMES_S = [900, 3600, 14_400, 86_400, 604_800];
const USUAL_S = 3600;

export function askOverride(name) {
  const held = state.knobs?.knobs.find((knob) => knob.name === name)?.override;
  if (held) askLift(name);
  else askSet(name);
}

function askSet(name) {
  let version = null;
  let knob = null;
  const value = h("input", { type: "number", step: "any", required: true, name: "value" });
  const none = h("input", { type: "checkbox", name: "none" });
  const time = h("select", { name: "ttl" }, ...TIMES_S.map((s) => h("option", { value: s, selected: s === USUAL_S, text: span(s) })));
  const comment = h("input", { type: "text", maxlength: 500, name: "comment" });
  const wanted = () => (none.checked ? NO_LIMIT : value.valueAsNumber);
  ask({
    title: t("override.of", { knob: name }),
    label: t("override.do"),
    async fill(body, ready) {
      const all = await get("/knobs");
      version = all.version;
      knob = all.knobs.find((one) => one.name === name);
      fields(body, { knob, value, none, time, comment });
      const plan = h("div", { class: "plan", "aria-live": "polite" });
      body.append(plan);
      const look = () => {
        value.disabled = none.checked;
        const then = wanted();
        const good = then === NO_LIMIT || (Number.isFinite(then) && value.validity.valid);
        plan.replaceChildren(...(good ? willDo(knob, then, Number(time.value)) : []));
        ready(good);
      };
      body.addEventListener("input", look);
      look();
      value.focus();
    },
    async act() {
      const body = { values: { [name]: wanted() }, ttl_s: Number(time.value), comment: comment.value };
      const done = await atVersion(version, knob, (at) => change("PATCH", "/knobs", body, at));
      tell("changed");
      return done.decisions[name]?.sentence ?? t("override.done", { knob: name });
    },
  });
}

function fields(body, { knob, value, none, time, comment }) {
  for (const [name, bound] of [["min", knob.minimum], ["max", knob.maximum]]) {
    if (Number.isFinite(bound)) value.setAttribute(name, bound);
  }
  if (Number.isFinite(knob.value)) value.value = knob.value;
  const bounds = t("override.bounds", { low: knobValue(knob.minimum), high: knobValue(knob.maximum), startup: knobValue(knob.startup) });
  const about = maybe(`knob.${knob.name}`);
  body.append(...(about ? [h("p", { class: "soft", text: about })] : []), field(t("override.value"), value, bounds));
  const limit = [knob.value, knob.startup, knob.maximum].includes(NO_LIMIT);
  if (limit) body.append(h("label", { class: "tick" }, none, h("span", { text: t("no_limit") })));
  body.append(field(t("override.time"), time), field(t("comment"), comment));
}

function willDo(knob, then, seconds) {
  const until = moment(Date.now() + seconds * 1000);
  return [
    steps([{ knob: knob.name, now: knob.value, then }], knobValue),
    h("p", { text: t("override.effect", { value: knobValue(then), until }) }),
  ];
}

function askLift(name) {
  let version = null;
  let knob = null;
  ask({
    title: t("lift.of", { knob: name }),
    label: t("lift.do"),
    async fill(body, ready) {
      const all = await get("/knobs");
      version = all.version;
      knob = all.knobs.find((one) => one.name === name);
      const { value, until, actor, comment, withheld } = knob.override;
      const said = t("lift.held", { value: knobValue(value), until: moment(Date.parse(until)), actor });
      body.append(h("p", { text: comment ? `${said} ${comment}` : said }));
      if (withheld) body.append(h("p", { class: "guard", text: t("lift.withheld", { why: withheld }) }));
      body.append(h("p", { text: t("lift.effect", { value: knobValue(knob.value) }) }));
      ready(true);
    },
    async act() {
      const path = `/knobs/${encodeURIComponent(name)}/override`;
      await atVersion(version, knob, (at) => change("DELETE", path, null, at));
      tell("changed");
      return t("lift.done", { knob: name });
    },
  });
}
