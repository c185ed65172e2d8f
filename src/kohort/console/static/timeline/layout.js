/**
 * Convert a timeline and its rebalances to rows and marks in time, without pixels. Pure.
 *
 * @typedef {{from: number, until: number, style: number, hue: number, place: number, text: string, say: string}} Span
 * @typedef {{key: string, label: string, under: string, gone: boolean, places: number, spans: Span[]}} Row
 */
import { duration } from "../parts/format.js";
import { memberName, plain, visible } from "../parts/words.js";
import { KEPT, MOVED, NOBODY, OWNED, SILENT, SOME, TAIL } from "./styles.js";
import { byPartition, cutAt, gapsOf, givePlaces, ownedSpans, partsOf, rowsOfLanes, silencesOf } from "./lanes.js";
import { glyphsOf } from "./glyphs.js";
import { blockersOf, columnsOf, countsIn, familiesOf, roundsOf } from "./rounds.js";

export const HUES = 8;
/** Maximum number of partitions of a member that are drawn as single chips; more are shown as a number. */
export const CHIPS_MOST = 12;
/** Maximum number of chips in all rows. */
export const CHIPS_OF_ALL = 64;

/**
 * @param {{timeline: object, rebalances?: object[], events?: object[], mode?: "members"|"partitions"}} given
 * @returns the model: {rows, columns, rounds, families, blockers, arrivals, glyphs, from, until, chips, topics, marks}
 */
export function layOut({ timeline, rebalances = [], events = [], mode = "members" }) {
  const lanes = rowsOfLanes(timeline);
  const rounds = roundsOf(timeline, rebalances);
  const columns = columnsOf(timeline);
  const topics = topicsOf(timeline);
  const rowAt = rowNumbers(lanes);
  const members = mode === "members";
  const { rows, chips } = members ? memberRows(lanes, columns, topics, timeline) : partitionRows(lanes, rebalances, timeline);
  const onRows = members ? { blockers: blockersOf(rounds, rowAt), ...glyphsOf(timeline, events, rowAt) } : NOTHING;
  return {
    mode,
    rows,
    chips,
    columns,
    rounds,
    families: familiesOf(rounds),
    ...onRows,
    topics,
    silent: rows.some((row) => row.spans.some((span) => span.style === SILENT)),
    counted: countsIn(timeline, rebalances),
    from: timeline.from_ms < (columns[0]?.from ?? 0) ? columns[0].from : timeline.from_ms,
    until: Math.max(timeline.until_ms, timeline.from_ms + 1),
    marks: rows.reduce((sum, row) => sum + row.spans.length, 0) + onRows.glyphs.length + onRows.arrivals.length,
  };
}

const NOTHING = { blockers: [], glyphs: [], arrivals: [] };

/** Map of member ids to row numbers. */
function rowNumbers(lanes) {
  const at = new Map();
  lanes.forEach((row, number) => {
    for (const lane of row.lanes) at.set(lane.member.member_id, number);
    if (row.member.instance_id) at.set(`static ${row.member.instance_id}`, number);
  });
  return (member) => at.get(member.member_id) ?? at.get(`static ${member.instance_id}`);
}

function topicsOf(timeline) {
  const found = new Set();
  for (const lane of timeline.lanes) {
    for (const spell of lane.assignments) for (const partition of spell.partitions) found.add(partsOf(partition)[0]);
  }
  return [...found].sort();
}

