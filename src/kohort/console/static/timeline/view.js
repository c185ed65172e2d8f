/** Pixels of a window: time to x, rows to y. Pure. */
import { placeOf, timeAt } from "./scale.js";
import { TAIL } from "./styles.js";

const CHIP_HEIGHTS = { most: 15, least: 12 };
const CHIPS_TALL = 520;
export const CHIP_GAP = 2;
/** Width in pixels in which a lost partition fades. */
export const TAIL_WIDTH = 30;
export const ROW_PADDING = 7;
export const ROW_HEIGHT = 24;
export const PARTITION_HEIGHT = 19;
export const LEAST_ROW = 2;

/** Tops and heights of the rows: {tops, heights, total}; `fit`: maximum total height in pixels, null: no maximum. */
export function placeRows(model, fit = null) {
  const places = model.rows.reduce((sum, row) => sum + row.places, 0);
  const chip = Math.min(CHIP_HEIGHTS.most, Math.max(CHIP_HEIGHTS.least, Math.floor(CHIPS_TALL / places) - CHIP_GAP));
  const heights = model.rows.map((row) => {
    if (model.mode === "partitions") return PARTITION_HEIGHT;
    return model.chips ? Math.max(40, row.places * (chip + CHIP_GAP) + 2 * ROW_PADDING) : ROW_HEIGHT;
  });
  const wanted = heights.reduce((sum, height) => sum + height, 0);
  if (fit !== null && wanted > fit) heights.fill(Math.max(LEAST_ROW, fit / Math.max(1, heights.length)));
  const tops = [];
  let total = 0;
  for (const height of heights) {
    tops.push(total);
    total += height;
  }
  return { tops, heights, total };
}

/**
 * A window on a scale: `begin` and `end` are places (0 and 1: the whole scale).
 * @returns {{x: (ms: number) => number, time: (x: number) => number, width: number, begin: number, end: number}}
 */
export function windowOn(scale, begin, end, width) {
  const span = Math.max(end - begin, 1e-12);
  return {
    x: (ms) => ((placeOf(scale, ms) - begin) / span) * width,
    time: (x) => timeAt(scale, begin + (x / width) * span),
    width,
    begin,
    end,
  };
}

/** Zoom by `factor`; the point at `share` of the width stays. The window spans at least `least`, at most the whole scale. */
export function zoomed({ begin, end }, factor, share, least = 1e-6) {
  const span = Math.min(1, Math.max(least, (end - begin) / factor));
  return clamped(begin + (end - begin - span) * share, span);
}

/** Move the window by a share of its width. */
export function panned({ begin, end }, share) {
  return clamped(begin + (end - begin) * share, end - begin);
}

/** Window from place `from` to place `until`, with a margin. */
export function around(from, until, room = 0.6, least = 1e-6) {
  const span = Math.min(1, Math.max(least, (until - from) * (1 + 2 * room)));
  return clamped((from + until) / 2 - span / 2, span);
}

function clamped(begin, span) {
  const from = Math.min(Math.max(0, begin), 1 - span);
  return { begin: from, end: from + span };
}

/** First and last row between the heights `top` and `bottom`. */
export function rowsWithin({ tops, heights }, top, bottom) {
  if (tops.length === 0) return [0, -1];
  return [rowAt(tops, top), Math.min(tops.length - 1, rowAt(tops, bottom))].map((row) => Math.min(row, heights.length - 1));
}

/** Row at a height. */
export function rowAt(tops, y) {
  let low = 0;
  let high = tops.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (tops[middle] <= y) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Left and right of a span in a window; a fading span is a few pixels wide. */
export function spanEnds(view, span) {
  const left = view.x(span.from);
  const right = span.style === TAIL ? Math.min(left + TAIL_WIDTH, view.x(span.until)) : view.x(span.until);
  return [Math.max(-4, left), Math.min(view.width + 4, right)];
}

/** Vertical position of a span within its row: [offset, height]. */
export function spanBox(model, row, height, span) {
  if (height < 8) return [0, Math.max(1, height - (height > 3 ? 1 : 0))];
  if (model.chips && model.mode === "members") {
    const each = Math.min(CHIP_HEIGHTS.most + CHIP_GAP, (height - 2 * ROW_PADDING) / row.places);
    return [ROW_PADDING + span.place * each, Math.max(1, each - CHIP_GAP)];
  }
  const inset = Math.min(4, height * 0.12);
  return [inset, height - 2 * inset];
}

/** Places of the spans of each row, computed once for all windows: [{from, until}]. */
export function spotsOf(model, scale) {
  return model.rows.map(({ spans }) => {
    const from = new Float64Array(spans.length);
    const until = new Float64Array(spans.length);
    spans.forEach((span, i) => {
      from[i] = placeOf(scale, span.from);
      until[i] = span.until === Infinity ? Infinity : placeOf(scale, span.until);
    });
    return { from, until };
  });
}

/** Number of marks of some rows within a window. */
export function countVisible(spots, rows, { begin, end }) {
  let found = 0;
  for (let i = rows[0]; i <= rows[1]; i += 1) {
    const { from, until } = spots[i];
    for (let n = 0; n < from.length; n += 1) if (until[n] > begin && from[n] < end) found += 1;
  }
  return found;
}
