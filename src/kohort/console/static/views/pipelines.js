/** Spark pipelines: progress and ledger (rows in, rows out). */
import { html } from "../parts/html.js";
import { Badge, Icon } from "../parts/badge.js";
import { Answer } from "../parts/failure.js";
import { count, number } from "../parts/format.js";
import { Heading } from "../parts/heading.js";
import { OF_CLUSTER, useJson } from "../parts/json.js";
import { pathOf } from "../parts/router.js";
import { Table } from "../parts/table.js";
import { Ago, Brief, Known, Link, Text } from "../parts/text.js";
import { markdownTable, visible } from "../parts/words.js";

export function PipelinesView() {
  const asked = useJson("/pipelines", {}, OF_CLUSTER);
  return html`<${Answer} past of=${asked} title="Pipelines">${(body) => html`<${Heading} title="Pipelines" sentence=${body.pipelines.length ? `${count(body.pipelines.length, "pipeline")}. A run continues from Spark's checkpoint; the group's offsets are committed after each micro-batch.` : "This console shows no pipeline."} command="kohort pipeline status FILE" markdown=${body.pipelines.length ? () => asMarkdown(body.pipelines) : null} />
      ${!body.pipelines.length && html`<p class="empty">To show pipelines, start the console with <code>kohort console --pipeline FILE</code>.</p>`}
      ${body.pipelines.map((one) => html`<${Pipeline} one=${one} />`)}`}<//>`;
}

function Pipeline({ one }) {
  const ledger = one.last_run?.ledger ?? null;
  return html`<section class="panel"><h2><${Text} value=${one.name} limit=${60} /></h2>
    <p>${one.running ? html`<span class="badge info"><${Icon} name="turn" />running</span> on <${Text} value=${one.running.host} limit=${40} /> (process ${one.running.pid}), since <${Ago} ms=${one.running.since_ms} />.` : "Not running."}</p>
    ${one.sources.length + one.batches.length === 0 && !one.problem && html`<p class="soft">The pipeline has not run yet.</p>`}
    ${one.problem && html`<p class="bad-text"><${Text} value=${one.problem} limit=${400} /></p>`}
    ${ledger && html`<${Ledger} ledger=${ledger} />`}
    ${one.sources.length > 0 && html`<h3>Sources</h3><${Table} caption="Sources" columns=${SOURCES} rows=${one.sources} keyOf=${(source) => source.name} sortParam="sources" />`}
    ${one.batches.length > 0 && html`<h3>Batches</h3><${Table} caption="Batches" columns=${BATCHES} rows=${one.batches} keyOf=${(batch) => String(batch.batch)} order="batch.down" sortParam="batches" tall />`}</section>`;
}

function asMarkdown(pipelines) {
  const rows = pipelines.map((one) => [one.name, one.running ? "running" : "not running", one.sources.reduce((sum, source) => sum + source.lag, 0), one.batches.at(-1)?.batch, one.last_run?.ledger ? (one.last_run.ledger.balanced ? "every row" : "does not add up") : null, one.problem]);
  return markdownTable(["Pipeline", "Run", "Lag", "Last batch", "Accounted for", "Problem"], rows);
}

/** Rows in and rows out of a run, and whether the counts are balanced. */
function Ledger({ ledger }) {
  const into = (name, some) => Object.entries(some ?? {}).map(([key, rows]) => [`${name} ${key}`, rows]);
  const rows = [["came in", ledger.rows_in], ["could not be decoded", ledger.undecoded], ["filtered", ledger.filtered], ...into("dropped by", ledger.dropped), ...into("quarantined by", ledger.quarantined), ["dead letters", ledger.dead_letters], ["late", ledger.late], ...into("written to", ledger.sinks), ["perhaps delivered twice", ledger.redelivered]];
  return html`<h3>Ledger of the last run <${Badge} icon=${ledger.balanced ? "check" : "cross"} tone=${ledger.balanced ? "ok" : "bad"}>${ledger.balanced ? "every row is accounted for" : "does not add up"}<//></h3>
    <dl class="facts">${rows.filter(([name, value]) => value || name === "came in").map(([name, value]) => html`<div><dt>${visible(name)}</dt><dd>${number(value)}</dd></div>`)}</dl>
    ${ledger.problems?.map((problem) => html`<p class="bad-text"><${Text} value=${problem} limit=${300} /></p>`)}`;
}

/** @type {import("../parts/table.js").Column[]} */
const SOURCES = [
  { key: "name", title: "Source", head: true, value: (one) => one.name, cell: (one) => html`<${Brief} value=${one.name} />` },
  { key: "group", title: "Group", value: (one) => one.group, cell: (one) => html`<${Link} to=${pathOf("groups", one.group, "overview")}><${Brief} value=${one.group} /><//>` },
  { key: "partitions", title: "Partitions", kind: "number", value: (one) => Object.keys(one.partitions).length, cell: (one) => Object.keys(one.partitions).length },
  { key: "lag", title: "Lag", kind: "number", value: (one) => one.lag, cell: (one) => html`<${Known} value=${one.lag} as=${number} />` },
];

/** @type {import("../parts/table.js").Column[]} */
const BATCHES = [
  { key: "batch", title: "Batch", kind: "number", head: true, value: (one) => one.batch, cell: (one) => one.batch },
  { key: "done", title: "Done", value: (one) => one.done, cell: (one) => visible(one.done) },
  { key: "rows", title: "Rows", kind: "number", value: (one) => one.rows, cell: (one) => number(one.rows) },
  { key: "sinks", title: "Written to", cell: (one) => html`<${Brief} value=${Object.entries(one.sinks).map(([name, rows]) => `${name} ${number(rows)}`).join(", ")} limit=${80} />` },
  { key: "again", title: "Perhaps twice", kind: "number", value: (one) => one.redelivered, cell: (one) => number(one.redelivered) },
  { key: "dead", title: "Dead letters", kind: "number", value: (one) => one.dead_letters, cell: (one) => number(one.dead_letters) },
  { key: "late", title: "Late", kind: "number", value: (one) => one.late, cell: (one) => number(one.late) },
];
