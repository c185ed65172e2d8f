/** Keys: "/" searches, "?" shows help, "g" and a letter open a view. Keys typed into a field have no effect here. */
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "./html.js";
import { useLive } from "./live.js";
import { currentPlace, go, pathOf } from "./router.js";

const SECOND_KEY_MS = 1500;
const SECTIONS = { g: "/groups", d: "/doctor", c: "/causes", t: "/topics", b: "/brokers", p: "/pipelines" };

/** Views of a group that have a key, after their code has loaded. @type {{name: string, title: string, key: string}[]} */
let tabs = [];
let firstKeyMs = 0;
/** Show the keys of the group views in the help. */
let showTabs = () => {};

/** Register the views of a group with their keys. */
export function setGroupKeys(views) {
  tabs = views.filter(({ key }) => key);
  showTabs(tabs);
}

/** Called once. */
export function startKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (typing(event.target) ? left(event) : pressed(event.key)) event.preventDefault();
  });
}

function typing(target) {
  return target instanceof Element && target.closest("input, select, textarea, dialog") !== null;
}

/** Leave a field on Escape and keep its text; return true if so. The browser closes dialogs itself. */
function left({ key, target }) {
  if (key !== "Escape" || target.closest("dialog")) return false;
  target.blur();
  return true;
}

/** @returns {boolean} true if the key has an action */
function pressed(key) {
  const second = performance.now() - firstKeyMs < SECOND_KEY_MS && firstKeyMs > 0;
  firstKeyMs = 0;
  if (second) return goTo(key);
  if (key === "g") firstKeyMs = performance.now();
  else if (key === "/") document.querySelector("[data-search]")?.focus();
  else if (key === "?") showHelp();
  else if (key === "Escape") document.activeElement?.blur?.();
  else return false;
  return true;
}

/** Show the help. It loads the views of a group first, since they register their keys. */
function showHelp() {
  document.getElementById("help")?.showModal();
  import("../views/group.js").catch(() => {}); // without them, the help has the other keys
}

function goTo(key) {
  const { segments } = currentPlace();
  if (SECTIONS[key]) go(SECTIONS[key]);
  else {
    const tab = tabs.find((one) => one.key === key);
    if (segments[0] !== "groups" || !segments[1] || !tab) return false;
    go(pathOf("groups", segments[1], tab.name));
  }
  return true;
}

const HELP = [
  ["/", "search in this view"],
  ["?", "this help"],
  ["g g", "all groups"],
  ["g d", "doctor"],
  ["g c", "causes"],
  ["g t", "topics"],
  ["g b", "brokers"],
  ["g p", "pipelines"],
  ["↑ ↓", "from row to row of a table, from member to member in the timeline"],
  ["← →", "from rebalance to rebalance in the timeline"],
  ["Home End", "first and last rebalance in the timeline"],
  ["Shift ← →", "move the timeline"],
  ["+ - 0", "timeline: zoom in, zoom out, show all"],
  ["Enter", "details"],
  ["Esc", "close a panel, leave a field"],
];

export function HelpDialog() {
  const dialog = useRef(null);
  const { mode } = useLive();
  const [shown, setShown] = useState(tabs);
  useEffect(() => {
    showTabs = setShown;
    setShown(tabs);
  }, []);
  useEffect(() => {
    const close = () => dialog.current?.close();
    window.addEventListener("popstate", close);
    return () => window.removeEventListener("popstate", close);
  }, []);
  return html`<button type="button" class="small" aria-haspopup="dialog" data-tip="keys (?)" onClick=${showHelp}>Keys <kbd>?</kbd></button>
    <dialog id="help" ref=${dialog} aria-labelledby="help-title">
      <h2 id="help-title">Keys</h2>
      <dl class="keys">${[...HELP, ...shown.map(({ key, title }) => [`g ${key}`, `of a group: ${title.toLowerCase()}`])].map(([keys, what]) => html`<div><dt>${keys.split(" ").map((key) => html`<kbd>${key}</kbd> `)}</dt><dd>${what}</dd></div>`)}</dl>
      <p class="soft">The page is ${mode === "live" ? "live" : mode}. All that is chosen stands in the address: copy it to share what you see.</p>
      <form method="dialog"><button type="submit">Close</button></form>
    </dialog>`;
}

