/** Assignments over time, as a drawing and as tables. */
import { useState } from "preact/hooks";
import { html } from "../parts/html.js";
import { Cause } from "../parts/cause.js";
import { Answer } from "../parts/failure.js";
import { duration } from "../parts/format.js";
import { Heading } from "../parts/heading.js";
import { useJson } from "../parts/json.js";
import { choose, go, pathOf, usePlace } from "../parts/router.js";
import { Table } from "../parts/table.js";
import { Link, Member, Text, Time } from "../parts/text.js";
import { useSpan } from "../parts/timebar.js";
import { plain, rebalanceKey, shellWord, visible } from "../parts/words.js";
import { countsIn } from "../timeline/rounds.js";
import { Timeline } from "../timeline/timeline.js";
import { Places } from "./rebalance-tables.js";

/** @param {{group: string}} props */
export function TimelineView({ group }) {
  const span = useSpan();
  const timeline = useJson(pathOf("groups", group, "timeline"), span, { on: ["entries"] });
  const rebalances = useJson(pathOf("groups", group, "rebalances"), span, { on: ["entries"] });
  const events = useJson(pathOf("groups", group, "events"), span, { on: ["entries"] });
  return html`<${Answer} past of=${timeline}>${(body) => html`<${Drawn} timeline=${body.timeline} rebalances=${rebalances.body?.rebalances ?? NONE} events=${events.body?.events ?? NONE} group=${group} />`}<//>`;
}

const NONE = [];

function Drawn({ timeline, rebalances, events, group }) {
  const { params } = usePlace();
  const [tables, setTables] = useState(false);
  const selected = rebalances.find((one) => rebalanceKey(one) === params.gen)?.id ?? null;
  const counted = countsIn(timeline, rebalances);
  const sentence = `${counted.members}, ${counted.rebalances} in this span.`;
  return html`<${Heading} level=${2} title="Assignments over time" sentence=${sentence} command=${`kohort group timeline ${shellWord(group)}`} markdown=${() => asMarkdown(timeline)} />
    <${Timeline} timeline=${timeline} rebalances=${rebalances} events=${events} selected=${selected} onSelect=${(id) => open(group, rebalances, id)}
      mode=${params.rows ?? "members"} onMode=${(rows) => choose({ rows: rows === "members" ? null : rows })} range=${rangeOf(params.zoom)} onRange=${keepRange} />
    <details open=${tables} onToggle=${(event) => setTables(event.target.open)}><summary>The same in tables</summary>${tables && html`<${TimelineTables} timeline=${timeline} group=${group} rebalances=${rebalances} />`}</details>`;
}

/** Open a rebalance; the browser's Back button returns to the timeline with this rebalance selected. */
function open(group, rebalances, id) {
  const one = rebalances.find((each) => each.id === id);
  if (!one) return;
  choose({ gen: rebalanceKey(one) });
  go(pathOf("groups", group, "rebalances", rebalanceKey(one)));
}

/** Enlarged time range of the drawing: "FROM-UNTIL" in the address. */
function rangeOf(zoom) {
  const [from, until] = (zoom ?? "").split("-").map(Number);
  return from && until > from ? { from_ms: from, until_ms: until } : null;
}

let keepTimer = null;

/** Pause between two changes of the address: browsers limit their number per second. */
function keepRange(range) {
  clearTimeout(keepTimer);
  keepTimer = setTimeout(() => choose({ zoom: range ? `${range.from_ms}-${range.until_ms}` : null }), 300);
}

/** The drawing's content as tables. */
function TimelineTables({ timeline, group, rebalances }) {
  const assignments = timeline.lanes.flatMap((lane) => lane.assignments.map((spell, i) => ({ member: lane.member, key: `${lane.member.member_id} ${i} ${spell.from_ms}`, ...spell })));
  const marks = timeline.lanes.flatMap((lane) => lane.marks.map((mark, i) => ({ member: lane.member, key: `${lane.member.member_id} ${i} ${mark.at_ms}`, ...mark })));
  const silences = timeline.lanes.flatMap((lane) => (lane.silences ?? []).map((one) => ({ member: lane.member, key: `${lane.member.member_id} ${one.from_ms}`, ...one })));
  return html`<h3>Rebalances</h3><${ColumnsTable} columns=${timeline.columns} group=${group} rebalances=${rebalances} />
    <h3>Members</h3><${AssignmentsTable} assignments=${assignments} end=${timeline.until_ms} />
    ${silences.length > 0 && html`<h3>Silent or away</h3><${SilencesTable} silences=${silences} end=${timeline.until_ms} />`}
    ${marks.length > 0 && html`<h3>Events of members</h3><${MarksTable} marks=${marks} />`}`;
}

