/** Colour theme: light, dark, or that of the system. */

const KEY = "kohort-theme";
const THEMES = ["system", "light", "dark"];
const DARK = "(prefers-color-scheme: dark)";

function stored() {
  try {
    return localStorage.getItem(KEY) ?? "system";
  } catch {
    return "system"; // browsers may deny storage to a page that is opened from a file
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
    // without storage the theme lasts until the page is closed
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

/** Present value of a colour in style.css, for drawing on a canvas. */
export function colour(name) {
  const said = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const [, light, night] = PAIR.exec(said) ?? [said, said, said];
  return theme() === "dark" || (theme() === "system" && window.matchMedia(DARK).matches) ? night : light;
}
