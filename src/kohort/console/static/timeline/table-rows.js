/** Rows of the timeline's table. Pure. */
import { duration } from "../parts/format.js";
import { byPartition } from "./lanes.js";

/**
 * Assignment of each member after each rebalance: [{column, member, owned, gained, lost, happened}], newest last. Pure.
 * @param {object} timeline
 */
export function tableRows(timeline) {
  const rows = [];
  for (const column of timeline.columns) {
    const until = column.until_ms ?? Infinity;
    for (const lane of timeline.lanes) {
      const within = lane.assignments.filter((one) => one.from_ms < until && (one.until_ms ?? Infinity) > column.from_ms);
      const marks = lane.marks.filter((mark) => mark.at_ms >= column.from_ms && mark.at_ms < until);
      const silences = (lane.silences ?? []).filter((one) => one.from_ms < until && (one.until_ms ?? Infinity) > column.from_ms);
      if (within.length === 0 && marks.length === 0) continue;
      const before = new Set(heldAt(lane, column.from_ms));
      const stays = within.length > 0 && (within.at(-1).until_ms ?? Infinity) >= Math.min(until, timeline.until_ms);
      const owned = stays ? within.at(-1).partitions : [];
      rows.push({
        column,
        member: lane.member,
        owned: [...owned].sort(byPartition),
        gained: owned.filter((one) => !before.has(one)).sort(byPartition),
        lost: [...before].filter((one) => !owned.includes(one)).sort(byPartition),
        happened: [...marks.map(markWords), ...silences.map((one) => silenceWords(one, timeline.until_ms))],
        stays,
      });
    }
  }
  return rows;
}

const markWords = (mark) => (mark.kind === "fenced" ? `refused: ${mark.text}` : mark.text);

const silenceWords = (one, untilMs) => `silent or away for ${duration((one.until_ms ?? untilMs) - one.from_ms)}${one.until_ms === null ? " so far" : ""}`;

function heldAt(lane, ms) {
  return lane.assignments.find((one) => one.from_ms < ms && (one.until_ms ?? Infinity) >= ms)?.partitions ?? [];
}
