/** Buttons "copy as command", "copy as Markdown" and "save as CSV". */
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

/** Copy text; return true on success. Browsers allow it only on localhost and over TLS. */
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

/** A kohort command with a copy button. */
export function Command({ text }) {
  return html`<div class="command"><code>${visible(text)}</code> <${Copy} label="copy" text=${() => text} /></div>`;
}
