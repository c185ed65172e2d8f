/**
 * From the lanes of a timeline to who owned what: rows of members, spans of partitions. Pure.
 */

/** Later than everything: the end of what still lasts. */
const endOf = (spell, untilMs) => spell.until_ms ?? untilMs;

/**
 * The lanes as rows: a process that came back from the same client and host goes on in its row, with a break.
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
 * Each partition that a lane had, from when to when: [{partition, from, until, open}], by `from`, then by name.
 * `open` is true where it still has it.
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
 * Give each span of a row a place among others: a partition keeps its place, and none lie upon each other.
 * Sets `place`; returns how many places there are.
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

/** When the members of a row had partitions and were not there: [{from, until, say}], by `from`. */
export function silencesOf(lanes, untilMs) {
  return lanes
    .flatMap((lane) => lane.silences ?? [])
    .map((one) => ({ from: one.from_ms, until: endOf(one, untilMs), say: one.text }))
    .sort((a, b) => a.from - b.from);
}

/** A time cut where others begin and end: [{from, until, silence}]; `silence` is the one that it lies in, or null. */
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

/** "orders-12" as ["orders", 12]. */
export function partsOf(partition) {
  const dash = partition.lastIndexOf("-");
  return [partition.slice(0, dash), Number(partition.slice(dash + 1))];
}

/** Partitions by topic, and by number within it. */
export function byPartition(a, b) {
  const [topicA, numberA] = partsOf(a);
  const [topicB, numberB] = partsOf(b);
  if (topicA !== topicB) return topicA < topicB ? -1 : 1;
  return numberA - numberB;
}

/**
 * The times in which nobody had a partition: between its owners, and where a move says so.
 * @param {{from: number, until: number}[]} spans of that partition, by `from`
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
