// Purge the cache: how much, and what that will do.

import { change, get } from "./api.js";
import { ask, effects, field } from "./dialog.js";
import { h } from "./dom.js";
import { share } from "./format.js";
import { t } from "./i18n.js";
import { state, tell } from "./state.js";

const CALM_MS = 200;

export function askPurge() {
  const ratio = h("input", { type: "range", min: 0, max: 100, step: 5, value: 50, name: "ratio" });
  const preempt = h("input", { type: "number", min: 0, max: 10_000, step: 1, value: 0, name: "preempt" });
  const wanted = () => ({ ratio: ratio.valueAsNumber / 100, preempt: Math.trunc(preempt.valueAsNumber || 0) });
  ask({
    title: t("purge.title"),
    label: t("purge.do"),
    danger: true,
    fill: (body, ready) => fill(body, ready, ratio, preempt, wanted),
    async act() {
      const done = await change("POST", "/purge", wanted());
      tell("changed");
      return done.sentence;
    },
  });
}

async function fill(body, ready, ratio, preempt, wanted) {
  const shown = h("output", { class: "figure" });
  const plan = h("div", { class: "plan", "aria-live": "polite" });
  const now = state.status?.signals ?? {};
  const cache = t("purge.cache", {
    kv: share(now.kv_cache_usage_ratio),
    hot: share(now.hot_blocks_ratio),
    hits: share(now.cache_hit_ratio),
  });
  body.append(
    field(t("purge.ratio"), h("div", { class: "slider" }, ratio, shown)),
    field(t("purge.preempt"), preempt, t("purge.preempt_hint")),
    h("p", { class: "soft", text: cache }),
    plan,
  );
  let asked = 0;
  const look = async () => {
    const mine = (asked += 1);
    shown.value = share(wanted().ratio);
    ready(false);
    await new Promise((resolve) => setTimeout(resolve, CALM_MS));
    if (mine !== asked) return;
    if (!wanted().ratio && !wanted().preempt) {
      plan.replaceChildren(h("p", { text: t("purge.nothing") }));
      return;
    }
    const found = await get("/purge", wanted());
    if (mine !== asked) return;
    plan.replaceChildren(...effects(found.effects), found.refusal ? h("p", { class: "bad", text: found.refusal }) : "");
    ready(found.refusal === null);
  };
  const heard = () => look().catch((error) => plan.replaceChildren(h("p", { class: "bad", text: error.message })));
  ratio.addEventListener("input", heard);
  preempt.addEventListener("input", heard);
  await look();
}
