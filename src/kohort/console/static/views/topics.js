/** List of topics: size, rate, retention, groups that read them. */
import { html } from "../parts/html.js";
import { Health } from "../parts/badge.js";
import { Answer, NoCluster } from "../parts/failure.js";
import { bytes, compact, count, duration, number, rate } from "../parts/format.js";
import { Heading, matcher, Search } from "../parts/heading.js";
import { EVERY_5_S, useJson } from "../parts/json.js";
import { isWithoutCluster, useLive } from "../parts/live.js";
import { choose, pathOf, usePlace } from "../parts/router.js";
import { Table } from "../parts/table.js";
import { Brief, Known, Link, Records } from "../parts/text.js";
import { markdownTable, visible } from "../parts/words.js";

export function TopicsView() {
  const { params } = usePlace();
  const alone = isWithoutCluster(useLive().cluster);
  const asked = useJson(alone ? null : "/topics", {}, EVERY_5_S);
  if (alone) return html`<${NoCluster} title="Topics" />`;
  return html`<${Answer} of=${asked} title="Topics">${(body) => {
    const matches = matcher(params.filter);
    const shown = body.topics.filter((one) => (params.internal === "1" || !one.internal) && matches([one.name]));
    return html`<${Heading} title="Topics" sentence=${sentenceOf(body)} command="kohort topics list" markdown=${() => asMarkdown(shown)}>
        <label class="tick"><input type="checkbox" checked=${params.internal === "1"} onChange=${(event) => choose({ internal: event.target.checked ? "1" : null })} /> show internal topics</label>
        <${Search} value=${params.filter ?? ""} label="Filter topics" onInput=${(filter) => choose({ filter })} /><//>
      <${Table} caption="Topics" columns=${COLUMNS} rows=${shown} keyOf=${(one) => one.name} rowHeight=${46} empty="No topic matches." />`;
  }}<//>`;
}

function sentenceOf({ topics, left_out }) {
  const internal = topics.filter((one) => one.internal).length;
  const bad = topics.filter((one) => one.without_leader || one.out_of_sync).length;
  const text = `${count(topics.length - internal, "topic")} and ${count(internal, "internal topic")}`;
  const parts = [text, bad && `${number(bad)} with missing leaders or replicas`, left_out && `${count(left_out, "further topic")} not shown`];
  return `${parts.filter(Boolean).join("; ")}.`;
}

/** @type {import("../parts/table.js").Column[]} */
const COLUMNS = [
  { key: "name", title: "Topic", head: true, width: "wide", value: (one) => one.name, cell: (one) => html`<${Link} to=${pathOf("topics", one.name)} class="name"><${Brief} value=${one.name} limit=${64} /><//>${one.internal ? html` <span class="chip">internal</span>` : ""}<div class="under"><${Replication} of=${one} /></div>` },
  { key: "lag", soon: true, title: "Largest lag", kind: "number", help: "of the groups that read the topic, in records", value: (one) => one.groups[0]?.lag ?? null, cell: (one) => (one.groups.length ? html`<${Records} value=${one.groups[0].lag} least=${one.groups[0].lag_unknown > 0} />` : html`<span class="soft">no group</span>`) },
  { key: "groups", title: "Groups", value: (one) => one.groups_in_all, cell: (one) => html`<${Readers} of=${one} />` },
  { key: "rate", title: "Written", kind: "number", help: "offsets per second, since an earlier sample of at most five minutes ago", value: (one) => one.records_per_s, cell: (one) => html`<${Known} value=${one.records_per_s} why=${one.unknown.rate} as=${rate} />` },
  { key: "size", title: "Size", kind: "number", help: "one replica of each partition", value: (one) => one.size_bytes, cell: (one) => html`<${Known} value=${one.size_bytes} why=${one.unknown.size} as=${bytes} />` },
  { key: "offsets", title: "Offsets", kind: "number", needs: "middle", help: "between log start and log end; compaction and transactions leave offsets without a record", value: (one) => one.offsets, cell: (one) => html`<${Known} value=${one.offsets} why=${one.unknown.offsets} as=${compact} />` },
  { key: "partitions", title: "Partitions", kind: "number", value: (one) => one.partitions, cell: (one) => one.partitions },
  { key: "keeps", title: "Retention", value: keptMs, cell: (one) => html`<${Known} value=${retention(one)} why=${one.unknown.options} as=${String} />` },
];

/** Partitions without a leader, or with replicas that are not in sync. */
export function Replication({ of }) {
  if (of.without_leader) return html`<span class="bad-text">${count(of.without_leader, "partition")} without a leader</span>`;
  return of.out_of_sync ? html`<span class="bad-text">${count(of.out_of_sync, "partition")} with replicas that are not in sync</span>` : "";
}

function Readers({ of }) {
  const [first] = of.groups;
  if (!first) return "";
  const more = of.groups_in_all - 1;
  return html`<${Link} to=${pathOf("groups", first.group, "partitions")}><${Brief} value=${first.group} limit=${28} /><//> <${Health} word=${first.health} />${more ? html` <${Link} to=${pathOf("topics", of.name, "groups")} class="among">${more} more<//>` : ""}`;
}

function keptMs(one) {
  if (one.retention_ms === null || !one.cleanup_policy?.includes("delete")) return null;
  return one.retention_ms === "-1" ? Infinity : Number(one.retention_ms);
}

/** "7 d", "compacted", "1 d or 1 GiB per partition, compacted"; null if unknown. */
export function retention({ cleanup_policy: policy, retention_ms: ms, retention_bytes: size }) {
  if (policy === null) return null;
  const limits = [ms !== null && ms !== "-1" && duration(Number(ms)), size !== null && size !== "-1" && `${bytes(Number(size))} per partition`].filter(Boolean);
  const parts = [policy.includes("delete") && (limits.join(" or ") || "unlimited"), policy.includes("compact") && "compacted"];
  return parts.filter(Boolean).join(", ") || visible(policy);
}

function asMarkdown(shown) {
  const rows = shown.map((one) => [one.name, one.partitions, one.size_bytes === null ? "unknown" : bytes(one.size_bytes), one.records_per_s === null ? "unknown" : rate(one.records_per_s), retention(one) ?? "unknown", one.groups.map((group) => group.group).join(", ")]);
  return markdownTable(["Topic", "Partitions", "Size", "Written", "Retention", "Groups"], rows);
}
