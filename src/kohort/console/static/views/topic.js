/** One topic: partitions, records, groups that read it, configuration. */
import { html } from "../parts/html.js";
import { Health } from "../parts/badge.js";
import { Answer, NoCluster } from "../parts/failure.js";
import { bytes, compact, count, duration, number, rate } from "../parts/format.js";
import { Heading, matcher, Search } from "../parts/heading.js";
import { EVERY_5_S, useJson } from "../parts/json.js";
import { isWithoutCluster, useLive } from "../parts/live.js";
import { choose, pathOf, usePlace } from "../parts/router.js";
import { Table } from "../parts/table.js";
import { Tabs } from "../parts/tabs.js";
import { Brief, Known, Link, Records, Text, Unknown } from "../parts/text.js";
import { cut, markdownTable, shellWord, visible } from "../parts/words.js";
import { RecordsView } from "./records.js";
import { Replication, retention } from "./topics.js";

const TABS = [
  { name: "partitions", title: "Partitions", View: Partitions },
  { name: "records", title: "Records", View: RecordsView },
  { name: "groups", title: "Groups", View: Groups },
  { name: "configuration", title: "Configuration", View: Configuration },
];

/** @param {{topic: string, tab: string}} props */
export function TopicView({ topic, tab }) {
  const alone = isWithoutCluster(useLive().cluster);
  const asked = useJson(alone ? null : pathOf("topics", topic), {}, EVERY_5_S);
  if (alone) return html`<${NoCluster} title=${visible(topic)} />`;
  const { View, name } = TABS.find((one) => one.name === tab) ?? TABS[0];
  return html`<div class="group-head"><nav aria-label="You are here" class="crumbs"><${Link} to="/topics">Topics<//> <span aria-hidden="true">›</span></nav>
      <h1><bdi data-tip=${topic.length > 70 ? cut(visible(topic), 500) : null}>${cut(visible(topic), 70)}</bdi></h1></div>
    <${Answer} of=${asked}>${(body) => html`<p class=${`sentence ${name === "partitions" ? "" : "of-tabs"}`}>${sentenceOf(body.topic)} <${Replication} of=${body.topic} /></p>
      <${Tabs} label="Views of this topic" path=${["topics", topic]} tabs=${TABS} chosen=${name} />
      <${View} body=${body} topic=${topic} />`}<//>`;
}

function sentenceOf(topic) {
  const parts = [count(topic.partitions, "partition"), topic.size_bytes !== null && bytes(topic.size_bytes), topic.records_per_s !== null && `${rate(topic.records_per_s)} written`, `read by ${count(topic.groups_in_all, "group")}`];
  return `${parts.filter(Boolean).join(", ")}.`;
}

function Partitions({ body, topic }) {
  const about = body.topic;
  return html`<${Heading} level=${2} title="Partitions" command=${`kohort topics describe ${shellWord(topic)}`} markdown=${() => asMarkdown(body)} />
    <dl class="cards">
      <div><dt>Size</dt><dd><${Known} value=${about.size_bytes} why=${about.unknown.size} as=${bytes} /></dd></div>
      <div><dt>Written</dt><dd><${Known} value=${about.records_per_s} why=${about.unknown.rate} as=${rate} /></dd></div>
      <div><dt>Offsets</dt><dd><${Known} value=${about.offsets} why=${about.unknown.offsets} as=${compact} /></dd></div>
      <div><dt>Retention</dt><dd class="words"><${Known} value=${retention(about)} why=${about.unknown.options} as=${String} /></dd></div>
    </dl>
    <section><${Table} caption="Partitions" columns=${partitionColumns(topic, about)} rows=${body.partitions} keyOf=${(one) => String(one.partition)} empty="The topic has no partitions." /></section>`;
}

function asMarkdown({ topic, partitions }) {
  const rows = partitions.map((one) => [one.partition, one.leader < 0 ? "none" : one.leader, one.replicas.join(", "), one.isr.join(", "), one.log_start_offset ?? "unknown", one.log_end_offset ?? "unknown", one.size_bytes === null ? "unknown" : bytes(one.size_bytes)]);
  return `### ${visible(topic.name)}\n\n${markdownTable(["Partition", "Leader", "Replicas", "In sync", "First offset", "End", "Size"], rows)}`;
}

