/** A cause of rebalances: its name, and on demand its meaning, proof and similar causes. */
import { useState } from "preact/hooks";
import { html } from "./html.js";
import { Answer } from "./failure.js";
import { useJson } from "./json.js";
import { plain, visible } from "./words.js";

/** Families of causes. Each family has the same colour and pattern in all views. */
const FAMILIES = [
  ["second rounds", /^COOPERATIVE/],
  ["joins and leaves", /^(GROUP_FORMING|NEW_MEMBER|MEMBER_LEFT|CLIENT_RESET|STATIC_RE|SCALE|ROLLING|AUTOSCALER)/],
  ["silent members", /^(SESSION_TIMEOUT|STATIC_EXPIRED|MEMBER_DEPARTED|CRASH_LOOP|JOIN_TIMEOUT|SYNC_TIMEOUT|REVOCATION_TIMEOUT)/],
  ["slow polls", /^MAX_POLL/],
  ["topics and subscriptions", /^(METADATA|SUBSCRIPTION|PARTITIONS|TOPIC|REGEX|ASSIGNOR|LEADER_REJOIN|RACK|CONFIG)/],
  ["coordinator", /^(COORDINATOR|BROKER|GENERATION_LOST|LEADER_LOST|ASSIGNMENT)/],
  ["people and tools", /^(ADMIN|USER|PROTOCOL_MIGRATION|GROUP_DELETED|OFFSETS)/],
];

/** All families in order; the last is for causes without a family. */
export const FAMILY_NAMES = [...FAMILIES.map(([name]) => name), "others"];

/** Index of a cause's family in FAMILY_NAMES. */
export function familyOf(cause) {
  const at = FAMILIES.findIndex(([, pattern]) => pattern.test(cause));
  return at < 0 ? FAMILIES.length : at;
}

/** Name of a cause, for reading. */
export function Cause({ code }) {
  return html`<span class="cause"><${Swatch} family=${familyOf(code)} />${visible(plain(code))}</span>`;
}

/** Mark of a family, with its colour and pattern. */
export function Swatch({ family }) {
  return html`<svg class="swatch" viewBox="0 0 10 10" aria-hidden="true" focusable="false"><rect class=${`family f${family}`} width="10" height="10" /><path class="family-mark" d=${MARKS[family]} /></svg>`;
}

/** Patterns of the families, in a box of 10 by 10. */
export const MARKS = [
  "",
  "M0 5H10",
  "M0 10 10 0",
  "M5 0V10",
  "M0 0 10 10",
  "M0 5H10M5 0V10",
  "M0 0 10 10M0 10 10 0",
  "M3 3h4v4h-4Z",
];

/** A button that opens the explanation of a cause (`kohort explain`). */
export function Explain({ code }) {
  const [open, setOpen] = useState(false);
  return html`<button type="button" class="small" aria-expanded=${open} aria-label=${`Explain ${visible(plain(code))}`} onClick=${() => setOpen(!open)}>Explain</button>
    ${open && html`<${Explanation} code=${code} />`}`;
}

function Explanation({ code }) {
  const asked = useJson(`/explain/${encodeURIComponent(code)}`);
  return html`<div class="explanation"><${Answer} past of=${asked}>${(body) => html`<${Explained} about=${body.cause ?? body.error} />`}<//></div>`;
}

function Explained({ about }) {
  if (!about) return html`<p>There is no explanation.</p>`;
  return html`<p>${about.sentence ?? about.meaning}</p>
    <dl>
      ${about.proof && html`<dt>Proof</dt><dd>${about.proof}</dd>`}
      ${about.advice && html`<dt>What to do</dt><dd>${about.advice}</dd>`}
      ${about.look_alikes?.length > 0 && html`<dt>Similar causes</dt><dd><ul>${about.look_alikes.map((one) => html`<li><strong>${plain(one.cause)}</strong>: ${one.difference}</li>`)}</ul></dd>`}
      ${about.kafka_log && html`<dt>In Kafka's log</dt><dd><code>${about.kafka_log}</code></dd>`}
    </dl>`;
}
