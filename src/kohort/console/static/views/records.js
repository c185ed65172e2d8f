/** Records of a topic: by offset, by time, and by a text in key, value or headers. A search reads a limited range. */
import { useLayoutEffect, useState } from "preact/hooks";
import { html } from "../parts/html.js";
import { Content, FORMATS } from "../parts/contents.js";
import { Answer } from "../parts/failure.js";
import { bytes, count, number, utc } from "../parts/format.js";
import { Heading } from "../parts/heading.js";
import { useJson } from "../parts/json.js";
import { choose, pathOf, usePlace } from "../parts/router.js";
import { Table } from "../parts/table.js";
import { Text, Time } from "../parts/text.js";
import { markdownTable, shellWord, visible } from "../parts/words.js";
import { Field } from "./what-if.js";

const PARTS = ["key", "value", "headers"];
const STARTS = [
  ["last", "the last records"],
  ["first", "the first record"],
  ["offset", "an offset"],
  ["time", "a time"],
];
/** Hint for the value of a start that needs one. */
const VALUES = { offset: "such as 1500", time: "such as 2026-11-20 08:00" };
const MOST_RANGES = 200;

/** @param {{body: any, topic: string}} props `body`: the topic */
export function RecordsView({ body, topic }) {
  const { params } = usePlace();
  const asked = useJson(pathOf("topics", topic, "records"), queryOf(params));
  return html`<${Heading} level=${2} title="Records" command=${commandOf(topic, params, asked.body)} markdown=${() => asMarkdown(topic, asked.body)}><${Choice} chosen=${params.show ?? "text"} /><//>
    <${Form} params=${params} partitions=${body.partitions.map((one) => one.partition)} />
    <${Answer} of=${asked}>${(found) => html`<${Found} found=${found} params=${params} />`}<//>`;
}

function queryOf({ partition, start, value, text, in: parts, ranges }) {
  const at = start === "time" ? Date.parse(value) : null;
  const starts = { offset: { offset: value }, time: { time: Number.isNaN(at) ? value : at }, first: { start: "first" } };
  return { partition, text, in: text ? parts : null, ranges, ...(ranges ? {} : starts[start]) };
}

/** Way to show keys and values. */
function Choice({ chosen }) {
  return html`<span role="group" aria-label="Show as">${FORMATS.map(([name, title]) => html`<button type="button" class="small" aria-pressed=${chosen === name} onClick=${() => choose({ show: name === "text" ? null : name })}>${title}</button> `)}</span>`;
}

