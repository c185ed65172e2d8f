/** The rows of the timeline as a table. Pure. */
import { byPartition } from "./lanes.js";

/**
 * What each member had after each rebalance: [{round, member, has, got, lost}], newest last. Pure.
 * @param {object} timeline
 */
export function tableRows(timeline) {
  const rows = [];
  for (const column of timeline.columns) {
    const until = column.until_ms ?? Infinity;
    for (const lane of timeline.lanes) {
      const within = lane.spells.filter((one) => one.from_ms < until && (one.until_ms ?? Infinity) > column.from_ms);
      const marks = lane.marks.filter((mark) => mark.at_ms >= column.from_ms && mark.at_ms < until);
      if (within.length === 0 && marks.length === 0) continue;
      const before = new Set(heldAt(lane, column.from_ms));
      const stays = within.length > 0 && (within.at(-1).until_ms ?? Infinity) >= Math.min(until, timeline.until_ms);
      const has = stays ? within.at(-1).partitions : [];
      rows.push({
        column,
        who: lane.who,
        has: [...has].sort(byPartition),
        got: has.filter((one) => !before.has(one)).sort(byPartition),
        lost: [...before].filter((one) => !has.includes(one)).sort(byPartition),
        marks,
        stays,
      });
    }
  }
  return rows;
}

function heldAt(lane, ms) {
  return lane.spells.find((one) => one.from_ms < ms && (one.until_ms ?? Infinity) >= ms)?.partitions ?? [];
}
