// Light and dark: switching, and the colours for what CSS does not draw. Never: the colours themselves (css/tokens.css).

import { tell } from "./state.js";

const KEPT = "vllm-governor.theme";

/** The other one, and remember it. */
export function toggle() {
  use(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  try {
    localStorage.setItem(KEPT, document.documentElement.dataset.theme);
  } catch {
    // storage is switched off: the choice lasts as long as the page
  }
}

/** Go with the system as long as nobody chose. */
export function followSystem() {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => {
    let chosen = null;
    try {
      chosen = localStorage.getItem(KEPT);
    } catch {
      chosen = null;
    }
    if (chosen === null) use(event.matches ? "dark" : "light");
  });
}

/** A colour by its name in css/tokens.css. */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function use(name) {
  document.documentElement.dataset.theme = name;
  tell("theme");
}