function memberRows(lanes, columns, topics, timeline) {
  const hues = new Map(topics.map((topic, number) => [topic, number % HUES]));
  const made = lanes.map((row) => {
    const owned = row.lanes.flatMap((lane) => ownedSpans(lane, timeline.until_ms));
    return { row, owned, places: givePlaces(owned), silences: silencesOf(row.lanes, timeline.until_ms) };
  });
  const chips =
    made.every(({ places }) => places <= CHIPS_MOST) && made.reduce((sum, { places }) => sum + places, 0) <= CHIPS_OF_ALL;
  const most = Math.max(1, ...made.map(({ places }) => places));
  const rows = made.map(({ row, owned, places, silences }) => ({
    key: row.key,
    label: visible(row.member.instance_id ?? (row.member.client_id || row.member.member_id)),
    under: underOf(row),
    name: visible(memberName(row.member)),
    gone: row.lanes.at(-1).assignments.at(-1)?.until_ms !== null,
    breaks: row.breaks,
    lives: livesOf(row, timeline.until_ms),
    places: chips ? Math.max(1, places) : 1,
    spans: chips ? chipsOf(owned, silences, columns, topics.length === 1, hues) : countsOf(row, owned, silences, columns, most, timeline.until_ms),
  }));
  return { rows, chips };
}

