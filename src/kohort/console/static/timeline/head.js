/** Head of the timeline: axis, generations, rounds of one rebalance, and causes. */
import { duration, utc } from "../parts/format.js";
import { html } from "../parts/html.js";
import { plain, visible } from "../parts/words.js";
import { fitting } from "./draw-svg.js";
import { tickWords, ticksOf } from "./scale.js";

const AXIS = 22;
const GENERATIONS = 22;
const FAMILIES = 12;
const TICKS_APART = 92;
const LEAST_LABEL = 96;

/** Causes that need attention. */
const BAD = /SESSION_TIMEOUT|MAX_POLL|CRASH|STORM|TIMEOUT|EXPIRED|STALL|LOST/;

/** @param {{model: object, view: object, cursor: object, onRound: (round: number) => void, onOpen: (round: number) => void}} props */
export function Head(props) {
  const { view } = props;
  return html`<svg width=${view.width} height=${AXIS + GENERATIONS + FAMILIES} aria-hidden="true">
      <${Axis} ...${props} />
      <${Generations} ...${props} />
      <${Families} ...${props} />
    </svg>
    <${Causes} ...${props} />`;
}

function Axis({ view }) {
  const ticks = ticksOf(view, TICKS_APART);
  const finest = Math.min(...ticks.map((tick) => tick.step));
  return html`<g>
    ${ticks.map(({ x }) => html`<line class="tl-tick" x1=${x} x2=${x} y1=${AXIS - 5} y2=${AXIS} />`)}
    ${ticks.map((tick, i) => html`<text class="tl-tick-text" x=${tick.x + 3} y="14"><title>${utc(tick.ms)}</title>${tickWords(tick, ticks[i - 1]?.ms, finest)}</text>`)}
  </g>`;
}

function Generations({ model, view }) {
  return html`<g>${model.columns.map((column) => {
    const left = Math.max(0, view.x(column.from));
    const right = Math.min(view.width, view.x(column.until));
    if (right - left < 3) return null;
    const number = column.generation === null ? "?" : column.generation;
    const text = right - left > 62 ? `${column.word} ${number}` : right - left > 18 ? fitting(String(number), right - left - 4) : "";
    return html`<g>
      <path class="tl-gen" d=${`M${left + 1.5} ${AXIS + GENERATIONS}V${AXIS + 6}q0 -4 4 -4H${Math.max(left + 6, right)}`} />
      <text class="tl-gen-text" x=${left + 6} y=${AXIS + 16}>${text}</text>
    </g>`;
  })}</g>`;
}

/** A bracket over the rounds of one rebalance; a cooperative rebalance has two. */
function Families({ model, view }) {
  const y = AXIS + GENERATIONS + 3;
  return html`<g>${model.families.map((family) => {
    if (family.rounds.length < 2) return null;
    const left = view.x(family.from);
    const right = view.x(family.until ?? model.until);
    if (right < 0 || left > view.width || right - left < 8) return null;
    const text = right - left > 120 ? `one rebalance in ${family.rounds.length} rounds` : right - left > 60 ? `${family.rounds.length} rounds` : "";
    return html`<g>
      <path class="tl-family" d=${`M${left} ${y + 7}V${y + 2}H${right}V${y + 7}`} />
      ${text && html`<text class="tl-family-text" x=${(Math.max(0, left) + Math.min(view.width, right)) / 2} y=${y + 6}>${text}</text>`}
    </g>`;
  })}</g>`;
}

/** Cause of each rebalance where there is room; always of the rebalance at the cursor. */
function Causes({ model, view, cursor, onRound, onOpen }) {
  const shown = labelled(model, view, cursor.round);
  return html`<div class="timeline-causes">
    ${shown.map(({ number, left, room }) => {
      const round = model.rounds[number];
      const here = number === cursor.round;
      const took = round.took === null ? "goes on" : duration(round.took);
      const words = visible(plain(round.cause ?? "unknown"));
      return html`<button key=${round.id} type="button" tabindex="-1" class=${`timeline-cause ${BAD.test(round.cause ?? "") ? "bad" : ""}`}
        style=${{ left: `${left}px`, width: `${room}px` }} aria-current=${here ? "true" : null}
        aria-label=${`${round.name}: ${words}, ${took}`} data-round=${round.id}
        onClick=${() => (here ? onOpen(number) : onRound(number))}>${words}</button>`;
    })}
  </div>`;
}

/** Labels of causes and their widths, at the first round of each rebalance; the cursor's rebalance has priority. */
function labelled(model, view, here) {
  const wanted = [];
  for (const family of model.families) {
    const number = family.rounds.includes(here) ? here : family.rounds[0];
    const left = view.x(model.rounds[number].from);
    if (left > -40 && left < view.width - 20) wanted.push({ number, left: Math.max(2, left) });
  }
  const shown = [];
  for (const [i, one] of wanted.entries()) {
    const next = wanted.slice(i + 1).find((other) => other.left - one.left >= LEAST_LABEL || other.number === here);
    const last = shown.at(-1);
    if (last && one.left < last.left + last.room + 4) {
      if (one.number !== here) continue;
      if (one.left - last.left < 40) shown.pop();
      else last.room = one.left - last.left - 4;
    }
    const room = Math.min(240, (next ? next.left : view.width) - one.left - 4);
    shown.push({ ...one, room: Math.max(room, one.number === here ? 60 : 30) });
  }
  return shown.filter(({ room, number }) => room >= 50 || number === here);
}