/** What to search. The search begins, and stands in the address, when the form is sent; until then `draft` has the input. */
function Form({ params, partitions }) {
  const [draft, setDraft] = useState({});
  useLayoutEffect(() => setDraft({}), [params.text, params.value, params.partition, params.in]);
  const shown = { text: "", value: "", partition: "", in: PARTS.join(","), ...params, ...draft };
  const parts = shown.in.split(",");
  const start = params.start ?? "last";
  const keep = (event) => setDraft({ ...draft, [event.target.name]: event.target.value });
  const tick = (part, on) => setDraft({ ...draft, in: PARTS.filter((one) => (one === part ? on : parts.includes(one))).join(",") });
  const from = (event) => {
    setDraft({ ...draft, value: "" });
    choose({ start: event.target.value === "last" ? null : event.target.value, value: null, ranges: null });
  };
  const send = (event) => {
    event.preventDefault();
    const { text, value, partition } = shown;
    choose({ partition, text, value: VALUES[start] ? value : null, in: parts.length === PARTS.length || !shown.in ? null : shown.in, ranges: null }, { push: true });
    setDraft({});
  };
  return html`<form class="panel form" onSubmit=${send}>
    <${Field} label="Contains"><input type="search" name="text" data-search maxlength="1000" value=${shown.text} onInput=${keep} placeholder="any record" /><//>
    <${Field} label="From"><select value=${start} onChange=${from}>${STARTS.map(([name, title]) => html`<option value=${name}>${title}</option>`)}</select><//>
    ${VALUES[start] && html`<${Field} label=${start === "offset" ? "Offset" : "Local time"} hint=${VALUES[start]}><input type=${start === "offset" ? "number" : "text"} min="0" name="value" required value=${shown.value} onInput=${keep} /><//>`}
    <${Field} label="Partition"><select name="partition" value=${shown.partition} onChange=${keep}><option value="">all</option>${partitions.map((one) => html`<option value=${String(one)}>${one}</option>`)}</select><//>
    <span class="found" role="group" aria-label="Search in">${PARTS.map((part) => html`<label class="tick"><input type="checkbox" checked=${parts.includes(part)} onChange=${(event) => tick(part, event.target.checked)} /> ${part}</label>`)}</span>
    <button type="submit" class="primary">Search</button></form>`;
}

function Found({ found, params }) {
  const to = (ranges) => choose({ ranges }, { push: true });
  const words = params.text ? ["Search earlier records", "Search later records"] : ["Earlier", "Later"];
  return html`<div class="heading"><p class="sentence heading-words">${sentenceOf(found, params.text)}</p>
      <div class="found"><button type="button" class="small" disabled=${!found.earlier} onClick=${() => to(found.earlier)}>${words[0]}</button>
        <button type="button" class="small" disabled=${!found.later} onClick=${() => to(found.later)}>${words[1]}</button>
        ${params.ranges && html`<button type="button" class="small" onClick=${() => choose({ ranges: null })}>Back to the start</button>`}</div></div>
    <${Table} caption="Records" columns=${columnsFor(params.show)} rows=${found.records} keyOf=${(one) => `${one.partition}-${one.offset}`} sortParam="records" empty=${params.text ? "No searched record contains the text." : "These offsets have no records."} />
    <details><summary>What was searched</summary><ul>${found.searched.slice(0, MOST_RANGES).map((one) => html`<li>${rangeWords(one)}</li>`)}</ul></details>`;
}

function sentenceOf(found, text) {
  const searched = `${count(found.searched_records, "record")} (${bytes(found.searched_bytes)})`;
  const matches = found.records.length === 1 ? "1 match" : `${found.records.length} matches`;
  const why = found.stopped ? `; stopped at the limit of ${found.stopped} per search` : "";
  const rest = [found.earlier && "before", found.later && "after"].filter(Boolean).join(" and ");
  return `${text ? `${matches} in ${searched}` : `Read: ${searched}`}${why}. ${rest ? `The log has offsets ${rest} these.` : "The log has no other offsets."}`;
}

function rangeWords({ partition, first, until, log_start_offset: begin, log_end_offset: end }) {
  const part = first < until ? `offsets ${number(first)} to ${number(until - 1)}` : "nothing";
  return `partition ${partition}: ${part}; its log has ${begin < end ? `${number(begin)} to ${number(end - 1)}` : "no offsets"}`;
}

function columnsFor(show) {
  return [
    { key: "offset", title: "Partition: offset", head: true, value: (one) => one.partition * 2 ** 40 + one.offset, cell: (one) => html`<span class="soft">${one.partition}:</span> ${number(one.offset)}` },
    { key: "at", title: "Written", value: (one) => one.timestamp_ms, cell: (one) => html`<${Time} ms=${one.timestamp_ms} why="the record has no time" />` },
    { key: "key", title: "Key", cell: (one) => html`<${Content} value=${one.key} size=${one.key_size} format=${show} limit=${80} />` },
    { key: "value", title: "Value", width: "wide", cell: (one) => html`<${Content} value=${one.value} size=${one.value_size} format=${show} />` },
    { key: "headers", title: "Headers", cell: (one) => html`${one.headers.map((header) => html`<div><b><${Text} value=${header.name} limit=${40} /></b>: <${Content} value=${header.value} size=${header.size} format=${show === "hex" ? show : "text"} limit=${80} /></div>`)}${one.headers_left_out ? html`<span class="soft">and ${count(one.headers_left_out, "further header")}</span>` : ""}` },
  ];
}

/** The command with the same records. */
function commandOf(topic, { partition, text }, found) {
  const [only] = found?.searched ?? [];
  const single = found?.searched.length === 1;
  const words = ["kohort consume", shellWord(topic), (single || partition) && `--partition ${single ? only.partition : Number(partition)}`, single ? `--offset ${only.first}` : "--from-beginning", found && `--max ${Math.max(1, found.searched_records)}`, "--until-end", text && `--format json | grep -iF -- ${shellWord(text)}`];
  return words.filter(Boolean).join(" ");
}

function asMarkdown(topic, found) {
  const text = (value) => (value === null ? "null" : typeof value === "string" ? value : `base64 ${value.base64}`);
  const rows = (found?.records ?? []).map((one) => [one.partition, one.offset, one.timestamp_ms === null ? "unknown" : utc(one.timestamp_ms), text(one.key), text(one.value)]);
  return `### ${visible(topic)}\n\n${markdownTable(["Partition", "Offset", "Written", "Key", "Value"], rows)}`;
}
