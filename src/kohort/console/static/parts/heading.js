/** Head of a view: title, sentence, and buttons to copy or save its content. */
import { html } from "./html.js";
import { Copy } from "./copy.js";
import { useFold } from "./fold.js";

/**
 * @param {{title: any, sentence?: any, command?: string, markdown?: () => string, children?: any, level?: 1|2}} props
 *   `command`: the kohort command that shows the same.
 */
export function Heading({ title, sentence, command, markdown, children, level = 1 }) {
  const fold = useFold("⋯", "tools of this view");
  return html`<div class=${`heading ${fold.className}`}>
    <div class="heading-words">${level === 1 ? html`<h1>${title}</h1>` : html`<h2>${title}</h2>`}${sentence && html`<p class="sentence">${sentence}</p>`}</div>
    ${fold.button}<div class="heading-tools folded">${children}
      ${command && html`<${Copy} label="Copy as command" text=${() => command} />`}
      ${markdown && html`<${Copy} label="Copy as Markdown" text=${markdown} />`}</div>
  </div>`;
}

/** Filter field of a view; its text is in the address. */
export function Search({ value, onInput, label = "Filter", placeholder = "text or /regex/" }) {
  return html`<label class="search"><span class="hidden">${label}</span>
    <input type="search" data-search placeholder=${placeholder} value=${value} onInput=${(event) => onInput(event.target.value)} /></label>`;
}

/**
 * Test of texts: one contains the filter, or matches it if the filter is a regular expression between slashes.
 * @param {string} filter
 * @returns {(texts: unknown[]) => boolean}
 */
export function matcher(filter) {
  if (!filter) return () => true;
  const pattern = /^\/(.+)\/$/.exec(filter);
  if (pattern) {
    try {
      const found = new RegExp(pattern[1], "i");
      return (texts) => texts.some((text) => found.test(String(text ?? "")));
    } catch {
      return () => true; // the expression is not complete yet
    }
  }
  const wanted = filter.toLowerCase();
  return (texts) => texts.some((text) => String(text ?? "").toLowerCase().includes(wanted));
}
