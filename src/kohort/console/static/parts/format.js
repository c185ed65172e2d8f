/**
 * Format numbers and times. Pure functions; the caller shows null as unknown.
 */

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/**
 * Format a duration: "40 ms", "8.1 s", "3 min 20 s", "2 h 5 min", "3 d 4 h".
 * @param {number} ms
 * @returns {string}
 */
export function duration(ms) {
  const size = Math.abs(ms);
  if (size < 100) return `${Math.round(ms)} ms`;
  if (size < 2 * MINUTE) return `${(ms / SECOND).toFixed(1)} s`;
  if (size < HOUR) return twoUnits(ms, MINUTE, "min", SECOND, "s");
  if (size < DAY) return twoUnits(ms, HOUR, "h", MINUTE, "min");
  return twoUnits(ms, DAY, "d", HOUR, "h");
}

function twoUnits(ms, big, bigName, small, smallName) {
  const whole = Math.trunc(ms / big);
  const rest = Math.trunc((Math.abs(ms) % big) / small);
  return rest ? `${whole} ${bigName} ${rest} ${smallName}` : `${whole} ${bigName}`;
}

/**
 * Format the time since `atMs`, at the time `nowMs`.
 * @param {number} atMs
 * @param {number} nowMs
 * @returns {string}
 */
export function ago(atMs, nowMs) {
  const passed = nowMs - atMs;
  if (passed < 0) return `in ${roughly(-passed)}`;
  return passed < SECOND ? "now" : `${roughly(passed)} ago`;
}

/** Format a duration in one unit: "20 s", "3 min", "2 h". */
export function roughly(ms) {
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < 100 * SECOND) return `${Math.round(ms / SECOND)} s`;
  if (ms < 100 * MINUTE) return `${Math.round(ms / MINUTE)} min`;
  if (ms < 2 * DAY) return `${Math.round(ms / HOUR)} h`;
  return `${Math.round(ms / DAY)} d`;
}

const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en-GB", { notation: "compact", maximumFractionDigits: 1 });

/** Format a number with all digits: "12,345". */
export function number(value) {
  return whole.format(value);
}

/** Format a number briefly: "12.3K". */
export function compact(value) {
  return Math.abs(value) < 10000 ? whole.format(value) : short.format(value);
}

/** "no members", "1 member", "2 members". */
export function count(value, thing) {
  return `${value === 0 ? "no" : number(value)} ${thing}${value === 1 ? "" : "s"}`;
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** Format a size: "812 B", "1.2 MiB". */
export function bytes(size) {
  const power = size < 1024 ? 0 : Math.min(UNITS.length - 1, Math.floor(Math.log2(size) / 10));
  const scaled = size / 1024 ** power;
  return `${power && scaled < 100 ? scaled.toFixed(1) : Math.round(scaled)} ${UNITS[power]}`;
}

/** Format a rate: "0.5/s", "120/s". */
export function rate(perSecond) {
  const digits = Math.abs(perSecond) < 10 && perSecond !== 0 ? perSecond.toFixed(1) : number(perSecond);
  return `${digits}/s`;
}

/** Format a share: "87 %". */
export function share(value) {
  return `${Math.round(value * 100)} %`;
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const dayAndClock = new Intl.DateTimeFormat("en-GB", {
  day: "2-digit",
  month: "short",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
});

/** Format a local time of day, with the date if it differs from that of `nowMs`. */
export function timeOfDay(atMs, nowMs) {
  const sameDay = nowMs !== undefined && new Date(atMs).toDateString() === new Date(nowMs).toDateString();
  return (sameDay ? clock : dayAndClock).format(atMs);
}

/** Format a time as ISO 8601 in UTC; a time outside the calendar as its number. */
export function utc(atMs) {
  const date = new Date(atMs);
  return Number.isNaN(date.getTime()) ? String(atMs) : date.toISOString();
}
