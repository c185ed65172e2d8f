/** Draw the marks of a window as SVG, for up to a thousand marks. */
import { html } from "../parts/html.js";
import { SIGNS } from "./glyphs.js";
import { sayOfSpan } from "./layout.js";
import { KEPT, MOVED, NOBODY, OWNED, SILENT, SOME, TAIL } from "./styles.js";
import { spanBox, spanEnds } from "./view.js";

const CLASSES = { [KEPT]: "tl-kept", [MOVED]: "tl-moved", [TAIL]: "tl-tail", [OWNED]: "tl-owned", [NOBODY]: "tl-nobody", [SILENT]: "tl-silent" };
const LETTER = 6.2;
const HUES = [0, 1, 2, 3, 4, 5, 6, 7];

/** CSS classes of a span. */
export function classOf(span) {
  if (span.style === TAIL) return `tl-tail h${span.hue} fade${span.hue}`;
  if (span.style === SILENT) return `tl-silent h${span.hue} silent${span.hue}`;
  return span.style >= SOME ? `tl-some${span.style - SOME}` : `${CLASSES[span.style]} h${span.hue}`;
}

/** @param {{model: object, view: object, placed: object, rows: [number, number], top: number, height: number, cursor: object, words: string}} props */
export function SvgDrawing(props) {
  const { view, height, words } = props;
  return html`<svg width=${view.width} height=${height} role="img" aria-label=${words}>
    <${Grounds} ...${props} />
    <${Spans} ...${props} />
    <${Over} ...${props} />
  </svg>`;
}

/** Patterns of the style sheet, defined once for all drawings. */
export function Patterns() {
  return html`<svg class="timeline-patterns" width="0" height="0" aria-hidden="true"><defs>
    <pattern id="timeline-hatch" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
      <rect class="tl-busy-ground" width="7" height="7" /><line class="tl-hatch" x1="0" y1="0" x2="0" y2="7" />
    </pattern>
    ${HUES.map((hue) => html`<linearGradient id=${`timeline-fade-${hue}`} class=${`h${hue}`}><stop class="tl-fade" offset="0" /><stop class="tl-faded" offset="1" /></linearGradient>`)}
    <pattern id="timeline-nobody" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)">
      <rect class="tl-nobody-ground" width="6" height="6" /><line class="tl-nobody-line" x1="0" y1="0" x2="0" y2="6" />
    </pattern>
    ${HUES.map((hue) => html`<pattern id=${`timeline-silent-${hue}`} class=${`h${hue}`} width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
      <rect class="tl-silent-ground" width="5" height="5" /><line class="tl-silent-line" x1="0" y1="0" x2="0" y2="5" />
    </pattern>`)}
  </defs></svg>`;
}

/** Columns, rows, and the times of rebalances. */
function Grounds({ model, view, placed, rows, top, height, cursor }) {
  const shapes = [];
  model.columns.forEach((column, number) => {
    const [left, right] = clip(view, column.from, column.until);
    if (right <= left) return;
    if (number % 2 === 1) shapes.push(html`<rect class="tl-band" x=${left} y="0" width=${right - left} height=${height} />`);
    if (left > 0) shapes.push(html`<line class="tl-edge" x1=${left} x2=${left} y1="0" y2=${height} />`);
  });
  for (let i = rows[0]; i <= rows[1]; i += 1) {
    const y = placed.tops[i] - top;
    const middle = y + placed.heights[i] / 2;
    if (i === cursor.row) shapes.push(html`<rect class="tl-row-here" x="0" y=${y} width=${view.width} height=${placed.heights[i]} />`);
    if (placed.heights[i] >= 8) {
      shapes.push(html`<line class="tl-row" x1="0" x2=${view.width} y1=${y + placed.heights[i] - 0.5} y2=${y + placed.heights[i] - 0.5} />`);
    }
    for (const life of model.rows[i].lives) {
      const [left, right] = clip(view, life.from, life.until);
      if (right > left) shapes.push(html`<line class="tl-life" x1=${left} x2=${right} y1=${middle} y2=${middle} />`);
    }
  }
  model.rounds.forEach((round, number) => {
    const [left, right] = clip(view, round.from, round.until ?? model.until);
    if (right < left) return;
    if (number === cursor.round) {
      const ends = clip(view, round.from, cursor.until);
      shapes.push(html`<rect class="tl-here" x=${ends[0]} y="0" width=${Math.max(1, ends[1] - ends[0])} height=${height} />`);
    }
    shapes.push(html`<rect class="tl-busy" x=${left} y="0" width=${Math.max(1.5, right - left)} height=${height} />`);
    if (number === cursor.round) shapes.push(html`<line class="tl-here-line" x1=${left} x2=${left} y1="0" y2=${height} />`);
  });
  return html`<g>${shapes}</g>`;
}

