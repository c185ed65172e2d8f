/** Rebalances over time: columns, rounds, rounds of one rebalance, delays by members. Pure. */
import { count, duration } from "../parts/format.js";
import { rowsOfLanes } from "./lanes.js";
import { plain, rebalanceName } from "../parts/words.js";

/** Columns of a timeline. `first`: the assignment before the column is unknown, so no partition counts as moved. */
export function columnsOf(timeline) {
  return timeline.columns.map((column, number) => ({
    from: column.from_ms,
    until: column.until_ms ?? timeline.until_ms,
    generation: column.generation,
    word: column.protocol === "consumer" ? "epoch" : "gen",
    id: column.rebalance,
    first: column.from_ms === timeline.columns[0].from_ms && (number > 0 || column.cause === null || column.cause === "GROUP_FORMING"),
  }));
}

/**
 * Rounds of rebalances: time, cause and result; a round without a finding has only its time.
 * `until` is null while the round lasts.
 */
export function roundsOf(timeline, rebalances) {
  const known = new Map(rebalances.map((one) => [one.id, one]));
  return timeline.columns
    .filter((column) => column.rebalance !== null)
    .map((column) => {
      const finding = known.get(column.rebalance) ?? null;
      const took = finding?.took_ms ?? column.took_ms;
      return {
        id: column.rebalance,
        from: column.from_ms,
        until: took === null ? null : column.from_ms + took,
        took,
        cause: column.cause,
        trigger: column.trigger,
        finding,
        generation: column.generation,
        name: finding === null ? `${column.protocol === "consumer" ? "epoch" : "generation"} ${column.generation ?? "?"}` : rebalanceName(finding),
      };
    });
}

/** Rounds of one rebalance, such as a cooperative one: [{rounds: [number], from, until, cause, text}]. */
export function familiesOf(rounds) {
  const families = [];
  const byGeneration = new Map();
  rounds.forEach((round, number) => {
    const parent = round.finding?.parent ?? null;
    const family = parent === null ? undefined : byGeneration.get(parent);
    if (family) {
      family.rounds.push(number);
      family.until = round.until ?? family.until;
      if (round.generation !== null) byGeneration.set(round.generation, family);
    } else {
      const made = { rounds: [number], from: round.from, until: round.until, cause: round.cause };
      families.push(made);
      if (round.generation !== null) byGeneration.set(round.generation, made);
    }
  });
  return families;
}

/**
 * Numbers of members and rebalances as text. Also the number of rows, since a restarted process continues in its
 * row, and the number of rounds, since a cooperative rebalance has two.
 * @returns {{members: string, rebalances: string}}
 */
export function countsIn(timeline, rebalances) {
  const [members, rows] = [timeline.lanes.length, rowsOfLanes(timeline).length];
  const rounds = roundsOf(timeline, rebalances);
  const families = familiesOf(rounds).length;
  return {
    members: `${count(members, "member")}${rows < members ? ` in ${count(rows, "row")}` : ""}`,
    rebalances: `${count(families, "rebalance")}${families < rounds.length ? ` in ${count(rounds.length, "round")}` : ""}`,
  };
}

/** Members that delayed a rebalance: [{row, from, until, text, round}]. */
export function blockersOf(rounds, rowAt) {
  const found = [];
  rounds.forEach((round, number) => {
    const blocker = round.finding?.blocker;
    const row = blocker ? rowAt(blocker.member) : undefined;
    if (row === undefined || blocker.waited_ms < 1000) return;
    const phases = round.finding.phases_ms;
    const waitedUntil = round.from + (phases.join ?? (phases.target ?? 0) + (phases.revoke ?? blocker.waited_ms));
    found.push({
      row,
      round: number,
      from: waitedUntil - blocker.waited_ms,
      until: waitedUntil,
      text: duration(blocker.waited_ms),
      say: `all waited ${duration(blocker.waited_ms)} for it${blocker.because ? ` (${plain(blocker.because)})` : ""}`,
    });
  });
  return found;
}

/** Phases of a round in order: [{name, from, until}]; the phase `resume` follows the end of the round. */
export function phasesOf(round) {
  let at = round.from;
  return Object.entries(round.finding?.phases_ms ?? {}).map(([name, ms]) => {
    const phase = { name, from: at, until: at + ms };
    at += ms;
    return phase;
  });
}
