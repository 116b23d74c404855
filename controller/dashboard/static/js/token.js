// The token that the operator typed: in this tab alone, gone when it is closed. Never: any other place for it.

import { tell } from "./state.js";

const KEPT = "vllm-governor.token";
let held = null;

export function token() {
  try {
    return held ?? sessionStorage.getItem(KEPT);
  } catch {
    return held; // storage is switched off: the token lasts as long as the page
  }
}

/** null forgets it. */
export function useToken(text) {
  held = text || null;
  try {
    if (held === null) sessionStorage.removeItem(KEPT);
    else sessionStorage.setItem(KEPT, held);
  } catch {
    // as above
  }
  tell("token");
}
