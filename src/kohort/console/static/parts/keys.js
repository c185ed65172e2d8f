/** Keys: "/" searches, "?" helps, "g" and a letter go somewhere. Nothing is taken from who types into a field. */
import { useEffect, useRef } from "preact/hooks";
import { html } from "./html.js";
import { useLive } from "./live.js";
import { currentPlace, go, pathOf } from "./router.js";

const SECOND_KEY_MS = 1500;
const SECTIONS = { g: "/groups", d: "/doctor", c: "/causes", t: "/topics", b: "/brokers", p: "/pipelines" };
const OF_GROUP = { o: "overview", l: "timeline", r: "rebalances", m: "members", a: "partitions", f: "fenced", w: "what-if", e: "events" };

let firstKeyMs = 0;

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

/** Whether Escape was pressed to leave a field; what was typed stays. A dialog closes by itself. */
function left({ key, target }) {
  if (key !== "Escape" || target.closest("dialog")) return false;
  target.blur();
  return true;
}

/** @returns {boolean} whether the key meant something */
function pressed(key) {
  const second = performance.now() - firstKeyMs < SECOND_KEY_MS && firstKeyMs > 0;
  firstKeyMs = 0;
  if (second) return goTo(key);
  if (key === "g") firstKeyMs = performance.now();
  else if (key === "/") document.querySelector("[data-search]")?.focus();
  else if (key === "?") document.getElementById("help")?.showModal();
  else if (key === "Escape") document.activeElement?.blur?.();
  else return false;
  return true;
}

function goTo(key) {
  const { segments } = currentPlace();
  if (SECTIONS[key]) go(SECTIONS[key]);
  else if (segments[0] === "groups" && segments[1] && OF_GROUP[key]) go(pathOf("groups", segments[1], OF_GROUP[key]));
  else return false;
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
  ["g o", "of a group: overview"],
  ["g l", "of a group: timeline"],
  ["g r", "of a group: rebalances"],
  ["g m", "of a group: members"],
  ["g a", "of a group: partitions"],
  ["g f", "of a group: fenced requests"],
  ["g w", "of a group: what-if"],
  ["g e", "of a group: events"],
  ["↑ ↓", "from row to row of a table, from member to member in the timeline"],
  ["← →", "from rebalance to rebalance in the timeline"],
  ["Enter", "details"],
  ["Esc", "close, or leave a field"],
];

export function HelpDialog() {
  const dialog = useRef(null);
  const { mode } = useLive();
  useEffect(() => {
    const close = () => dialog.current?.close();
    window.addEventListener("popstate", close);
    return () => window.removeEventListener("popstate", close);
  }, []);
  return html`<button type="button" class="small" aria-haspopup="dialog" data-tip="keys (?)" onClick=${() => dialog.current.showModal()}>Keys <kbd>?</kbd></button>
    <dialog id="help" ref=${dialog} aria-labelledby="help-title">
      <h2 id="help-title">Keys</h2>
      <dl class="keys">${HELP.map(([keys, what]) => html`<div><dt>${keys.split(" ").map((key) => html`<kbd>${key}</kbd> `)}</dt><dd>${what}</dd></div>`)}</dl>
      <p class="soft">The page is ${mode === "live" ? "live" : mode}. All that is chosen stands in the address: copy it to share what you see.</p>
      <form method="dialog"><button type="submit">Close</button></form>
    </dialog>`;
}

