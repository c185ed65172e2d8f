/** Tabs of a group or topic, as links. */
import { html } from "./html.js";
import { useFold } from "./fold.js";
import { pathOf } from "./router.js";
import { Link } from "./text.js";

/** @param {{label: string, path: string[], tabs: {name: string, title: string}[], chosen: string}} props */
export function Tabs({ label, path, tabs, chosen }) {
  const fold = useFold(`${tabs.find(({ name }) => name === chosen)?.title} ▾`);
  return html`<nav class=${`tabs ${fold.className}`} aria-label=${label}>${fold.button}
    <ul class="folded" onClick=${fold.close}>${tabs.map(({ name, title }) => html`<li><${Link} to=${pathOf(...path, name)} aria-current=${name === chosen ? "page" : null}>${title}<//></li>`)}</ul></nav>`;
}
