// Light or dark before anything is drawn: a plain script, since a module would come after the first paint.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("vllm-governor.theme");
  } catch {
    chosen = null;
  }
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = chosen === "light" || chosen === "dark" ? chosen : dark ? "dark" : "light";
})();