function Spans({ model, view, placed, rows, top }) {
  const shapes = [];
  for (let i = rows[0]; i <= rows[1]; i += 1) {
    const row = model.rows[i];
    const y = placed.tops[i] - top;
    for (const span of row.spans) {
      const [left, right] = spanEnds(view, span);
      if (right <= left) continue;
      const [offset, height] = spanBox(model, row, placed.heights[i], span);
      shapes.push(html`<rect class=${classOf(span)} x=${left + 0.5} y=${y + offset + 0.5} width=${Math.max(0.8, right - left - 1)} height=${Math.max(0.8, height - 1)} rx=${height > 8 ? 2.5 : 0} />`);
      const text = fitting(span.text, right - left - 8);
      if (text && height >= 11) shapes.push(html`<text class="tl-text" x=${left + 5} y=${y + offset + height / 2 + 3.7}>${text}</text>`);
    }
  }
  return html`<g>${shapes}</g>`;
}

/** Joins, delays by members, breaks, signs. */
function Over({ model, view, placed, rows, top, height }) {
  const shapes = [];
  const seen = (row) => row >= rows[0] && row <= rows[1];
  for (const { row, at } of model.arrivals) {
    const x = view.x(at);
    if (!seen(row) || x < -2 || x > view.width + 2 || placed.heights[row] < 8) continue;
    const y = placed.tops[row] - top;
    shapes.push(html`<line class="tl-arrival" x1=${x} x2=${x} y1=${y + 2} y2=${y + placed.heights[row] - 3} /><path class="tl-arrival-pin" d=${`M${x - 3.5} ${y + 1}h7l-3.5 5z`} />`);
  }
  for (let i = rows[0]; i <= rows[1]; i += 1) {
    for (const at of model.rows[i].breaks) {
      const x = breakAt(model.rows[i], at, view);
      const path = zigzag(x, placed.tops[i] - top + 5, placed.heights[i] - 10);
      if (x > 0 && x < view.width && placed.heights[i] >= 8) shapes.push(html`<path class="tl-break-ground" d=${path} /><path class="tl-break" d=${path} />`);
    }
  }
  for (const blocker of model.blockers) {
    if (seen(blocker.row) && placed.heights[blocker.row] >= 8) shapes.push(bracketOf(blocker, view, placed, top));
  }
  for (const glyph of signsOf(model, view, rows, placed)) {
    const y = glyph.row < 0 ? height - 10 : placed.tops[glyph.row] - top + placed.heights[glyph.row] / 2;
    shapes.push(html`<${Sign} kind=${glyph.kind} x=${glyph.x} y=${y} />`);
  }
  return html`<g>${shapes}</g>`;
}

/** A sign on a background that keeps it readable over a span. */
export function Sign({ kind, x, y }) {
  const sign = SIGNS[kind];
  return html`<g class=${`tone-${sign.tone}`} transform=${`translate(${x} ${y})`}>
    <circle class="tl-sign-ground" r="7.5" />
    ${sign.line && html`<path class="tl-sign" d=${sign.line} />`}
    ${sign.fill && html`<path class="tl-sign filled" d=${sign.fill} />`}
  </g>`;
}

