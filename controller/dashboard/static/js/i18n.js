// Words by language. Belongs here: choosing and looking up. Never: the words (i18n/*.json); what the daemon says in
// sentences stays as the daemon says it.

import { tell } from "./state.js";

const KEPT = "vllm-governor.language";
export const LANGUAGES = ["en", "zh"];

let words = {};
let fallback = {};
let chosen = "en";

export const language = () => chosen;
/** For Intl: the language the words are in. */
export const locale = () => (chosen === "zh" ? "zh-CN" : "en-GB");

/** Before anything is shown. */
export async function start() {
  fallback = await fetched("en");
  await use(kept() ?? (navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en"), false);
}

/** Another language from now on. */
export async function use(name, keep = true) {
  words = name === "en" ? fallback : await fetched(name);
  chosen = name;
  document.documentElement.lang = locale();
  if (keep) remember(name);
  dress(document);
  tell("words");
}

/** The words of a key; `{name}` in them is replaced. */
export function t(key, values = {}) {
  const text = words[key] ?? fallback[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? values[name] : whole));
}

/** The words of a key, where there are any. */
export const maybe = (key) => words[key] ?? fallback[key] ?? null;

/** Everything in the page that names its words. */
export function dress(root) {
  for (const element of root.querySelectorAll("[data-i18n]")) element.textContent = t(element.dataset.i18n);
  for (const element of root.querySelectorAll("[data-i18n-title]")) {
    element.title = t(element.dataset.i18nTitle);
    element.setAttribute("aria-label", element.title);
  }
}

async function fetched(name) {
  return (await fetch(`/static/i18n/${name}.json`)).json();
}

function kept() {
  const name = remembered();
  return LANGUAGES.includes(name) ? name : null;
}

function remembered() {
  try {
    return localStorage.getItem(KEPT);
  } catch {
    return null; // storage is switched off: the choice lasts as long as the page
  }
}

function remember(name) {
  try {
    localStorage.setItem(KEPT, name);
  } catch {
    // as above
  }
}
