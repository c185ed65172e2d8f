/** The layout of the timeline, without a browser: node --test tests/browser/layout/ */
import assert from "node:assert/strict";
import { test } from "node:test";
import { boardOf } from "../../../src/kohort/console/static/timeline/before-after.js";
import { cutAt, gapsOf, givePlaces, ownedSpans, rowsOfLanes } from "../../../src/kohort/console/static/timeline/lanes.js";
import { layOut, sayOfSpan } from "../../../src/kohort/console/static/timeline/layout.js";
import { moveOf } from "../../../src/kohort/console/static/timeline/keys.js";
import { elasticScale, linearScale, placeOf, ticksOf, tickWords, timeAt } from "../../../src/kohort/console/static/timeline/scale.js";
import { KEPT, MOVED, NOBODY, OWNED, SILENT, SOME, TAIL } from "../../../src/kohort/console/static/timeline/styles.js";
import { countsIn } from "../../../src/kohort/console/static/timeline/rounds.js";
import { tableRows } from "../../../src/kohort/console/static/timeline/table-rows.js";
import { around, panned, placeRows, rowsWithin, windowOn, zoomed } from "../../../src/kohort/console/static/timeline/view.js";

const member = (name, more = {}) => ({ member_id: `${name}-id`, client_id: name, host: "/h", instance_id: null, ...more });
const spell = (from_ms, until_ms, ...partitions) => ({ from_ms, until_ms, partitions });
const lane = (of, assignments, marks = []) => ({ member: of, assignments, marks });
const column = (from_ms, until_ms, generation, more = {}) => ({
  from_ms, until_ms, generation, protocol: "classic", cause: "NEW_MEMBER", trigger: null, took_ms: 100, rebalance: `g/${generation}`, ...more,
});
const finding = (generation, more = {}) => ({
  id: `g/${generation}`, group: "g", protocol: "classic", generation, from_generation: generation - 1, parent: null, end: "stable",
  took_ms: 100, cause: "NEW_MEMBER", sentence: "", blocker: null, phases_ms: {}, moves: [], departures: {}, ...more,
});
const timeline = (columns, lanes, until_ms = 1000) => ({ group: "g", from_ms: 0, until_ms, columns, lanes });
const spansOf = (model, row) => model.rows[row].spans.map(({ from, until, style, text }) => [from, until, style, text]);

const A = member("a");
const B = member("b");
const TWO = timeline(
  [column(0, 500, 1, { cause: "GROUP_FORMING" }), column(500, null, 2)],
  [lane(A, [spell(0, 600, "t-0", "t-1"), spell(600, null, "t-0")]), lane(B, [spell(600, null, "t-1")])],
);

test("kept partitions are KEPT, gained ones MOVED until the next rebalance, lost ones fade", () => {
  const model = layOut({ timeline: TWO });

  assert.deepEqual(spansOf(model, 0), [[0, 1000, KEPT, "0"], [0, 600, KEPT, "1"], [600, Infinity, TAIL, ""]]);
  assert.deepEqual(spansOf(model, 1), [[600, 1000, MOVED, "1"]]);
  const later = { ...TWO, columns: [...TWO.columns.slice(0, 1), column(500, 700, 2), column(700, null, 3)] };
  assert.deepEqual(spansOf(layOut({ timeline: later }), 1), [[600, 700, MOVED, "1"], [700, 1000, KEPT, ""]]);
});

test("a restarted process continues in its row after a break; parallel processes have separate rows", () => {
  const again = member("a", { member_id: "a-2" });
  const one = timeline([], [lane(A, [spell(0, 400, "t-0")]), lane(again, [spell(600, null, "t-0")])]);
  const both = timeline([], [lane(A, [spell(0, 700, "t-0")]), lane(again, [spell(600, null, "t-0")])]);

  assert.deepEqual(rowsOfLanes(one).map((row) => row.breaks), [[600]]);
  assert.deepEqual(rowsOfLanes(both).map((row) => row.breaks), [[], []]);
});