function partitionColumns(topic, { unknown }) {
  const lagging = (one) => one.replicas.filter((id) => !one.isr.includes(id));
  const why = (one) => (one.leader < 0 ? "the partition has no leader" : unknown.offsets);
  return [
    { key: "partition", title: "Partition", kind: "number", head: true, value: (one) => one.partition, cell: (one) => one.partition },
    { key: "leader", title: "Leader", kind: "number", value: (one) => one.leader, cell: (one) => (one.leader < 0 ? html`<span class="bad-text">none</span>` : one.leader) },
    { key: "replicas", title: "Replicas", cell: (one) => html`${one.replicas.join(", ")}${lagging(one).length ? html` <span class="bad-text">not in sync: ${lagging(one).join(", ")}</span>` : ""}` },
    { key: "epoch", title: "Leader epoch", kind: "number", needs: "middle", value: (one) => one.leader_epoch, cell: (one) => one.leader_epoch },
    { key: "start", title: "First offset", kind: "number", value: (one) => one.log_start_offset, cell: (one) => html`<${Known} value=${one.log_start_offset} why=${why(one)} as=${number} />` },
    { key: "end", title: "End", kind: "number", value: (one) => one.log_end_offset, cell: (one) => html`<${Known} value=${one.log_end_offset} why=${why(one)} as=${number} />` },
    { key: "size", title: "Size", kind: "number", value: (one) => one.size_bytes, cell: (one) => html`<${Known} value=${one.size_bytes} why=${unknown.size ?? "no broker reported its log"} as=${bytes} />` },
    { key: "look", title: "Records", cell: (one) => html`<${Link} to=${pathOf("topics", topic, "records")} params=${{ partition: one.partition }} aria-label=${`show records of partition ${one.partition}`} class="among">show<//>` },
  ];
}

/** @type {import("../parts/table.js").Column[]} */
const GROUP_COLUMNS = [
  { key: "health", title: "Health", help: "of the whole group", value: (one) => one.health, cell: (one) => html`<${Health} word=${one.health} />` },
  { key: "group", title: "Group", head: true, width: "wide", value: (one) => one.group, cell: (one) => html`<${Link} to=${pathOf("groups", one.group, "overview")} class="name"><${Brief} value=${one.group} limit=${60} /><//>` },
  { key: "lag", soon: true, title: "Lag here", kind: "number", help: "on the partitions of this topic, in records", value: (one) => one.lag, cell: (one) => html`<${Records} value=${one.lag} least=${one.lag_unknown > 0} />` },
  { key: "parts", title: "Partitions", kind: "number", help: "partitions with an offset or an owner", value: (one) => one.partitions, cell: (one) => one.partitions },
  { key: "members", title: "Members", kind: "number", help: "members that own partitions of this topic", value: (one) => one.members, cell: (one) => one.members },
  { key: "state", title: "State", value: (one) => one.state, cell: (one) => visible(one.state) },
];

function Groups({ body, topic }) {
  const { groups, groups_in_all: all } = body.topic;
  const sentence = groups.length < all ? `${count(all, "group")}; shown: the ${groups.length} with the largest lag.` : null;
  const markdown = () => `### ${visible(topic)}\n\n${markdownTable(["Health", "Group", "Lag", "Members", "State"], groups.map((one) => [one.health ?? "unknown", one.group, one.lag ?? "unknown", one.members, one.state]))}`;
  return html`<${Heading} level=${2} title="Groups that read it" sentence=${sentence} command="kohort groups" markdown=${markdown} />
    <${Table} caption="Groups" columns=${GROUP_COLUMNS} rows=${groups} keyOf=${(one) => one.group} empty="No group that you may see reads this topic." />`;
}

/** @type {import("../parts/table.js").Column[]} */
const OPTION_COLUMNS = [
  { key: "name", title: "Option", head: true, value: (one) => one.name, cell: (one) => html`<code>${visible(one.name)}</code>${one.source === "topic" ? html` <span class="chip warn">overridden</span>` : ""}` },
  { key: "value", title: "Value", width: "wide", cell: (one) => (one.secret ? html`<${Unknown} why="its value is secret" />` : html`<${Text} value=${one.value ?? "not set"} limit=${200} /> <span class="soft">${inUnits(one)}</span>`) },
  { key: "source", title: "Set by", value: (one) => one.source, cell: (one) => visible(one.source) },
];

/** Value of an option in larger units, such as "1 d" for 86400000 ms. */
function inUnits({ name, value }) {
  const size = Number(value);
  if (!/^\d+$/.test(value ?? "") || size < 1000 || size > 1e15) return "";
  return name.endsWith(".ms") ? duration(size) : name.endsWith(".bytes") ? bytes(size) : "";
}

function Configuration({ body, topic }) {
  const { params } = usePlace();
  const command = `kohort topics describe ${shellWord(topic)}`;
  if (body.options === null) return html`<${Heading} level=${2} title="Configuration" command=${command} /><p class="empty">Unknown: ${visible(body.topic.unknown.options)}.</p>`;
  const matches = matcher(params.filter);
  const shown = body.options.filter((one) => matches([one.name, one.value]));
  const overridden = body.options.filter((one) => one.source === "topic").length;
  const markdown = () => markdownTable(["Option", "Value", "Set by"], shown.map((one) => [one.name, one.secret ? "secret" : one.value, one.source]));
  return html`<${Heading} level=${2} title="Configuration" sentence=${`The topic overrides ${number(overridden)} of ${count(body.options.length, "option")}.`} command=${command} markdown=${markdown}>
      <${Search} value=${params.filter ?? ""} label="Filter options" onInput=${(filter) => choose({ filter })} /><//>
    <${Table} caption="Options" columns=${OPTION_COLUMNS} rows=${shown} keyOf=${(one) => one.name} empty="No option matches." />`;
}