/** Signs within a window that do not overlap: [{...glyph, x}]. */
export function signsOf(model, view, rows, placed) {
  const last = new Map();
  const found = [];
  for (const glyph of model.glyphs) {
    if (glyph.row >= 0 && (glyph.row < rows[0] || glyph.row > rows[1] || placed.heights[glyph.row] < 8)) continue;
    const x = view.x(glyph.at);
    if (x < -8 || x > view.width + 8) continue;
    const beside = glyph.kind === "joined" ? x - 10 : x + 10;
    if (beside - (last.get(glyph.row) ?? -99) < 13 && glyph.kind === "fenced") continue;
    last.set(glyph.row, beside);
    found.push({ ...glyph, x: beside });
  }
  return found;
}

function bracketOf(blocker, view, placed, top) {
  const [left, right] = [view.x(blocker.from), view.x(blocker.until)];
  if (right < 0 || left > view.width) return null;
  const y = placed.tops[blocker.row] - top + 5;
  const middle = Math.min(Math.max((left + right) / 2, 20), view.width - 20);
  return html`<g>
    <path class="tl-blocker" d=${`M${left} ${y + 9}V${y}H${right}V${y + 9}`} />
    <text class="tl-blocker-text" x=${middle} y=${y + 13}>${blocker.text}</text>
  </g>`;
}

/** Break between two processes of a row, drawn if there is room. */
function breakAt(row, at, view) {
  const before = row.lives.filter((life) => life.until <= at).at(-1);
  return before ? (view.x(before.until) + view.x(at)) / 2 : view.x(at);
}

function zigzag(x, y, height) {
  const step = height / 4;
  return `M${x} ${y}l-3 ${step}l6 ${step}l-6 ${step}l3 ${step}`;
}

/** Pixels of a time span, clipped slightly outside the window. */
export function clip(view, from, until) {
  return [Math.max(-4, view.x(from)), Math.min(view.width + 4, view.x(until))];
}

/** The text, cut to the room; empty if fewer than two letters fit. */
export function fitting(text, room) {
  if (!text || text.length * LETTER <= room) return text;
  const letters = Math.floor(room / LETTER);
  return letters < 3 || /^\d/.test(text) ? "" : `${text.slice(0, letters - 1)}…`;
}

/** Row and text at a point: {row, say}, or null. */
export function underPoint({ model, view, placed, rows, top }, x, y) {
  for (const glyph of signsOf(model, view, rows, placed)) {
    const at = glyph.row < 0 ? -99 : placed.tops[glyph.row] - top + placed.heights[glyph.row] / 2;
    if (Math.abs(x - glyph.x) < 9 && Math.abs(y - at) < 9) return { row: glyph.row, say: `${model.rows[glyph.row].name}: ${glyph.say}` };
  }
  for (const blocker of model.blockers) {
    const at = placed.tops[blocker.row] - top;
    if (x >= view.x(blocker.from) && x <= view.x(blocker.until) && y >= at && y <= at + placed.heights[blocker.row] * 0.55) {
      return { row: blocker.row, say: `${model.rows[blocker.row].name}: ${blocker.say}` };
    }
  }
  for (let i = rows[0]; i <= rows[1]; i += 1) {
    const at = y - (placed.tops[i] - top);
    if (at < 0 || at >= placed.heights[i]) continue;
    const arrival = model.arrivals.find((one) => one.row === i && Math.abs(view.x(one.at) - x) < 3);
    if (arrival) return { row: i, say: arrival.say };
    const span = model.rows[i].spans.find((one) => {
      const [offset, height] = spanBox(model, model.rows[i], placed.heights[i], one);
      return at >= offset && at <= offset + height && view.x(one.from) <= x && view.x(one.until) >= x;
    });
    return { row: i, say: span ? sayOfSpan(model.rows[i], span) : model.rows[i].name };
  }
  return null;
}
