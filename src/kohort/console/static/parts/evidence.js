/** Evidence of a finding: facts with kind and time. */
import { html } from "./html.js";
import { Text, Time } from "./text.js";
import { plain } from "./words.js";

/** @param {{facts: {kind: string, value: string, at_ms: number|null}[], title?: string}} props */
export function Evidence({ facts, title = "Evidence" }) {
  if (!facts?.length) return null;
  return html`<section class="evidence"><h3>${title}</h3><dl>${facts.map(
    (fact) => html`<div><dt>${plain(fact.kind)}</dt><dd><${Text} value=${fact.value} limit=${300} />${fact.at_ms !== null && fact.at_ms !== undefined && html` <span class="soft"><${Time} ms=${fact.at_ms} /></span>`}</dd></div>`,
  )}</dl></section>`;
}

/** Advice, in its own box. */
export function Advice({ text, children }) {
  if (!text && !children) return null;
  return html`<div class="advice"><strong>What to do</strong> <span>${text}</span>${children}</div>`;
}
