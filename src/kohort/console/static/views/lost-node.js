/** V10: what groups would do without a node: the prediction of `kohort nodes what-if`; nothing is executed. */
import { html } from "../parts/html.js";
import { Badge, Icon } from "../parts/badge.js";
import { Answer } from "../parts/failure.js";
import { Heading, matcher, Search } from "../parts/heading.js";
import { useJson } from "../parts/json.js";
import { choose, pathOf, usePlace } from "../parts/router.js";
import { Table } from "../parts/table.js";
import { Brief, Known, Link, Text } from "../parts/text.js";
import { markdownTable, shellWord, visible } from "../parts/words.js";

/** @param {{node: string}} props */
export function LostNodeView({ node }) {
  const asked = useJson(`${pathOf("nodes", node)}/what-if`);
  return html`<nav aria-label="You are here" class="crumbs"><${Link} to="/brokers">Brokers<//> <span aria-hidden="true">›</span></nav>
    <${Answer} of=${asked}>${(body) => html`<${Loss} loss=${body.loss} node=${node} />`}<//>`;
}

/** What happens to a group, the worst first: icon, tone, in a word. */
function fateOf(one) {
  if (one.offline.length) return [0, "square", "bad", "partitions offline"];
  if (one.coordinated && one.known && one.next_coordinator === null) return [1, "square", "bad", "no coordinator"];
  if (one.begins_anew) return [2, "turn", "warn", "rebalances anew"];
  if (one.coordinated) return [3, "triangle", "warn", "another coordinator"];
  if (one.leaders_move) return [4, "info", "info", "other leaders"];
  return [5, "check", "ok", "goes on as it is"];
}

function Loss({ loss, node }) {
  const { params } = usePlace();
  const matches = matcher(params.filter);
  const shown = loss.groups.filter((one) => (params.all === "1" || fateOf(one)[0] < 5) && matches([one.group, one.state, one.sentence]));
  const untouched = loss.groups.filter((one) => fateOf(one)[0] === 5).length;
  return html`<${Heading} title=${`Without node ${visible(node)}`} sentence=${html`<span class="banner"><${Icon} name="info" />A prediction. Nothing is executed.</span>`} command=${`kohort nodes what-if ${shellWord(node)}`} markdown=${() => asMarkdown(loss, shown)}>
      <label class="tick"><input type="checkbox" checked=${params.all === "1"} onChange=${(event) => choose({ all: event.target.checked ? "1" : null })} /> the ${untouched} that go on as they are, too</label>
      <${Search} value=${params.filter ?? ""} label="Filter groups" onInput=${(filter) => choose({ filter })} /><//>
    <p class="lead"><${Text} value=${loss.sentence} limit=${600} />.</p>
    ${loss.offline.length > 0 && html`<p class="bad-text">Nobody would lead: <${Text} value=${loss.offline.join(", ")} limit=${400} /></p>`}
    <${Table} caption=${`Groups without node ${visible(node)}`} columns=${COLUMNS} rows=${shown} keyOf=${(one) => one.group} order="what.up" rowHeight=${46} empty=${loss.groups.length ? "No group would be touched, or none matches the filter." : "There are no groups."} />
    <section><h2>Assumed</h2><ul>${loss.assumptions.map((one) => html`<li>${visible(one)}</li>`)}</ul></section>`;
}

/** @type {import("../parts/table.js").Column[]} */
const COLUMNS = [
  { key: "what", title: "What happens", value: (one) => fateOf(one)[0], cell: (one) => html`<${Fate} one=${one} />` },
  { key: "group", title: "Group, and why", head: true, width: "wide", value: (one) => one.group, cell: (one) => html`<${Link} to=${pathOf("groups", one.group, "overview")} class="name"><${Brief} value=${one.group} limit=${48} /><//><div class="under reason"><${Text} value=${one.sentence} limit=${200} /></div>` },
  { key: "state", title: "State", needs: "middle", value: (one) => one.state, cell: (one) => visible(one.state) },
  { key: "members", title: "Members", kind: "number", value: (one) => one.members, cell: (one) => html`${one.members}${one.same_host.length > 0 && html`<div class="under bad-text">${one.same_host.length} on its host</div>`}` },
  { key: "next", title: "Next node", kind: "number", help: "which coordinates it then", value: (one) => one.next_coordinator, cell: (one) => html`<${Known} value=${one.next_coordinator} why=${whyNoNext(one)} as=${String} />` },
  { key: "leaders", title: "Leaders move", kind: "number", help: "partitions that it reads, and that another node leads then", value: (one) => one.leaders_move, cell: (one) => one.leaders_move },
  { key: "offline", title: "Offline", kind: "number", help: "partitions that it reads, and that nobody leads then", value: (one) => one.offline.length, cell: (one) => one.offline.length },
  { key: "first", title: "First out after", kind: "number", help: "when a member would be put out that does not find the new coordinator", value: (one) => one.first_out_s, cell: (one) => html`<${Known} value=${one.first_out_s} why="its coordinator stays, or it has no members" as=${(seconds) => `${Math.round(seconds)} s`} />` },
];

function whyNoNext(one) {
  if (!one.coordinated) return "it keeps its coordinator";
  return one.known ? "no other replica of its part of __consumer_offsets is in sync" : "which nodes hold its part of __consumer_offsets is not told";
}

function Fate({ one }) {
  const [, icon, tone, words] = fateOf(one);
  return html`<${Badge} icon=${icon} tone=${tone}>${words}<//>`;
}

function asMarkdown(loss, shown) {
  const rows = shown.map((one) => [fateOf(one)[3], one.group, one.state, one.members, one.next_coordinator, one.leaders_move, one.offline.length]);
  return `### What if node ${loss.node} were lost\n\n${visible(loss.sentence)}.\n\n${markdownTable(["What happens", "Group", "State", "Members", "Next node", "Leaders move", "Offline"], rows)}`;
}
