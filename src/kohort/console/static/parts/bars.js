/** Bars: shares of causes, phases in order, a value and its limit. */
import { html } from "./html.js";
import { FAMILY_NAMES, familyOf, MARKS, Swatch } from "./cause.js";
import { duration } from "./format.js";

/** Fill patterns of all bars; drawn once. */
export function Patterns() {
  return html`<svg class="patterns" aria-hidden="true" focusable="false"><defs>${MARKS.map(
    (mark, i) => html`<pattern id=${`family-${i}`} width="10" height="10" patternUnits="userSpaceOnUse"><rect class=${`family f${i}`} width="10" height="10" /><path class="family-mark" d=${mark} /></pattern>`,
  )}</defs></svg>`;
}

/**
 * Number of rebalances of each family of causes, as one bar with a legend.
 * @param {{byCause: Record<string, number>}} props
 */
export function CauseBar({ byCause }) {
  const families = byFamily(byCause);
  const total = families.reduce((sum, one) => sum + one.times, 0);
  if (!total) return html`<p class="soft">No rebalances.</p>`;
  let x = 0;
  return html`<${Patterns} /><svg class="causebar" role="img" aria-label=${families.map((one) => `${one.name}: ${one.times}`).join(", ")}>
      ${families.map((one) => {
        const width = (one.times / total) * 100;
        const left = x;
        x += width;
        return html`<rect x=${`${left}%`} y="0" width=${`${width}%`} height="16" stroke="var(--paper)" stroke-width="2" fill=${`url(#family-${one.family})`} />`;
      })}</svg>
    <${Legend} families=${families} />`;
}

/** @param {{families: {family: number, name: string, times: number}[]}} props */
export function Legend({ families }) {
  return html`<ul class="legend">${families.map((one) => html`<li><${Swatch} family=${one.family} /> ${one.name} <b>${one.times}</b></li>`)}</ul>`;
}

/** Number of rebalances of each family of causes, in the order of the families. */
export function byFamily(byCause) {
  const times = FAMILY_NAMES.map(() => 0);
  for (const [cause, number] of Object.entries(byCause)) times[familyOf(cause)] += number;
  return times.map((number, family) => ({ family, name: FAMILY_NAMES[family], times: number })).filter((one) => one.times > 0);
}

const PHASES = {
  join: "waiting for members to join",
  assign: "the leader computes the assignment",
  sync: "the coordinator sends the assignment",
  resume: "until the first fetch of the last new owner",
  target: "the coordinator computes the target assignment",
  revoke: "until the last member has revoked its partitions",
  give: "assigning the revoked partitions",
  settle: "until the last member is at the target",
};

/**
 * Phases one below the other; each starts at the end of the phase before.
 * @param {{phases: Record<string, number>}} props
 */
export function Waterfall({ phases }) {
  const names = Object.keys(phases);
  if (!names.length) return html`<p class="soft">The durations of its phases are unknown: it was inferred, or did not end.</p>`;
  const total = Math.max(1, names.reduce((sum, name) => sum + phases[name], 0));
  let begin = 0;
  return html`<table class="waterfall"><caption class="hidden">Phases of the rebalance</caption>
    <thead class="hidden"><tr><th scope="col">Phase</th><th scope="col">Took</th><th scope="col">When</th></tr></thead>
    <tbody>${names.map((name, i) => {
      const left = (begin / total) * 100;
      begin += phases[name];
      return html`<tr><th scope="row">${name}<div class="under">${PHASES[name] ?? ""}</div></th><td class="number">${duration(phases[name])}</td>
        <td class="lane"><svg viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label=${`begins after ${duration(begin - phases[name])}`}><rect class=${`phase p${i % 4}`} x=${left} y="1" width=${Math.max(0.5, (phases[name] / total) * 100)} height="8" /></svg></td></tr>`;
    })}</tbody></table>`;
}

/** A value and its limit, as a bar with text. @param {{value: number, limit: number, name: string}} props */
export function Against({ value, limit, name }) {
  const part = Math.min(1, value / Math.max(1, limit));
  const tone = part >= 0.8 ? "bad" : part >= 0.5 ? "warn" : "ok";
  return html`<span class="against"><svg viewBox="0 0 60 8" width="60" height="8" role="img" aria-label=${`${name}: ${duration(value)} of ${duration(limit)}`}><rect class="limit" width="60" height="8" /><rect class=${`value ${tone}`} width=${part * 60} height="8" /></svg> ${duration(value)} of ${duration(limit)}</span>`;
}
