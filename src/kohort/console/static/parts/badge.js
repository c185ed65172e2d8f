/** Badges of states: icon, word and colour, never colour alone. */
import { html } from "./html.js";
import { plain, visible } from "./words.js";

/** SVG paths in a box of 16 by 16. */
const ICONS = {
  check: "M3 8.5 6.5 12 13 4.5",
  triangle: "M8 2.5 14.5 13.5H1.5Z",
  square: "M3.5 3.5h9v9h-9Z",
  pause: "M5 3v10M11 3v10",
  back: "M8 4 3.5 8 8 12M13 4 8.5 8 13 12",
  turn: "M13 8a5 5 0 1 1-1.6-3.7M13 2v3h-3",
  bolt: "M9 1.5 3.5 9H8l-1 5.5L12.5 7H8Z",
  question: "M5.5 6a2.5 2.5 0 1 1 3.7 2.2C8.3 8.7 8 9.2 8 10M8 12.5v.5",
  dot: "M8 6.5a1.5 1.5 0 1 0 .01 0Z",
  cross: "M4 4l8 8M12 4l-8 8",
  info: "M8 7v5M8 4v.5",
  moon: "M12.5 9.5A5 5 0 0 1 6.5 3.5a5 5 0 1 0 6 6Z",
  sun: "M8 5.5a2.5 2.5 0 1 0 .01 0ZM8 1.5v1.5M8 13v1.5M1.5 8h1.5M13 8h1.5M3.5 3.5l1 1M11.5 11.5l1 1M12.5 3.5l-1 1M4.5 11.5l-1 1",
};

/** @param {{name: keyof typeof ICONS}} props */
export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 16 16" aria-hidden="true" focusable="false"><path d=${ICONS[name] ?? ICONS.dot} /></svg>`;
}

/** A word with an icon and a tone. @param {{icon: keyof typeof ICONS, tone: string, tip?: string, children: any}} props */
export function Badge({ icon, tone, tip, children }) {
  return html`<span class=${`badge ${tone}`} data-tip=${tip}><${Icon} name=${icon} />${children}</span>`;
}

/** Badges of health values: icon, tone, meaning. */
const HEALTH = {
  OK: ["check", "ok", "offsets advance and the lag does not grow"],
  WARN: ["triangle", "warn", "offsets advance, but there is a problem, such as a growing lag"],
  STOP: ["square", "bad", "no commits, although new records arrive"],
  STALL: ["pause", "bad", "a member owns the partition, but its offset does not advance"],
  REWIND: ["back", "bad", "an offset went back"],
  REBALANCING: ["turn", "info", "the group is rebalancing"],
  STORM: ["bolt", "bad", "repeated rebalances"],
};

/** @param {{word: string|null, why?: string}} props */
export function Health({ word, why = "" }) {
  const [icon, tone, meaning] = HEALTH[word] ?? ["question", "none", "its health is unknown"];
  const tip = [meaning, why && `here: ${visible(why)}`].filter(Boolean).join("\n");
  return html`<${Badge} icon=${icon} tone=${tone} tip=${tip}>${word ?? "unknown"}<//>`;
}

const MEMBER_STATES = {
  OK: ["check", "ok"],
  ok: ["check", "ok"],
  idle: ["dot", "none"],
  hot: ["triangle", "warn"],
  slow: ["triangle", "warn"],
  stuck: ["pause", "bad"],
  stalled: ["pause", "bad"],
  unknown: ["question", "none"],
};

/** Badge of a member's state, or of another state. */
export function StateWord({ word }) {
  const [icon, tone] = MEMBER_STATES[word] ?? HEALTH[word] ?? ["dot", "none"];
  return html`<${Badge} icon=${icon} tone=${tone}>${visible(plain(word))}<//>`;
}

const SEVERITIES = { error: ["square", "bad"], warning: ["triangle", "warn"], info: ["info", "info"] };

/** @param {{word: "error"|"warning"|"info"}} props */
export function Severity({ word }) {
  const [icon, tone] = SEVERITIES[word] ?? SEVERITIES.info;
  return html`<${Badge} icon=${icon} tone=${tone}>${word}<//>`;
}

const SURE = {
  proof: "proof: the journal or the protocol states it",
  high: "high: other causes are unlikely",
  medium: "medium: the evidence supports it",
  low: "low: the best available guess",
};

/** Confidence of a cause: filled bars and a word. */
export function Confidence({ word }) {
  const filled = ["low", "medium", "high", "proof"].indexOf(word) + 1;
  return html`<span class="confidence" data-tip=${SURE[word] ?? ""}>
    <svg viewBox="0 0 20 12" aria-hidden="true" focusable="false">
      ${[0, 1, 2, 3].map((i) => html`<rect class=${i < filled ? "full" : "empty"} x=${i * 5} y=${9 - i * 3} width="4" height=${3 + i * 3} />`)}
    </svg>
    ${word === "proof" ? "proven" : `confidence ${word}`}</span>`;
}

/** Source of a finding: journaled or inferred. */
export function Origin({ word }) {
  const seen = word === "inferred";
  return html`<span class="chip" data-tip=${seen ? "inferred by kohort watch" : "from the coordinator's journal"}>${seen ? "inferred" : "journal"}</span>`;
}
