/** Tables of a prediction: outcome, load of each member, moved partitions, comparison of assignors. */
import { html } from "../parts/html.js";
import { number } from "../parts/format.js";
import { Table } from "../parts/table.js";
import { Known, Member, Records, Text } from "../parts/text.js";
import { visible } from "../parts/words.js";

/** Format a range of seconds: "0.5 to 3 s". */
function seconds(from, to) {
  const digits = (value) => (value < 10 ? value.toFixed(1) : number(value));
  return from === to ? `${digits(from)} s` : `${digits(from)} to ${digits(to)} s`;
}

export function Loads({ found }) {
  const idle = new Set(found.idle);
  const columns = [
    { key: "member", title: "Member", head: true, value: (one) => one.member_id, cell: (one) => html`<${Member} member=${one} />${idle.has(one.member_id) ? html` <span class="chip">idle</span>` : ""}` },
    { key: "before", title: "Partitions before", kind: "number", value: (one) => one.partitions_before, cell: (one) => html`<${Known} value=${one.partitions_before} why="not a member then" />` },
    { key: "after", title: "after", kind: "number", value: (one) => one.partitions_after, cell: (one) => html`<${Known} value=${one.partitions_after} why="not a member then" />` },
    { key: "change", title: "Change", kind: "number", value: changeOf, cell: (one) => signed(changeOf(one)) },
    { key: "lagb", title: "Lag before", kind: "number", value: (one) => one.lag_before, cell: (one) => html`<${Records} value=${one.lag_before} />` },
    { key: "laga", title: "after", kind: "number", value: (one) => one.lag_after, cell: (one) => html`<${Records} value=${one.lag_after} />` },
  ];
  return html`<section><h3>Partitions of each member</h3><${Table} caption="Loads of members" columns=${columns} rows=${found.loads} keyOf=${(one) => one.member_id} sortParam="loads" /></section>`;
}

function changeOf(one) {
  return (one.partitions_after ?? 0) - (one.partitions_before ?? 0);
}

function signed(value) {
  return value > 0 ? `+${value}` : value < 0 ? `−${-value}` : "0";
}

export function Moves({ found, status }) {
  const known = new Map([...status.members.map((one) => one.member), ...found.loads].map((member) => [member.member_id, member]));
  const memberCell = (id) => html`<${Member} member=${id === null ? null : (known.get(id) ?? { member_id: id })} />`;
  const columns = [
    { key: "place", title: "Partition", head: true, value: (move) => `${move.topic}-${move.partition}`, cell: (move) => html`<${Text} value=${`${move.topic}-${move.partition}`} limit=${60} />` },
    { key: "from", title: "From", value: (move) => move.from, cell: (move) => memberCell(move.from) },
    { key: "to", title: "To", value: (move) => move.to, cell: (move) => memberCell(move.to) },
  ];
  return html`<details open=${found.moves.length <= 20}><summary>Moves: ${found.moves.length}</summary><${Table} caption="Partitions that would move" columns=${columns} rows=${found.moves} keyOf=${(move) => `${move.topic}-${move.partition}`} sortParam="moves" empty="No partition would move." /></details>`;
}

/** Predictions of the same change with every assignor. */
export function Compared({ rows, now }) {
  if (!rows?.length) return null;
  const columns = [
    { key: "name", title: "Assignor", head: true, value: (row) => row.assignor, cell: (row) => html`${visible(row.assignor)}${row.assignor === now.assignor && row.protocol === now.protocol ? html` <span class="chip">this one</span>` : ""}` },
    { key: "protocol", title: "Protocol", value: (row) => row.protocol, cell: (row) => visible(row.protocol) },
    { key: "rounds", title: "Rounds", kind: "number", value: (row) => row.rounds, cell: (row) => row.rounds },
    { key: "moved", title: "Moved", kind: "number", value: (row) => row.moved, cell: (row) => row.moved },
    { key: "all", title: "On the way", kind: "number", value: (row) => row.moved_in_all, cell: (row) => row.moved_in_all },
    { key: "pause", title: "Pause (partition-s)", kind: "number", value: (row) => row.pause_to_s, cell: (row) => seconds(row.pause_from_s, row.pause_to_s) },
    { key: "idle", title: "Idle", kind: "number", value: (row) => row.idle, cell: (row) => row.idle },
    { key: "spread", title: "Most / least", kind: "number", value: (row) => row.most_partitions - row.least_partitions, cell: (row) => `${row.most_partitions} / ${row.least_partitions}` },
  ];
  return html`<section><h3>With every assignor</h3><${Table} caption="Assignors compared" columns=${columns} rows=${rows} keyOf=${(row) => `${row.protocol} ${row.assignor}`} sortParam="compare" /></section>`;
}