test("a partition keeps its place in a row, and spans do not overlap", () => {
  const owned = ownedSpans(lane(A, [spell(0, 10, "t-0", "t-1"), spell(10, 20, "t-1"), spell(20, null, "t-1", "t-2")]), 30);

  assert.equal(givePlaces(owned), 2);
  assert.deepEqual(owned.map(({ partition, from, until, place, open }) => [partition, from, until, place, open]), [
    ["t-0", 0, 10, 0, false], ["t-1", 0, 30, 1, true], ["t-2", 20, 30, 0, true],
  ]);
});

test("a time without owner is a gap, between two owners or reported by a move", () => {
  assert.deepEqual(gapsOf([{ from: 0, until: 10 }, { from: 30, until: 40 }], []), [{ from: 10, until: 30 }]);
  const moves = [{ unowned_since_ms: 25, unowned_ms: 10 }, { unowned_since_ms: null, unowned_ms: null }];
  assert.deepEqual(gapsOf([{ from: 0, until: 10 }, { from: 30, until: 40 }], moves), [{ from: 10, until: 35 }]);

  const gone = timeline([], [lane(A, [spell(0, 400, "t-0")]), lane(B, [spell(600, null, "t-0")])]);
  const model = layOut({ timeline: gone, mode: "partitions" });
  assert.deepEqual(spansOf(model, 0), [[0, 400, OWNED, "a"], [600, 1000, OWNED, "b"], [400, 600, NOBODY, "0.2 s"]]);
});

test("many partitions are shown as a number, and the darkest row has the most", () => {
  const many = Array.from({ length: 100 }, (_, n) => `t-${n}`);
  const model = layOut({ timeline: timeline([], [lane(A, [spell(0, null, ...many)]), lane(B, [spell(0, null, "t-1")]), lane(member("c"), [spell(0, null)])]) });

  assert.equal(model.chips, false);
  assert.deepEqual(model.rows.map((row) => [row.spans[0].style, row.spans[0].text]), [[SOME + 4, "100"], [SOME + 1, "1"], [SOME, "0"]]);
});

test("the rounds of a cooperative rebalance are one family", () => {
  const columns = [column(0, 200, 1), column(200, 500, 2, { cause: "COOPERATIVE_FOLLOWUP" }), column(500, null, 3)];
  const model = layOut({ timeline: timeline(columns, TWO.lanes), rebalances: [finding(1), finding(2, { parent: 1 }), finding(3)] });

  assert.deepEqual(model.families.map(({ rounds, from, until }) => [rounds, from, until]), [[[0, 1], 0, 300], [[2], 500, 600]]);
});

test("the blocker of a rebalance has a bracket from its join phase to its end", () => {
  const classic = finding(2, { took_ms: 9000, phases_ms: { join: 9000 }, blocker: { member: B, waited_ms: 8100, because: "busy" } });
  const modern = { ...classic, phases_ms: { target: 500, revoke: 8000, give: 100 } };
  const blockers = (one) => layOut({ timeline: TWO, rebalances: [one] }).blockers.map(({ row, from, until, text }) => [row, from, until, text]);

  assert.deepEqual(blockers(classic), [[1, 500 + 900, 500 + 9000, "8.1 s"]]);
  assert.deepEqual(blockers(modern), [[1, 500 + 400, 500 + 8500, "8.1 s"]]);
});

test("each event has its sign: a removed member has that of the reason, also in the round of another member", () => {
  const went = (kind, how) => ({ at_ms: 600, kind, how, text: `${how}, in words` });
  const kinds = (mark) =>
    layOut({ timeline: timeline(TWO.columns, [lane(A, [spell(0, 600, "t-0")], [mark]), lane(B, [spell(600, null, "t-1")])]) }).glyphs.map(({ row, kind, say }) => [row, kind, say]);

  assert.deepEqual(kinds(went("left", "left")), [[0, "left", "left, in words"], [1, "joined", "joined"]]);
  assert.deepEqual(kinds(went("removed", "max_poll_exceeded"))[0], [0, "poll", "max_poll_exceeded, in words"]);
  assert.deepEqual(kinds(went("removed", "session_expired"))[0].slice(1, 2), ["expired"]);
  assert.deepEqual(kinds(went("removed", "join_timeout"))[0].slice(1, 2), ["removed"]);
  assert.deepEqual(kinds({ at_ms: 600, kind: "fenced", how: null, text: "Heartbeat: X" })[0].slice(1), ["fenced", "refused: Heartbeat: X"]);
});

