/** List of topics; the partitions of one topic, and its records. */
import { html } from "../parts/html.js";
import { Answer, NoCluster } from "../parts/failure.js";
import { count, number } from "../parts/format.js";
import { Heading, matcher, Search } from "../parts/heading.js";
import { OF_CLUSTER, useJson } from "../parts/json.js";
import { isWithoutCluster, useLive } from "../parts/live.js";
import { choose, pathOf, usePlace } from "../parts/router.js";
import { Table } from "../parts/table.js";
import { Brief, Link, Text, Unknown } from "../parts/text.js";
import { markdownTable, shellWord, visible } from "../parts/words.js";
import { PeekTopic } from "./peek.js";

export function TopicsView() {
  const { params } = usePlace();
  const alone = isWithoutCluster(useLive().cluster);
  const asked = useJson(alone ? null : "/topics", {}, OF_CLUSTER);
  if (alone) return html`<${NoCluster} title="Topics" />`;
  return html`<${Answer} of=${asked} title="Topics">${(body) => {
    const matches = matcher(params.filter);
    const shown = body.topics.filter((one) => (params.internal === "1" || !one.internal) && matches([one.name]));
    const hidden = body.topics.filter((one) => one.internal).length;
    return html`<${Heading} title="Topics" sentence=${`${count(body.topics.length - hidden, "topic")}, and ${hidden} internal ones.`} command="kohort topics list" markdown=${() => markdownTable(["Topic", "Partitions"], shown.map((one) => [one.name, one.partitions]))}>
        <label class="tick"><input type="checkbox" checked=${params.internal === "1"} onChange=${(event) => choose({ internal: event.target.checked ? "1" : null })} /> show internal topics</label>
        <${Search} value=${params.filter ?? ""} label="Filter topics" onInput=${(filter) => choose({ filter })} /><//>
      <${Table} caption="Topics" columns=${COLUMNS} rows=${shown} keyOf=${(one) => one.name} empty="No topic matches." />`;
  }}<//>`;
}

/** @type {import("../parts/table.js").Column[]} */
const COLUMNS = [
  { key: "name", title: "Topic", head: true, width: "wide", value: (one) => one.name, cell: (one) => html`<${Link} to=${pathOf("topics", one.name)} class="name"><${Brief} value=${one.name} limit=${80} /><//>${one.internal ? html` <span class="chip">internal</span>` : ""}` },
  { key: "partitions", title: "Partitions", kind: "number", value: (one) => one.partitions, cell: (one) => one.partitions },
  { key: "id", title: "Id", cell: (one) => html`<code><${Brief} value=${one.topic_id} limit=${24} /></code>` },
];

/** @param {{topic: string}} props */
export function TopicView({ topic }) {
  const { params } = usePlace();
  const alone = isWithoutCluster(useLive().cluster);
  const asked = useJson(alone ? null : pathOf("topics", topic), {}, OF_CLUSTER);
  if (alone) return html`<${NoCluster} title=${visible(topic)} />`;
  return html`<nav aria-label="You are here" class="crumbs"><${Link} to="/topics">Topics<//> <span aria-hidden="true">›</span></nav>
    <${Answer} of=${asked}>${(body) => html`<${Topic} about=${body.topics?.[0] ?? body.topic ?? body} topic=${topic} peek=${params.peek} />`}<//>`;
}

function Topic({ about, topic, peek }) {
  const records = about.partitions.reduce((sum, one) => sum + one.log_end_offset - one.log_start_offset, 0);
  const configs = Object.entries(about.configs ?? {});
  return html`<${Heading} title=${html`<${Text} value=${topic} limit=${80} />`} sentence=${`${count(about.partitions.length, "partition")}, ${number(records)} offsets between first and last.`} command=${`kohort topics describe ${shellWord(topic)}`} markdown=${() => asMarkdown(about)} />
    ${peek && html`<${PeekTopic} topic=${topic} place=${peek} />`}
    <${Table} caption="Partitions" columns=${partitionColumns(topic)} rows=${about.partitions} keyOf=${(one) => String(one.partition)} empty="The topic has no partitions." />
    ${configs.length > 0 && html`<section><h2>Options that differ from the defaults</h2><dl class="facts">${configs.map(([name, value]) => html`<div><dt>${visible(name)}</dt><dd>${value === null ? html`<${Unknown} why="it is secret" />` : html`<${Text} value=${value} />`}</dd></div>`)}</dl></section>`}`;
}

function asMarkdown(about) {
  const rows = about.partitions.map((one) => [one.partition, one.leader < 0 ? "none" : one.leader, one.replicas.join(", "), one.isr.join(", "), one.log_start_offset, one.log_end_offset]);
  return `### ${visible(about.name)}\n\n${markdownTable(["Partition", "Leader", "Replicas", "In sync", "First offset", "End"], rows)}`;
}

function partitionColumns(topic) {
  const lagging = (one) => one.replicas.filter((id) => !one.isr.includes(id));
  return [
    { key: "partition", title: "Partition", kind: "number", head: true, value: (one) => one.partition, cell: (one) => one.partition },
    { key: "leader", title: "Leader", kind: "number", value: (one) => one.leader, cell: (one) => (one.leader < 0 ? html`<span class="bad-text">none</span>` : one.leader) },
    { key: "epoch", title: "Epoch", kind: "number", value: (one) => one.leader_epoch, cell: (one) => one.leader_epoch },
    { key: "replicas", title: "Replicas", cell: (one) => html`${one.replicas.join(", ")}${lagging(one).length ? html` <span class="bad-text">not in sync: ${lagging(one).join(", ")}</span>` : ""}` },
    { key: "start", title: "First offset", kind: "number", value: (one) => one.log_start_offset, cell: (one) => number(one.log_start_offset) },
    { key: "end", title: "End", kind: "number", value: (one) => one.log_end_offset, cell: (one) => number(one.log_end_offset) },
    { key: "look", title: "Records", cell: (one) => html`<button type="button" class="small" aria-label=${`peek at the records of partition ${one.partition}`} onClick=${() => choose({ peek: `${topic}-${one.partition}`, offset: null }, { push: true })}>peek</button>` },
  ];
}
