/** Rejected requests of each client, with a verdict. */
import { html } from "../parts/html.js";
import { Badge } from "../parts/badge.js";
import { Answer } from "../parts/failure.js";
import { count, number } from "../parts/format.js";
import { Heading } from "../parts/heading.js";
import { useJson } from "../parts/json.js";
import { pathOf } from "../parts/router.js";
import { Table } from "../parts/table.js";
import { Known, Member, Text, Time, Unknown } from "../parts/text.js";
import { useSpan } from "../parts/timebar.js";
import { plain, shellWord, visible } from "../parts/words.js";

/** Verdicts, the worst first: icon, tone, label. */
const VERDICTS = {
  duplicate: ["square", "bad", "two processes with one instance id"],
  zombie: ["bolt", "bad", "removed from the group, but still working"],
  unfenced: ["triangle", "warn", "not a member, but its commits are accepted"],
  behind: ["triangle", "warn", "a member with an older generation"],
  unknown: ["question", "none", "reason unknown"],
  benign: ["check", "ok", "no problem: the client retries"],
};

/** @param {{group: string}} props */
export function FencedView({ group }) {
  const asked = useJson(pathOf("groups", group, "fenced"), useSpan(), { on: ["entries"] });
  return html`<${Answer} past of=${asked}>${(body) => {
    const order = Object.keys(VERDICTS);
    const found = [...body.fenced].sort((a, b) => order.indexOf(a.verdict) - order.indexOf(b.verdict) || b.last_at_ms - a.last_at_ms);
    return html`<${Heading} level=${2} title="Rejected and suspicious requests" sentence=${sentenceOf(found, body.from_outside)} command=${`kohort group fenced ${shellWord(group)}`} markdown=${() => asMarkdown(found)} />
      ${!found.length && !body.from_outside && html`<p class="empty">This view lists zombies (removed members that still work), processes that share an instance id, and late commits. It found none.</p>`}
      ${body.from_outside && html`<p class="empty">Rejected requests are unknown <${Unknown} why="the journal comes from kohort watch, which cannot see rejected requests" />: only the journal of a kohort broker has them.</p>`}
      ${found.map((one) => html`<${Culprit} key=${`${one.member.member_id} ${one.error} ${one.first_at_ms}`} one=${one} />`)}`;
  }}<//>`;
}

function sentenceOf(found, fromOutside) {
  if (!found.length && fromOutside) return "Rejected requests are not in this journal.";
  if (!found.length) return "No request was rejected in this time span.";
  const serious = found.filter((one) => one.verdict !== "benign").length;
  return `${count(found.length, "culprit")}, ${serious ? `${serious} of them harmful` : "all of them harmless"}.`;
}

function Culprit({ one }) {
  const [icon, tone, words] = VERDICTS[one.verdict] ?? VERDICTS.unknown;
  return html`<section class="panel culprit">
    <div class="finding-head"><${Badge} icon=${icon} tone=${tone}>${visible(one.verdict)}<//><span class="name"><${Member} member=${one.member} /></span><span class="soft">${words}</span></div>
    <p><${Text} value=${one.sentence} limit=${500} /></p>
    <dl class="facts">
      <div><dt>Error</dt><dd>${visible(one.error)}</dd></div>
      <div><dt>Generation</dt><dd>${one.generation}, the group was at ${one.current}</dd></div>
      <div><dt>Requests</dt><dd>${Object.entries(one.by_api).map(([api, times]) => `${api} ${times}×`).join(", ")}</dd></div>
      <div><dt>First, last</dt><dd><${Time} ms=${one.first_at_ms} />, <${Time} ms=${one.last_at_ms} /></dd></div>
      ${one.removed_at_ms !== null && html`<div><dt>Removed</dt><dd><${Time} ms=${one.removed_at_ms} />: ${visible(plain(one.removed_why ?? "unknown"))}</dd></div>`}
      ${one.others.length > 0 && html`<div><dt>Other processes</dt><dd>${one.others.map((member) => html`<${Member} member=${member} /> at ${visible(member.host)} `)}</dd></div>`}
    </dl>
    ${one.tried.length > 0 && html`<${Tried} tried=${one.tried} />`}</section>`;
}

function Tried({ tried }) {
  const columns = [
    { key: "place", title: "Partition", head: true, cell: (row) => html`<${Text} value=${`${row.topic}-${row.partition}`} limit=${60} />` },
    { key: "offset", title: "Tried to commit", kind: "number", cell: (row) => number(row.offset) },
    { key: "committed", title: "Committed", kind: "number", cell: (row) => html`<${Known} value=${row.committed} why="nothing" as=${number} />` },
    { key: "again", title: "Read again", kind: "number", help: "processed records after the committed offset", cell: (row) => html`<${Known} value=${row.committed === null ? null : Math.max(0, row.offset - row.committed)} why="there is no committed offset" as=${number} />` },
  ];
  return html`<details><summary>Its last commit: ${count(tried.length, "partition")}</summary><${Table} caption="Rejected offsets" columns=${columns} rows=${tried} keyOf=${(row) => `${row.topic}-${row.partition}`} sortParam="tried" /></details>`;
}

function asMarkdown(found) {
  return found.map((one) => `- **${one.verdict}** ${visible(one.sentence)}`).join("\n");
}