/** Host and member id of a row, which distinguish members with the same client id. */
function underOf(row) {
  const id = visible(memberName({ ...row.member, instance_id: null, client_id: row.member.client_id }));
  const host = visible(row.member.host.replace(/^\//, ""));
  const tail = id.split(/[-/]/).at(-1).slice(0, 8);
  const gone = row.lanes.at(-1).assignments.at(-1)?.until_ms !== null;
  return [gone ? "gone" : "", host, tail].filter(Boolean).join(" · ");
}

/** Times of membership: [{from, until}]; adjacent times are joined. */
function livesOf(row, untilMs) {
  const lives = [];
  for (const spell of row.lanes.flatMap((lane) => lane.assignments)) {
    const until = spell.until_ms ?? untilMs;
    if (lives.length > 0 && lives.at(-1).until >= spell.from_ms && !row.breaks.includes(spell.from_ms)) lives.at(-1).until = until;
    else lives.push({ from: spell.from_ms, until });
  }
  return lives;
}

/**
 * A span for each partition. Partitions gained in a rebalance are MOVED until the next one; lost partitions fade;
 * partitions of a silent member are SILENT.
 */
function chipsOf(owned, silences, columns, oneTopic, hues) {
  const spans = [];
  for (const { partition, from, until, open, place } of owned) {
    const [topic, number] = partsOf(partition);
    const text = oneTopic ? String(number) : visible(partition);
    const about = { hue: hues.get(topic), place, text, partition: visible(partition) };
    const settledMs = movedUntil(columns, from);
    const cut = Math.min(settledMs, until);
    const add = (part, style, say) => {
      for (const { from: begin, until: end, silence } of cutAt(part.from, part.until, silences)) {
        const words = begin === from ? text : "";
        spans.push({ ...about, from: begin, until: end, text: words, style: silence ? SILENT : style, say: silence ? silence.say : say });
      }
    };
    if (cut > from) add({ from, until: cut }, MOVED, "moved in");
    if (until > cut) add({ from: cut, until }, KEPT, "kept");
    if (!open) spans.push({ ...about, from: until, until: nextAt(owned, place, until), style: TAIL, text: "", say: "revoked" });
  }
  return spans;
}

/** End of the time in which a partition gained at `from` is MOVED: the next rebalance; `from` in the first known column. */
function movedUntil(columns, from) {
  let at = -1;
  for (const column of columns) {
    if (column.from > from) return at >= 0 && !columns[at].first ? column.from : from;
    at += 1;
  }
  return at >= 0 && !columns[at].first ? Infinity : from;
}

/** Start of the next span in a place: a fading tail ends there. */
function nextAt(owned, place, ms) {
  let next = Infinity;
  for (const other of owned) if (other.place === place && other.from >= ms) next = Math.min(next, other.from);
  return next;
}

/** A span for each time in which a member's number of partitions is constant. */
function countsOf(row, owned, silences, columns, most, untilMs) {
  const spans = [];
  const sorted = [...owned].sort((a, b) => a.from - b.from);
  let at = 0;
  for (const spell of row.lanes.flatMap((lane) => lane.assignments)) {
    const has = spell.partitions.length;
    let fresh = 0;
    while (at < sorted.length && sorted[at].from < spell.from_ms) at += 1;
    for (let i = at; i < sorted.length && sorted[i].from === spell.from_ms; i += 1) fresh += 1;
    if (movedUntil(columns, spell.from_ms) === spell.from_ms) fresh = 0;
    const level = has === 0 ? 0 : 1 + Math.min(3, Math.floor((has / most) * 3.999));
    const text = fresh > 0 ? `${has} (+${fresh})` : String(has);
    const say = `${has} partition${has === 1 ? "" : "s"}${fresh > 0 ? `, ${fresh} of them new` : ""}`;
    for (const { from, until, silence } of cutAt(spell.from_ms, spell.until_ms ?? untilMs, has > 0 ? silences : [])) {
      const about = silence ? { style: SILENT, text: `${has} silent`, say: `${say}: ${silence.say}` } : { style: SOME + level, text, say };
      spans.push({ from, until, hue: 0, place: 0, fresh, ...about });
    }
  }
  return spans;
}

/** A row for each partition: its owners in order, and the times without owner. */
function partitionRows(lanes, rebalances, timeline) {
  const found = new Map();
  lanes.forEach((row, number) => {
    const silences = silencesOf(row.lanes, timeline.until_ms);
    for (const lane of row.lanes) {
      for (const span of ownedSpans(lane, timeline.until_ms)) {
        const made = found.get(span.partition) ?? [];
        if (made.length === 0) found.set(span.partition, made);
        made.push({ ...span, silences, hue: number % HUES, owner: visible(memberName(lane.member)), label: visible(lane.member.instance_id ?? (lane.member.client_id || lane.member.member_id)) });
      }
    }
  });
  const moves = movesOf(rebalances);
  const rows = [...found.keys()].sort(byPartition).map((partition) => {
    const spans = found.get(partition).sort((a, b) => a.from - b.from);
    const gaps = gapsOf(spans, moves.get(partition) ?? []);
    return {
      key: partition,
      label: visible(partition),
      under: "",
      name: visible(partition),
      gone: false,
      breaks: [],
      lives: [],
      places: 1,
      spans: [...ownersOf(spans, gaps), ...gaps.map(gapSpan)],
    };
  });
  return { rows, chips: false };
}

function movesOf(rebalances) {
  const moves = new Map();
  for (const move of rebalances.flatMap((one) => one.moves)) {
    const partition = `${move.topic}-${move.partition}`;
    moves.set(partition, [...(moves.get(partition) ?? []), move]);
  }
  return moves;
}

/** Owners of a partition, without the times that a move reports as unowned. */
function ownersOf(spans, gaps) {
  const found = [];
  for (const span of spans) {
    let from = span.from;
    for (const gap of gaps) {
      if (gap.until <= from || gap.from >= span.until) continue;
      if (gap.from > from) found.push(...ownerSpans(span, from, gap.from));
      from = Math.max(from, gap.until);
    }
    if (from < span.until) found.push(...ownerSpans(span, from, span.until));
  }
  return found;
}

/** Span of an owner; the time in which the owner was silent or away is a separate span. */
function ownerSpans(span, from, until) {
  return cutAt(from, until, span.silences).map(({ silence, ...part }) => ({
    ...part, hue: span.hue, place: 0, text: silence ? `${span.label}, silent` : span.label,
    style: silence ? SILENT : OWNED, say: silence ? `${span.owner} owned it, ${visible(silence.say)}` : span.owner,
  }));
}

function gapSpan({ from, until }) {
  const took = duration(until - from);
  return { from, until, style: NOBODY, hue: 0, place: 0, text: took, say: `no owner for ${took}` };
}

/** Text of a span. */
export function sayOfSpan(row, span) {
  const lasted = duration(span.until - span.from);
  if (span.style === NOBODY) return `${row.name}: ${span.say}`;
  if (span.style === TAIL) return `${row.name} revoked ${span.partition}`;
  if (span.style === SILENT && span.partition) return `${row.name} had ${span.partition}, ${visible(span.say)}`;
  if (span.partition) return `${row.name}: ${span.partition}, ${plain(span.say)}, for ${lasted}`;
  return `${row.name}: ${span.say}, for ${lasted}`;
}
