/** Records around a group's committed offset. */
import { html } from "../parts/html.js";
import { Content } from "../parts/contents.js";
import { Copy } from "../parts/copy.js";
import { Answer } from "../parts/failure.js";
import { number } from "../parts/format.js";
import { useJson } from "../parts/json.js";
import { choose } from "../parts/router.js";
import { Table } from "../parts/table.js";
import { Text, Time } from "../parts/text.js";
import { visible } from "../parts/words.js";

const AROUND = 5;
const READ = { yes: "read", next: "next", no: "waits" };

/**
 * @param {{path: string, place: string, level?: 2|3, command?: (topic: string, partition: number) => string}} props
 *   `place`: TOPIC-PARTITION; `level`: heading level, below the heading of the view
 */
export function Peek({ path, place, level = 3, command }) {
  const dash = place.lastIndexOf("-");
  const topic = place.slice(0, dash);
  const partition = Number(place.slice(dash + 1));
  const asked = useJson(path, { topic, partition, before: AROUND, after: AROUND });
  return html`<section class="panel peek" aria-label=${`records of ${visible(place)}`}><div class="heading"><${`h${level}`}>Records of ${visible(place)}<//>
      <div class="heading-tools">${command && html`<${Copy} label="Copy as command" text=${() => command(topic, partition)} />`}<button type="button" class="small" onClick=${() => choose({ peek: null })}>close</button></div></div>
    <${Answer} of=${asked}>${(body) => html`<${Peeked} body=${body} />`}<//></section>`;
}

function Peeked({ body }) {
  return html`<p class="soft">Committed: ${number(body.committed)}. The log reaches from ${number(body.log_start_offset)} to ${number(body.log_end_offset)}.</p>
    <${Table} caption="Records" columns=${COLUMNS} rows=${body.records} keyOf=${(record) => String(record.offset)} rowClass=${(record) => (record.read === "next" ? "next" : "")} sortParam="records" empty="No records." />`;
}

const COLUMNS = [
  { key: "read", title: "Read?", cell: (record) => html`<span class="chip">${READ[record.read] ?? visible(record.read)}</span>` },
  { key: "offset", title: "Offset", kind: "number", head: true, cell: (record) => number(record.offset) },
  { key: "at", title: "Written", cell: (record) => html`<${Time} ms=${record.timestamp_ms} why="the record has no time" />` },
  { key: "key", title: "Key", cell: (record) => html`<${Content} value=${record.key} />` },
  { key: "value", title: "Value", width: "wide", cell: (record) => html`<${Content} value=${record.value} />` },
  { key: "headers", title: "Headers", cell: (record) => record.headers.map((one) => html`<div><b><${Text} value=${one.name} limit=${40} /></b>: <${Content} value=${one.value} /></div>`) },
];
