// Take the token that the operator types, or forget it.

import { ask, field, secretInput, toast } from "./dialog.js";
import { h } from "./dom.js";
import { t } from "./i18n.js";
import { token, useToken } from "./token.js";

export function askToken() {
  if (token() !== null) {
    useToken(null);
    toast(t("token.forgotten"));
    return;
  }
  const secret = secretInput();
  ask({
    title: t("token.title"),
    label: t("token.do"),
    needsToken: false,
    fill(body, ready) {
      body.append(h("p", { text: t("token.about") }), field(t("token.field"), secret, t("token.hint")));
      secret.addEventListener("input", () => ready(secret.value.trim() !== ""));
      secret.focus();
    },
    act() {
      useToken(secret.value.trim());
      return t("token.done");
    },
  });
}
