/** Tables of one rebalance: moved partitions, members before and after, partitions to revoke. */
import { html } from "../parts/html.js";
import { count, duration, number } from "../parts/format.js";
import { Table } from "../parts/table.js";
import { Ago, Known, Member, Text } from "../parts/text.js";
import { plain, visible } from "../parts/words.js";

/** Members of a rebalance as a map: member id to member. */
function membersById(one) {
  return new Map([...one.members_before, ...one.members, ...one.standing.map((each) => each.member)].map((member) => [member.member_id, member]));
}

export function MovesTable({ one }) {
  const known = membersById(one);
  const memberCell = (id) => (id === null ? html`<span class="soft">no owner</span>` : html`<${Member} member=${known.get(id) ?? { member_id: id }} />`);
  const columns = [
    { key: "place", title: "Partition", head: true, value: (move) => `${move.topic}-${move.partition}`, cell: (move) => html`<${Text} value=${`${move.topic}-${move.partition}`} limit=${60} />` },
    { key: "from", title: "From", value: (move) => move.from, cell: (move) => memberCell(move.from) },
    { key: "to", title: "To", value: (move) => move.to, cell: (move) => memberCell(move.to) },
    { key: "gap", title: "Without owner", kind: "number", value: (move) => move.unowned_ms, cell: (move) => html`<${Known} value=${move.unowned_ms} why="the first fetch of the new owner is unknown" as=${duration} />` },
    { key: "before", title: "Lag before", kind: "number", value: (move) => move.lag_before, cell: (move) => html`<${Known} value=${move.lag_before} why="no sample at that time" />` },
    { key: "after", title: "Lag after", kind: "number", value: (move) => move.lag_after, cell: (move) => html`<${Known} value=${move.lag_after} why="no sample at that time" />` },
    { key: "again", title: "Read again", kind: "number", help: "an estimate, from a late commit", value: (move) => move.redelivered, cell: (move) => html`<${Known} value=${move.redelivered} why="the position of the old owner is unknown" as=${number} />` },
  ];
  const total = one.unowned_partition_ms === null ? "" : `; together ${duration(one.unowned_partition_ms)} without an owner`;
  return html`<section><h3>Moved partitions</h3><p class="soft">${count(one.moves.length, "partition")} changed hands${total}.</p>
    <${Table} caption="Moved partitions" columns=${columns} rows=${one.moves} keyOf=${(move) => `${move.topic}-${move.partition}`} sortParam="moves" empty="No partition moved." /></section>`;
}

/** Members of a classic group before and after a rebalance, with the partitions that each gained and lost. */
export function MemberChanges({ one }) {
  const before = new Set(one.members_before.map((member) => member.member_id));
  const after = new Set(one.members.map((member) => member.member_id));
  const rows = [...membersById(one).values()].map((member) => ({
    member,
    was: before.has(member.member_id),
    is: after.has(member.member_id),
    how: one.departures[member.member_id],
    won: one.moves.filter((move) => move.to === member.member_id).length,
    lost: one.moves.filter((move) => move.from === member.member_id).length,
  }));
  const columns = [
    { key: "member", title: "Member", head: true, value: (row) => row.member.member_id, cell: (row) => html`<${Member} member=${row.member} />${row.member.member_id === one.leader ? html` <span class="chip">leader</span>` : ""}` },
    { key: "what", title: "Before → after", value: (row) => changeOf(row), cell: (row) => changeOf(row) },
    { key: "host", title: "Host", value: (row) => row.member.host, cell: (row) => html`<${Text} value=${row.member.host} limit=${40} />` },
    { key: "won", title: "Won", kind: "number", value: (row) => row.won, cell: (row) => (row.won ? `+${row.won}` : "0") },
    { key: "lost", title: "Lost", kind: "number", value: (row) => row.lost, cell: (row) => (row.lost ? `−${row.lost}` : "0") },
  ];
  return html`<section><h3>Members</h3><${Table} caption="Members before and after" columns=${columns} rows=${rows} keyOf=${(row) => row.member.member_id} sortParam="member" empty="The group has no members." /></section>`;
}

function changeOf(row) {
  if (row.was && row.is) return "stayed";
  if (row.is) return "came";
  return row.how ? `went: ${visible(plain(row.how))}` : "went";
}

/** Members of a consumer group (KIP-848): assignment, target assignment, and members whose partitions they await. */
export function Standings({ standing, title = "Partitions to revoke" }) {
  const names = new Map(standing.map((each) => [each.member.member_id, each.member]));
  const late = standing.filter((each) => each.to_revoke.length || each.still_to_get.length);
  const columns = [
    { key: "member", title: "Member", head: true, value: (row) => row.member.member_id, cell: (row) => html`<${Member} member=${row.member} />` },
    { key: "state", title: "State", value: (row) => row.state, cell: (row) => visible(plain(row.state)) },
    { key: "epoch", title: "Epoch", kind: "number", value: (row) => row.epoch, cell: (row) => html`<${Known} value=${row.epoch} as=${String} />` },
    { key: "assignment", title: "Assignment", kind: "number", value: (row) => row.assignment.length, cell: (row) => html`<${Places} of=${row.assignment} />${row.known ? "" : " or more"}` },
    { key: "target", title: "Target", kind: "number", value: (row) => row.target?.length, cell: (row) => (row.target === null ? html`<${Known} value=${null} why="the target assignment is unknown" />` : html`<${Places} of=${row.target} />`) },
    { key: "revoke", title: "To revoke", value: (row) => row.to_revoke.length, cell: (row) => html`<${Places} of=${row.to_revoke} />${row.to_revoke.length > 0 && row.to_revoke_since_ms ? html`<div class="under">requested <${Ago} ms=${row.to_revoke_since_ms} /></div>` : ""}` },
    { key: "get", title: "Still to get", value: (row) => row.still_to_get.length, cell: (row) => html`<${Places} of=${row.still_to_get} /><${Awaited} from=${row.awaited_from} names=${names} />` },
  ];
  const sentence = late.length ? `${count(late.length, "member")} of ${standing.length} not at the target yet.` : "All members are at the target.";
  return html`<section><h3>${title}</h3><p>${sentence}</p>
    <${Table} caption="Members against the target" columns=${columns} rows=${standing} keyOf=${(row) => row.member.member_id} order="revoke.down" sortParam="standing" empty="The group has no members." /></section>`;
}

function Awaited({ from, names }) {
  const owners = [...new Set(Object.values(from ?? {}))];
  if (!owners.length) return null;
  return html`<div class="under">from ${owners.slice(0, 4).map((id) => html`<${Member} member=${names.get(id) ?? { member_id: id }} /> `)}</div>`;
}

const FEW = 3;

/** Names of partitions; many partitions are shown as a number that opens the list. */
export function Places({ of }) {
  if (!of?.length) return "0";
  if (of.length <= FEW) return html`<${Text} value=${of.join(", ")} limit=${80} />`;
  return html`<details class="places"><summary>${number(of.length)}</summary><${Text} value=${of.join(", ")} limit=${2000} /></details>`;
}
