/** Records around a group's committed offset; records of a topic from an offset on, or its last records. */
import { html } from "../parts/html.js";
import { Copy } from "../parts/copy.js";
import { Answer } from "../parts/failure.js";
import { number } from "../parts/format.js";
import { useJson } from "../parts/json.js";
import { choose, pathOf, usePlace } from "../parts/router.js";
import { Table } from "../parts/table.js";
import { Text, Time } from "../parts/text.js";
import { shellWord, visible } from "../parts/words.js";

const AROUND = 5;
const MANY = 20;
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

/**
 * Last records of a topic, or its records from the offset in the address on.
 * @param {{topic: string, place: string}} props `place`: TOPIC-PARTITION
 */
export function PeekTopic({ topic, place }) {
  const { params } = usePlace();
  const partition = Number(place.slice(place.lastIndexOf("-") + 1));
  const offset = params.offset ?? null;
  const asked = useJson(pathOf("topics", topic, "peek"), { partition, count: MANY, offset });
  const first = asked.body?.records[0]?.offset ?? null;
  const last = asked.body?.records.at(-1)?.offset ?? null;
  const to = (at) => choose({ offset: at === null ? null : Math.max(0, at) });
  return html`<section class="panel peek" aria-label=${`records of ${visible(place)}`}><div class="heading"><h2>Records of ${visible(place)}</h2>
      <div class="heading-tools"><label>from offset <input type="number" min="0" size="12" value=${offset ?? ""} placeholder="the last" onChange=${(event) => choose({ offset: event.target.value })} /></label>
        <button type="button" class="small" disabled=${first === null || first <= asked.body.log_start_offset} onClick=${() => to(first - MANY)}>earlier</button>
        <button type="button" class="small" disabled=${last === null || last + 1 >= asked.body.log_end_offset} onClick=${() => to(last + 1)}>later</button>
        <button type="button" class="small" disabled=${offset === null} onClick=${() => to(null)}>the last</button>
        <${Copy} label="Copy as command" text=${() => `kohort consume ${shellWord(topic)} --partition ${partition}${first === null ? "" : ` --offset ${first}`} --max ${MANY}`} />
        <button type="button" class="small" onClick=${() => choose({ peek: null, offset: null })}>close</button></div></div>
    <${Answer} of=${asked}>${(body) => html`<${Peeked} body=${body} ofGroup=${false} />`}<//></section>`;
}

function Peeked({ body, ofGroup = true }) {
  const where = ofGroup ? `Committed: ${number(body.committed)}. ` : "";
  return html`<p class="soft">${where}The log reaches from ${number(body.log_start_offset)} to ${number(body.log_end_offset)}.</p>
    <${Table} caption="Records" columns=${ofGroup ? COLUMNS : COLUMNS.slice(1)} rows=${body.records} keyOf=${(record) => String(record.offset)} rowClass=${(record) => (ofGroup && record.read === "next" ? "next" : "")} sortParam="records" empty="No records." />`;
}

const COLUMNS = [
  { key: "read", title: "Read?", cell: (record) => html`<span class="chip">${READ[record.read] ?? visible(record.read)}</span>` },
  { key: "offset", title: "Offset", kind: "number", head: true, cell: (record) => number(record.offset) },
  { key: "at", title: "Written", cell: (record) => html`<${Time} ms=${record.timestamp_ms} why="the record has no time" />` },
  { key: "key", title: "Key", cell: (record) => html`<${Bytes} value=${record.key} />` },
  { key: "value", title: "Value", width: "wide", cell: (record) => html`<${Bytes} value=${record.value} />` },
  { key: "headers", title: "Headers", cell: (record) => record.headers.map((one) => html`<div><b><${Text} value=${one.name} limit=${40} /></b>: <${Bytes} value=${one.value} /></div>`) },
];

/** Text of a key or value; bytes that are not UTF-8 as base64, with a label. */
function Bytes({ value }) {
  if (value === null) return html`<span class="soft">null</span>`;
  if (typeof value === "string") return html`<code><${Text} value=${value} limit=${160} /></code>`;
  return html`<span class="chip">base64</span> <code><${Text} value=${value.base64} limit=${120} /></code>`;
}
