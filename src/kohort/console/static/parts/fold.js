/** Parts of the page that a phone folds behind a button. Wider screens always show them. */
import { useEffect, useState } from "preact/hooks";
import { html } from "./html.js";

const PHONE = "(max-width: 600px)";

/** Hook: true on a screen of a phone. parts.css has the same width. */
export function usePhone() {
  const [is, setIs] = useState(() => window.matchMedia(PHONE).matches);
  useEffect(() => {
    const query = window.matchMedia(PHONE);
    const change = () => setIs(query.matches);
    query.addEventListener("change", change);
    return () => query.removeEventListener("change", change);
  }, []);
  return is;
}

/**
 * Hook: class of the foldable element, and its button. Its children with the class "folded" are folded.
 * @param {string} title text of the button
 * @param {string} [label] name of the button, if its text is not enough
 */
export function useFold(title, label) {
  const [open, setOpen] = useState(false);
  const button = html`<button type="button" class="fold" aria-expanded=${open} aria-label=${label} onClick=${() => setOpen(!open)}>${title}</button>`;
  return { className: `foldable ${open ? "open" : ""}`, button, close: () => setOpen(false) };
}
