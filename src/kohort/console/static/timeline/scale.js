/**
 * Time scales: convert milliseconds to places between 0 and 1, and back.
 * The elastic scale stretches rebalances and compresses the time between them; places grow with time. Pure.
 */

const MARGIN_MS = 120;
const MARGIN_SHARE = 0.12;

/**
 * @typedef {{times: number[], places: number[], calm: {fromMs: number, untilMs: number}[]}} Scale
 * Knots: at `times[i]` the place is `places[i]`, linear in between.
 */

/** @returns {Scale} linear: every second has the same width. */
export function linearScale(fromMs, untilMs) {
  return { times: [fromMs, Math.max(untilMs, fromMs + 1)], places: [0, 1], calm: [] };
}

/**
 * Elastic scale: each time of `busy` ({from, until}, any order) is wide enough to read; other times are compressed.
 * @returns {Scale}
 */
export function elasticScale(fromMs, untilMs, busy) {
  const end = Math.max(untilMs, fromMs + 1);
  const merged = mergeSpans(busy.map(({ from, until }) => widened(from, until)), fromMs, end);
  if (merged.length === 0) return linearScale(fromMs, end);
  const times = [fromMs];
  const rooms = [0];
  const calm = [];
  const add = (until, room) => {
    if (until <= times.at(-1)) return;
    times.push(until);
    rooms.push(rooms.at(-1) + room);
  };
  for (const { from, until, rounds } of merged) {
    if (from > times.at(-1)) calm.push({ fromMs: times.at(-1), untilMs: from });
    add(from, calmRoom(from - times.at(-1)));
    add(until, rounds * 0.7 + busyRoom(until - from));
  }
  if (end > times.at(-1)) calm.push({ fromMs: times.at(-1), untilMs: end });
  add(end, calmRoom(end - times.at(-1)));
  const all = rooms.at(-1);
  return { times, places: rooms.map((room) => room / all), calm };
}

function widened(from, until) {
  const margin = Math.max(MARGIN_MS, (until - from) * MARGIN_SHARE);
  return { from: from - margin, until: until + margin };
}

function mergeSpans(spans, fromMs, untilMs) {
  const merged = [];
  const inside = spans.filter((span) => span.until > fromMs && span.from < untilMs);
  for (const { from, until } of inside.sort((a, b) => a.from - b.from)) {
    const last = merged.at(-1);
    if (last && from <= last.until) {
      last.until = Math.max(last.until, until);
      last.rounds += 1;
    } else merged.push({ from: Math.max(from, fromMs), until: Math.min(until, untilMs), rounds: 1 });
  }
  for (const span of merged) span.until = Math.min(span.until, untilMs);
  return merged;
}

const busyRoom = (ms) => 0.5 + Math.log2(1 + ms / 1000) * 0.45;
const calmRoom = (ms) => 0.5 + Math.log2(1 + ms / 1000) * 0.22;

/** Place of a time; linear outside the scale. */
export function placeOf(scale, ms) {
  return between(scale.times, scale.places, ms);
}

/** Time of a place. */
export function timeAt(scale, place) {
  return between(scale.places, scale.times, place);
}

function between(xs, ys, x) {
  let low = 0;
  let high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (xs[middle] <= x) low = middle;
    else high = middle;
  }
  const width = xs[high] - xs[low];
  return width === 0 ? ys[low] : ys[low] + ((x - xs[low]) / width) * (ys[high] - ys[low]);
}

const STEPS_MS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 900e3, 1800e3, 3600e3,
  7200e3, 10800e3, 21600e3, 43200e3, 86400e3, 172800e3, 604800e3, 2592000e3,
];

/**
 * Ticks at least `apart` pixels from each other: [{x, ms, step}].
 * @param {{x: (ms: number) => number, time: (x: number) => number, width: number}} view
 */
export function ticksOf(view, apart) {
  const found = [];
  let at = 0;
  for (let tries = 0; at < view.width && tries < 500; tries += 1) {
    const ms = view.time(at);
    const needed = view.time(at + apart) - ms;
    const step = STEPS_MS.find((one) => one >= needed * 0.8) ?? STEPS_MS.at(-1);
    const offset = step >= 3600e3 ? new Date(ms).getTimezoneOffset() * 60e3 : 0;
    const tick = Math.ceil((ms - offset) / step) * step + offset;
    const x = view.x(tick);
    if (x <= view.width && x >= at && (found.length === 0 || x - found.at(-1).x >= apart)) found.push({ x, ms: tick, step });
    at = Math.max(at + apart / 3, Math.min(x, at + apart) + 1);
  }
  return found;
}

/** Label of a tick, as precise as the smallest step; with the date if `before` has another date. */
export function tickWords({ ms, step }, before, finest = step) {
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return String(ms);
  const two = (number) => String(number).padStart(2, "0");
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}`;
  const fine = step < 1000 ? `.${String(date.getMilliseconds()).padStart(3, "0")}` : "";
  const text = finest < 60e3 && step < 3600e3 ? `${clock}:${two(date.getSeconds())}${fine}` : clock;
  const newDay = before === undefined ? step >= 3600e3 : new Date(before).toDateString() !== date.toDateString();
  return newDay ? `${date.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${text}` : text;
}