function ColumnsTable({ columns, group, rebalances }) {
  const keyOf = new Map(rebalances.map((one) => [one.id, rebalanceKey(one)]));
  const titles = [
    { key: "from", title: "From", value: (row) => row.from_ms, cell: (row) => html`<${Time} ms=${row.from_ms} />` },
    { key: "gen", title: "Generation", head: true, value: (row) => row.generation, cell: (row) => (keyOf.has(row.rebalance) ? html`<${Link} to=${pathOf("groups", group, "rebalances", keyOf.get(row.rebalance))}>${row.generation ?? "none"}<//>` : (row.generation ?? "before")) },
    { key: "cause", title: "Cause", value: (row) => row.cause, cell: (row) => row.cause && html`<${Cause} code=${row.cause} />` },
    { key: "member", title: "Member", cell: (row) => row.trigger && html`<${Member} member=${row.trigger} />` },
    { key: "took", title: "Took", kind: "number", value: (row) => row.took_ms, cell: (row) => (row.took_ms === null ? "" : duration(row.took_ms)) },
  ];
  return html`<${Table} caption="Rebalances of this span" columns=${titles} rows=${columns} keyOf=${(row) => `${row.from_ms} ${row.rebalance}`} sortParam="columns" />`;
}

function AssignmentsTable({ assignments, end }) {
  const titles = [
    { key: "member", title: "Member", head: true, value: (row) => row.member.member_id, cell: (row) => html`<${Member} member=${row.member} />` },
    { key: "from", title: "From", value: (row) => row.from_ms, cell: (row) => html`<${Time} ms=${row.from_ms} />` },
    { key: "until", title: "Until", value: (row) => row.until_ms ?? end, cell: (row) => (row.until_ms === null ? "still" : html`<${Time} ms=${row.until_ms} />`) },
    { key: "long", title: "For", kind: "number", value: (row) => (row.until_ms ?? end) - row.from_ms, cell: (row) => duration((row.until_ms ?? end) - row.from_ms) },
    { key: "partitions", title: "Partitions", kind: "number", value: (row) => row.partitions.length, cell: (row) => html`<${Places} of=${row.partitions} />` },
  ];
  return html`<${Table} caption="Assignments over time" columns=${titles} rows=${assignments} keyOf=${(row) => row.key} sortParam="assignments" />`;
}

function SilencesTable({ silences, end }) {
  const titles = [
    { key: "member", title: "Member", head: true, value: (row) => row.member.member_id, cell: (row) => html`<${Member} member=${row.member} />` },
    { key: "from", title: "Silent since", value: (row) => row.from_ms, cell: (row) => html`<${Time} ms=${row.from_ms} />` },
    { key: "long", title: "For", kind: "number", value: (row) => (row.until_ms ?? end) - row.from_ms, cell: (row) => `${duration((row.until_ms ?? end) - row.from_ms)}${row.until_ms === null ? " so far" : ""}` },
    { key: "text", title: "Description", cell: (row) => html`<${Text} value=${row.text} limit=${300} />` },
  ];
  return html`<${Table} caption="Silent or absent owners" columns=${titles} rows=${silences} keyOf=${(row) => row.key} sortParam="silences" />`;
}

function MarksTable({ marks }) {
  const titles = [
    { key: "at", title: "When", value: (row) => row.at_ms, cell: (row) => html`<${Time} ms=${row.at_ms} />` },
    { key: "member", title: "Member", head: true, value: (row) => row.member.member_id, cell: (row) => html`<${Member} member=${row.member} />` },
    { key: "kind", title: "What", value: (row) => row.kind, cell: (row) => visible(plain(row.kind)) },
    { key: "text", title: "Description", cell: (row) => html`<${Text} value=${row.text} limit=${300} />` },
  ];
  return html`<${Table} caption="Events of members" columns=${titles} rows=${marks} keyOf=${(row) => row.key} sortParam="marks" />`;
}

function asMarkdown(timeline) {
  const lines = timeline.columns.map((one) => `- ${new Date(one.from_ms).toISOString()} generation ${one.generation ?? "?"}: ${plain(one.cause ?? "before")}${one.took_ms === null ? "" : `, took ${duration(one.took_ms)}`}`);
  return [`### Timeline of ${visible(timeline.group)}`, "", ...lines].join("\n");
}
