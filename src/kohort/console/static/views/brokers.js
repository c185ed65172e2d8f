/** Nodes of the cluster, and the groups that each node coordinates. */
import { html } from "../parts/html.js";
import { Badge } from "../parts/badge.js";
import { Answer, NoCluster } from "../parts/failure.js";
import { bytes, count, duration } from "../parts/format.js";
import { Heading } from "../parts/heading.js";
import { EVERY_5_S, useJson } from "../parts/json.js";
import { isWithoutCluster, useLive } from "../parts/live.js";
import { pathOf } from "../parts/router.js";
import { Table } from "../parts/table.js";
import { Brief, Known, Link, Text } from "../parts/text.js";
import { markdownTable, visible } from "../parts/words.js";

const SHOWN = 12;

export function BrokersView() {
  if (isWithoutCluster(useLive().cluster)) return html`<${NoCluster} title="Brokers and coordination" />`;
  return html`<${AllBrokers} />`;
}

function AllBrokers() {
  const asked = useJson("/nodes", {}, EVERY_5_S);
  return html`<${Answer} of=${asked} title="Brokers and coordination">${(body) => html`<${Brokers} body=${body} />`}<//>`;
}

function groupsOf(body, node) {
  return node.groups ?? body.groups?.[node.node] ?? null;
}

function Brokers({ body }) {
  const down = body.nodes.filter((one) => one.state !== "up").length;
  const sentence = `${count(body.nodes.length, "node")}${down ? `, ${down} of them stopped` : ", all up"}.`;
  const columns = [
    { key: "node", title: "Node", head: true, value: (one) => one.node, cell: (one) => html`${one.node}${one.controller ? html` <span class="chip">controller</span>` : ""}` },
    { key: "state", title: "State", value: (one) => one.state, cell: (one) => html`<${Badge} icon=${one.state === "up" ? "check" : "cross"} tone=${one.state === "up" ? "ok" : "bad"}>${visible(one.state)}<//>` },
    { key: "address", title: "Address", width: "address", value: (one) => one.address, cell: (one) => html`<${Known} value=${one.address} as=${(address) => html`<${Text} value=${address} limit=${60} />`} />` },
    { key: "leads", title: "Leads", kind: "number", help: "partitions", value: (one) => one.leads, cell: (one) => one.leads },
    { key: "logs", title: "Logs", kind: "number", help: "size of all logs on the node, and the number of its replicas", value: (one) => one.log_bytes ?? null, cell: (one) => html`<${Known} value=${one.log_bytes} as=${bytes} why=${one.logs_unknown ?? one.unknown} />${(one.replicas ?? null) === null ? "" : html`<div class="under">${count(one.replicas, "replica")}</div>`}` },
    { key: "disk", title: "Disk free", kind: "number", help: "of the disks with its logs (KIP-827)", needs: "middle", value: (one) => one.disk_free_bytes ?? null, cell: (one) => html`<${Known} value=${one.disk_free_bytes} as=${bytes} why=${one.logs_unknown ?? "the node does not report its disks"} />${(one.disk_bytes ?? null) === null ? "" : html`<div class="under">of ${bytes(one.disk_bytes)}</div>`}` },
    { key: "parts", title: "Group partitions", kind: "number", help: "partitions of __consumer_offsets that it leads", value: (one) => one.group_partitions, cell: (one) => one.group_partitions },
    { key: "load", title: "Load of groups", kind: "number", help: "time to load a __consumer_offsets partition since the start of the node: average and longest", value: (one) => one.load_max_ms, cell: (one) => html`<${Known} value=${loadWords(one)} as=${String} why=${one.loads === 0 ? "the node has loaded none since its start" : one.unknown} />` },
    { key: "late", title: "Late", kind: "number", help: "longest delay of the event loop in the last two minutes, and since the start: all clients of the node waited so long", value: (one) => one.late_ms, cell: (one) => html`<${Known} value=${lateWords(one)} as=${String} why=${one.unknown} />` },
    { key: "groups", title: "Coordinates", width: "wide", value: (one) => groupsOf(body, one)?.length, cell: (one) => html`<${Groups} groups=${groupsOf(body, one)} />` },
  ];
  return html`<${Heading} title="Brokers and coordination" sentence=${sentence} command="kohort nodes list" markdown=${() => asMarkdown(body)} />
    <${Table} caption="Nodes" columns=${columns} rows=${body.nodes} keyOf=${(one) => String(one.node)} empty="The cluster reported no node." />`;
}

/** Format load times of __consumer_offsets partitions: "12 ms, at most 40 ms, of 50"; null without loads, or if unknown. */
function loadWords(one) {
  if ((one.load_max_ms ?? null) === null) return null;
  return `${duration(one.load_avg_ms)}, at most ${duration(one.load_max_ms)}, of ${one.loads}`;
}

function lateWords(one) {
  if ((one.late_ms ?? null) === null) return null;
  return `${duration(one.late_ms)}, once ${duration(one.late_max_ms)}`;
}

function Groups({ groups }) {
  if (groups === null) return html`<${Known} value=${null} why="its groups are unknown" />`;
  if (!groups.length) return "no groups";
  const links = (some) => some.map((group) => html`<${Link} to=${pathOf("groups", group, "overview")} class="among"><${Brief} value=${group} limit=${40} /><//> `);
  if (groups.length <= SHOWN) return links(groups);
  return html`${links(groups.slice(0, SHOWN))}<details><summary>${groups.length - SHOWN} more</summary>${links(groups.slice(SHOWN, 500))}</details>`;
}

function asMarkdown(body) {
  const rows = body.nodes.map((one) => [one.node, one.state, one.leads, (groupsOf(body, one) ?? []).length, (one.log_bytes ?? null) === null ? "unknown" : bytes(one.log_bytes), loadWords(one) ?? "unknown", lateWords(one) ?? "unknown"]);
  return markdownTable(["Node", "State", "Leads", "Groups", "Logs", "Load of groups", "Late"], rows);
}
