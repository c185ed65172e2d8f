/** Assignments before and after a predicted change, as rows of the board. Pure. */
import { byPartition } from "./lanes.js";

/**
 * @param {object} group a GroupFinding
 * @param {object} prediction a WhatIfFinding
 * @returns {{rows: {id: string, member: object|null, load: object, before: Chip[]|null, after: Chip[]|null, changed: boolean}[], nobody: {before: string[], after: string[]}}}
 *   `before` and `after` are null while the member is not in the group; a chip is {name, moved, other}
 */
export function boardOf(group, prediction) {
  const had = new Map(group.members.map((member) => [member.member.member_id, member]));
  const moves = new Map(prediction.moves.map((move) => [`${move.topic}-${move.partition}`, move]));
  const got = new Map();
  for (const [name, { to }] of moves) if (to !== null) got.set(to, [...(got.get(to) ?? []), name]);
  const rows = prediction.loads.map((load) => {
    const member = had.get(load.member_id) ?? null;
    const owned = [...(member?.partitions ?? [])].sort(byPartition);
    const before = load.partitions_before === null ? null : owned.map((name) => chip(name, moves.get(name), load.member_id, "to"));
    const stays = owned.filter((name) => !leaves(moves.get(name), load.member_id));
    const comes = (got.get(load.member_id) ?? []).filter((name) => !stays.includes(name));
    const after =
      load.partitions_after === null ? null : [...stays, ...comes].sort(byPartition).map((name) => chip(name, moves.get(name), load.member_id, "from"));
    const changed = before === null || after === null || [...before, ...after].some((one) => one.moved);
    return { id: load.member_id, member: member?.member ?? load, load, before, after, changed };
  });
  rows.sort((a, b) => Number(a.before === null) - Number(b.before === null));
  const unowned = { before: [], after: [] };
  for (const [name, { from, to }] of moves) {
    if (from === null) unowned.before.push(name);
    if (to === null) unowned.after.push(name);
  }
  return { rows, nobody: unowned };
}

const leaves = (move, memberId) => move !== undefined && move.from === memberId && move.to !== memberId;

function chip(name, move, memberId, side) {
  const moved = move !== undefined && move.from !== move.to && (side === "to" ? move.from : move.to) === memberId;
  return { name, moved, other: moved ? move[side] : null };
}

/** Largest and smallest number of partitions per member, before and after; null without members. */
export function evenness(rows, side) {
  const sizes = rows.map((row) => row.load[`partitions_${side}`]).filter((size) => size !== null);
  return sizes.length === 0 ? null : [Math.max(...sizes), Math.min(...sizes)];
}
