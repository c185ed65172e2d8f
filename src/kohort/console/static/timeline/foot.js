/** Below the timeline: legend of the signs, and the rebalance at the cursor. */
import { count, duration, timeOfDay } from "../parts/format.js";
import { html } from "../parts/html.js";
import { memberName, plain, visible } from "../parts/words.js";
import { Sign } from "./draw-svg.js";
import { SIGNS } from "./glyphs.js";

const SILENT_WORDS = "owned, but silent or absent";

const SWATCHES = {
  members: [
    ["tl-kept h0", "kept"],
    ["tl-moved h0", "moved in"],
    ["tl-tail h0 fade0", "revoked"],
    ["tl-silent h0 silent0", SILENT_WORDS],
  ],
  counts: [
    ["tl-some1", "few partitions"],
    ["tl-some4", "most"],
    ["tl-some0", "none"],
    ["tl-silent h0 silent0", SILENT_WORDS],
  ],
  partitions: [
    ["tl-owned h0", "owned (a colour and a name for each member)"],
    ["tl-nobody", "no owner"],
    ["tl-silent h0 silent0", SILENT_WORDS],
  ],
};

/** @param {{model: object}} props */
export function Legend({ model }) {
  const kind = model.mode === "partitions" ? "partitions" : model.chips ? "members" : "counts";
  const signs = [...new Set(model.glyphs.map((glyph) => glyph.kind))];
  return html`<div class="timeline-foot" aria-label="Legend" role="group">
    ${SWATCHES[kind].filter(([, words]) => words !== SILENT_WORDS || model.silent).map(([name, words]) => html`<span><svg width="24" height="14" aria-hidden="true"><rect class=${name} x="1" y="1" width="22" height="12" rx="2.5" /></svg>${words}</span>`)}
    <span><svg width="24" height="14" aria-hidden="true"><rect class="tl-busy" width="24" height="14" /></svg>coordinator at work</span>
    ${model.arrivals.length > 0 && html`<span><svg width="9" height="14" aria-hidden="true"><line class="tl-arrival" x1="4.5" x2="4.5" y1="1" y2="14" /><path class="tl-arrival-pin" d="M1 1h7l-3.5 5z" /></svg>JoinGroup request</span>`}
    ${model.blockers.length > 0 && html`<span><svg width="24" height="14" aria-hidden="true"><path class="tl-blocker" d="M2 13V4H22V13" /></svg>delayed all others</span>`}
    ${model.rows.some((row) => row.breaks.length > 0) && html`<span><svg width="12" height="16" aria-hidden="true"><path class="tl-break" d="M6 1l-3 3.5l6 3.5l-6 3.5l3 3.5" /></svg>came back as a new member</span>`}
    ${signs.map((kind) => html`<span><svg width="16" height="16" viewBox="-8 -8 16 16" aria-hidden="true"><${Sign} kind=${kind} x="0" y="0" /></svg>${SIGNS[kind].words}</span>`)}
  </div>`;
}

/** The rebalance at the cursor: a sentence and its key numbers. */
export function Reading({ model, round, onOpen }) {
  const at = model.rounds[round];
  if (!at) return html`<div class="timeline-read"><p>${lead(model)}</p></div>`;
  const finding = at.finding;
  return html`<div class="timeline-read" data-round=${at.id}>
    <p>${finding ? visible(finding.sentence) : `${at.name}: ${visible(plain(at.cause ?? "unknown"))}.`}</p>
    <p class="timeline-facts">${factsOf(at).join(" · ")}</p>
    ${onOpen && html`<button type="button" onClick=${() => onOpen(round)}>Why? <kbd>Enter</kbd></button>`}
  </div>`;
}

function lead(model) {
  const rebalances = model.families.length;
  return rebalances === 0
    ? "No rebalance in this time."
    : `${model.counted.rebalances} in this time. ← and → go through them, ↑ and ↓ through the rows, + and − zoom, Enter opens the cause.`;
}

/** Key numbers of a round: [string]. */
export function factsOf(round) {
  const facts = [timeOfDay(round.from), round.took === null ? "in flight" : `took ${duration(round.took)}`];
  const finding = round.finding;
  if (!finding) return facts;
  for (const [name, ms] of Object.entries(finding.phases_ms)) if (ms > 0) facts.push(`${name} ${duration(ms)}`);
  if (finding.blocker) facts.push(`waited ${duration(finding.blocker.waited_ms)} for ${visible(memberName(finding.blocker.member))}`);
  const owners = finding.moves.filter((move) => move.from !== null && move.to !== null && move.from !== move.to).length;
  if (finding.moves.length > 0) facts.push(`${count(finding.moves.length, "partition")} touched${owners > 0 ? `, ${owners} moved` : ""}`);
  if (finding.unowned_partition_ms) facts.push(`${duration(finding.unowned_partition_ms)} without an owner in all`);
  return facts;
}