test("partitions of a silent member are drawn as silent in every view", () => {
  const silent = { ...lane(A, [spell(0, 600, "t-0")]), silences: [{ from_ms: 450, until_ms: 600, text: "put out: silent" }] };
  const model = layOut({ timeline: timeline(TWO.columns, [silent]) });
  assert.deepEqual(spansOf(model, 0), [[0, 450, KEPT, "0"], [450, 600, SILENT, ""], [600, Infinity, TAIL, ""]]);
  assert.equal(sayOfSpan(model.rows[0], model.rows[0].spans[1]), "a-id had t-0, put out: silent");
  assert.equal(model.silent, true);

  const rows = layOut({ timeline: timeline(TWO.columns, [silent]), mode: "partitions" });
  assert.deepEqual(spansOf(rows, 0), [[0, 450, OWNED, "a"], [450, 600, SILENT, "a, silent"]]);

  const many = { ...silent, assignments: [spell(0, 600, ...Array.from({ length: 100 }, (_, n) => `t-${n}`))] };
  assert.deepEqual(spansOf(layOut({ timeline: timeline([], [many]) }), 0), [[0, 450, SOME + 4, "100"], [450, 600, SILENT, "100 silent"]]);
});

test("an absent static member is silent to the end of the drawing", () => {
  const away = { ...lane(A, [spell(0, null, "t-0")]), silences: [{ from_ms: 700, until_ms: null, text: "away" }] };
  assert.deepEqual(spansOf(layOut({ timeline: timeline([], [away]) }), 0), [[0, 700, KEPT, "0"], [700, 1000, SILENT, ""]]);
  assert.deepEqual(cutAt(0, 10, []), [{ from: 0, until: 10, silence: null }]);
});

test("texts count members and their rows, rebalances and their rounds", () => {
  const again = member("a", { member_id: "a-2" });
  const columns = [column(0, 200, 1), column(200, 500, 2), column(500, null, 3)];
  const twice = timeline(columns, [lane(A, [spell(0, 400, "t-0")]), lane(again, [spell(600, null, "t-0")]), lane(B, [spell(0, null, "t-1")])]);

  assert.deepEqual(countsIn(twice, [finding(1), finding(2, { parent: 1 }), finding(3)]), { members: "3 members in 2 rows", rebalances: "2 rebalances in 3 rounds" });
  assert.deepEqual(countsIn(TWO, [finding(1), finding(2)]), { members: "2 members", rebalances: "2 rebalances" });
});

test("invisible characters in names from the cluster are shown as codes", () => {
  const model = layOut({ timeline: timeline([], [lane(member("evil\u202e\u001b"), [spell(0, null, "t-0")])]) });

  assert.equal(model.rows[0].label, "evil⟨U+202E⟩⟨U+001B⟩");
});

test("a scale grows with time and converts back; a rebalance of a second is visible among hours", () => {
  for (const scale of [linearScale(0, 7_200_000), elasticScale(0, 7_200_000, [{ from: 3_600_000, until: 3_601_000 }, { from: 3_602_000, until: 3_602_000 }])]) {
    let last = -1;
    for (let ms = 0; ms <= 7_200_000; ms += 9000) {
      const place = placeOf(scale, ms);
      assert.ok(place > last);
      assert.ok(Math.abs(timeAt(scale, place) - ms) < 1);
      last = place;
    }
  }
  const elastic = elasticScale(0, 7_200_000, [{ from: 3_600_000, until: 3_601_000 }]);
  assert.ok(placeOf(elastic, 3_601_000) - placeOf(elastic, 3_600_000) > 0.1);
  assert.deepEqual(elasticScale(0, 1000, []).times, [0, 1000]);
});

