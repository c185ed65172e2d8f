/**
 * Convert the lanes of a timeline to rows of members and spans of owned partitions. Pure.
 */

/** End of a span that still lasts: later than every time. */
const endOf = (spell, untilMs) => spell.until_ms ?? untilMs;

/**
 * Rows from lanes: a restarted process (same client id and host) continues in its row, after a break.
 * @returns {{key: string, member: object, lanes: object[], breaks: number[]}[]}
 */
export function rowsOfLanes(timeline) {
  const rows = [];
  const open = new Map();
  for (const lane of timeline.lanes) {
    const key = laneKey(lane.member);
    const [from, until] = lifeOf(lane, timeline.until_ms);
    const row = open.get(key)?.find((one) => one.until <= from);
    if (row) {
      row.lanes.push(lane);
      row.breaks.push(from);
      row.member = lane.member;
      row.until = until;
    } else {
      const made = { key: lane.member.member_id || key, member: lane.member, lanes: [lane], breaks: [], from, until };
      rows.push(made);
      open.set(key, [...(open.get(key) ?? []), made]);
    }
  }
  return rows;
}

function laneKey(member) {
  return member.instance_id ? `static ${member.instance_id}` : `${member.client_id} @ ${member.host}`;
}

function lifeOf(lane, untilMs) {
  const times = lane.assignments.flatMap((spell) => [spell.from_ms, endOf(spell, untilMs)]);
  for (const mark of lane.marks) if (mark.kind !== "fenced" || times.length === 0) times.push(mark.at_ms);
  let least = Infinity;
  let most = -Infinity;
  for (const time of times) {
    least = Math.min(least, time);
    most = Math.max(most, time);
  }
  return [least, most];
}

/**
 * Spans in which a lane owned each partition: [{partition, from, until, open}], sorted by `from`, then by name.
 * `open` is true if the lane still owns the partition.
 */
export function ownedSpans(lane, untilMs) {
  const spans = [];
  let held = new Map();
  let lastMs = -Infinity;
  for (const spell of lane.assignments) {
    const next = new Map();
    const follows = spell.from_ms <= lastMs;
    for (const partition of spell.partitions) {
      next.set(partition, follows ? (held.get(partition) ?? spell.from_ms) : spell.from_ms);
    }
    for (const [partition, from] of held) {
      if (!follows || !next.has(partition)) spans.push({ partition, from, until: lastMs, open: false });
    }
    held = next;
    lastMs = endOf(spell, untilMs);
  }
  const open = lane.assignments.length > 0 && lane.assignments.at(-1).until_ms === null;
  for (const [partition, from] of held) spans.push({ partition, from, until: lastMs, open });
  return spans.filter((span) => span.until > span.from || span.open).sort((a, b) => a.from - b.from || byPartition(a.partition, b.partition));
}

/**
 * Give each span of a row a vertical place: a partition keeps its place, and spans do not overlap.
 * Sets `place`; returns the number of places.
 */
export function givePlaces(spans) {
  const freeFrom = [];
  const before = new Map();
  for (const span of spans) {
    const known = before.get(span.partition);
    let place = known !== undefined && freeFrom[known] <= span.from ? known : freeFrom.findIndex((ms) => ms <= span.from);
    if (place < 0) place = freeFrom.length;
    freeFrom[place] = span.until;
    before.set(span.partition, place);
    span.place = place;
  }
  return freeFrom.length;
}

/** Times in which the members of a row owned partitions but were silent or away: [{from, until, say}], sorted by `from`. */
export function silencesOf(lanes, untilMs) {
  return lanes
    .flatMap((lane) => lane.silences ?? [])
    .map((one) => ({ from: one.from_ms, until: endOf(one, untilMs), say: one.text }))
    .sort((a, b) => a.from - b.from);
}

/** Split a time at the borders of silences: [{from, until, silence}]; `silence` is the silence around it, or null. */
export function cutAt(from, until, silences) {
  const found = [];
  let at = from;
  for (const silence of silences) {
    if (silence.until <= at || silence.from >= until) continue;
    if (silence.from > at) found.push({ from: at, until: silence.from, silence: null });
    found.push({ from: Math.max(at, silence.from), until: Math.min(until, silence.until), silence });
    at = found.at(-1).until;
  }
  if (at < until) found.push({ from: at, until, silence: null });
  return found;
}

/** Parse "orders-12" to ["orders", 12]. */
export function partsOf(partition) {
  const dash = partition.lastIndexOf("-");
  return [partition.slice(0, dash), Number(partition.slice(dash + 1))];
}

/** Compare partitions by topic, then by number. */
export function byPartition(a, b) {
  const [topicA, numberA] = partsOf(a);
  const [topicB, numberB] = partsOf(b);
  if (topicA !== topicB) return topicA < topicB ? -1 : 1;
  return numberA - numberB;
}

/**
 * Times in which a partition had no owner: between two owners, and as reported by moves.
 * @param {{from: number, until: number}[]} spans of that partition, sorted by `from`
 */
export function gapsOf(spans, moves) {
  const gaps = [];
  let last = null;
  for (const span of spans) {
    if (last !== null && span.from > last) gaps.push({ from: last, until: span.from });
    last = Math.max(last ?? span.until, span.until);
  }
  for (const { unowned_since_ms: since, unowned_ms: took } of moves) {
    if (since !== null && took) gaps.push({ from: since, until: since + took });
  }
  return united(gaps);
}

function united(gaps) {
  const found = [];
  for (const gap of gaps.sort((a, b) => a.from - b.from)) {
    const last = found.at(-1);
    if (last && gap.from <= last.until) last.until = Math.max(last.until, gap.until);
    else found.push({ ...gap });
  }
  return found;
}
