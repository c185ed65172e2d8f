/** "Copy as command", "copy as Markdown", "save as CSV": the way from this page into a terminal, a ticket, a table. */
import { useRef, useState } from "preact/hooks";
import { html } from "./html.js";
import { announce } from "./announce.js";
import { visible } from "./words.js";

const SHOWN_MS = 2000;

/**
 * @param {{label: string, text: () => string}} props
 */
export function Copy({ label, text }) {
  const [done, setDone] = useState("");
  const [open, setOpen] = useState(null);
  const timer = useRef(null);
  const copy = async () => {
    const copied = text();
    if (await written(copied)) {
      setDone("copied");
      announce(`${label}: done`);
      clearTimeout(timer.current);
      timer.current = setTimeout(() => setDone(""), SHOWN_MS);
    } else setOpen(copied);
  };
  return html`<button type="button" class="small" onClick=${copy}>${done || label}</button>
    ${open !== null && html`<${ByHand} text=${open} onClose=${() => setOpen(null)} />`}`;
}

/** Whether the clipboard took it; browsers give it to pages of this machine and to those with TLS. */
async function written(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

function ByHand({ text, onClose }) {
  return html`<div class="byhand" role="group" aria-label="text to copy">
    <textarea readonly rows="6" aria-label="text to copy" onFocus=${(event) => event.target.select()}>${text}</textarea>
    <button type="button" class="small" onClick=${onClose}>close</button>
  </div>`;
}

/**
 * A button that saves a file.
 * @param {{label: string, name: string, text: () => string}} props
 */
export function Save({ label, name, text }) {
  const save = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text()], { type: "text/csv;charset=utf-8" }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), SHOWN_MS);
    announce(`${label}: done`);
  };
  return html`<button type="button" class="small" onClick=${save}>${label}</button>`;
}

/** A command to copy, as it would be typed. */
export function Command({ text }) {
  return html`<div class="command"><code>${visible(text)}</code> <${Copy} label="copy" text=${() => text} /></div>`;
}