test("ticks keep their minimum distance, at round times", () => {
  const view = windowOn(linearScale(0, 600_000), 0, 1, 1000);
  const ticks = ticksOf(view, 90);

  assert.ok(ticks.length >= 5);
  ticks.slice(1).forEach((tick, i) => assert.ok(tick.x - ticks[i].x >= 90));
  ticks.forEach((tick) => assert.equal(tick.ms % tick.step, 0));
  assert.match(tickWords({ ms: 30_000, step: 1000 }), /:30$/);
});

test("zooming keeps the place under the pointer; zooming and panning stay within the scale", () => {
  const near = zoomed({ begin: 0, end: 1 }, 4, 0.5);
  assert.deepEqual(near, { begin: 0.375, end: 0.625 });
  assert.deepEqual(zoomed(near, 0.01, 0.5), { begin: 0, end: 1 });
  assert.deepEqual(panned(near, -9), { begin: 0, end: 0.25 });
  assert.deepEqual(panned(near, 9), { begin: 0.75, end: 1 });
  assert.ok(around(0.9, 1).end <= 1);
});

test("rows are found by height, and `fit` limits their total height", () => {
  const lanes = Array.from({ length: 200 }, (_, n) => lane(member(`m${n}`), [spell(0, null, ...Array.from({ length: 20 }, (_, p) => `t-${n * 20 + p}`))]));
  const model = layOut({ timeline: timeline([], lanes) });
  const placed = placeRows(model);

  assert.deepEqual(rowsWithin(placed, placed.tops[7], placed.tops[9]), [7, 9]);
  assert.ok(placed.total > 2000);
  assert.ok(Math.abs(placeRows(model, 560).total - 560) < 1);
  assert.deepEqual(rowsWithin({ tops: [], heights: [] }, 0, 10), [0, -1]);
});

test("the table shows owned, gained and lost partitions of each member", () => {
  const rows = tableRows(TWO).map((row) => [row.column.generation, row.member.client_id, row.owned, row.gained, row.lost]);

  assert.deepEqual(rows, [[1, "a", ["t-0", "t-1"], ["t-0", "t-1"], []], [2, "a", ["t-0"], [], ["t-1"]], [2, "b", ["t-1"], ["t-1"], []]]);
});

test("the board puts each partition where the prediction moves it", () => {
  const group = { members: [{ member: A, partitions: ["t-0", "t-1"] }, { member: B, partitions: ["t-2"] }] };
  const load = (member_id, before, after) => ({ member_id, client_id: "", instance_id: null, partitions_before: before, partitions_after: after });
  const prediction = {
    loads: [load("new-1", null, 2), load("a-id", 2, 1), load("b-id", 1, null)],
    moves: [{ topic: "t", partition: 1, from: "a-id", to: "new-1" }, { topic: "t", partition: 2, from: "b-id", to: "new-1" }],
  };
  const { rows } = boardOf(group, prediction);
  const names = (chips) => chips && chips.map((one) => `${one.name}${one.moved ? `!${one.other}` : ""}`);

  assert.deepEqual(rows.map((row) => [row.id, names(row.before), names(row.after)]), [
    ["a-id", ["t-0", "t-1!new-1"], ["t-0"]],
    ["b-id", ["t-2!new-1"], null],
    ["new-1", null, ["t-1!a-id", "t-2!b-id"]],
  ]);
});

test("keys step, pan, zoom and open; keys of the browser are ignored", () => {
  assert.deepEqual(moveOf({ key: "ArrowRight" }), { round: 1 });
  assert.deepEqual(moveOf({ key: "ArrowLeft", shiftKey: true }), { pan: -0.2 });
  assert.deepEqual(moveOf({ key: "Enter" }), { open: true });
  assert.equal(moveOf({ key: "ArrowLeft", altKey: true }), null);
  assert.equal(moveOf({ key: "x" }), null);
});
