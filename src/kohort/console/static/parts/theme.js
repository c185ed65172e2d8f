/** Light, dark, or as the system says. */

const KEY = "kohort-theme";
const THEMES = ["system", "light", "dark"];
const DARK = "(prefers-color-scheme: dark)";

function stored() {
  try {
    return localStorage.getItem(KEY) ?? "system";
  } catch {
    return "system"; // a page opened from a file may not store
  }
}

/** @returns {"system"|"light"|"dark"} */
export function theme() {
  const found = stored();
  return THEMES.includes(found) ? found : "system";
}

/** @param {"system"|"light"|"dark"} chosen */
export function setTheme(chosen) {
  try {
    localStorage.setItem(KEY, chosen);
  } catch {
    // it holds until the page is left
  }
  apply(chosen);
}

function apply(chosen) {
  if (chosen === "system") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.setAttribute("data-theme", chosen);
  document.dispatchEvent(new Event("kohort-theme"));
}

/** Called once. */
export function startTheme() {
  apply(theme());
  window.matchMedia(DARK).addEventListener("change", () => apply(theme()));
}

const PAIR = /^light-dark\((.+?),\s*(.+)\)$/;

/** The value of a colour of style.css as it is now, for what is drawn on canvas. */
export function colour(name) {
  const said = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const [, light, night] = PAIR.exec(said) ?? [said, said, said];
  return theme() === "dark" || (theme() === "system" && window.matchMedia(DARK).matches) ? night : light;
}
