/** Rebalances of a group, the latest first, with their pattern. */
import { html } from "../parts/html.js";
import { Confidence } from "../parts/badge.js";
import { Cause } from "../parts/cause.js";
import { Advice, Evidence } from "../parts/evidence.js";
import { Answer } from "../parts/failure.js";
import { count, duration } from "../parts/format.js";
import { Heading, matcher, Search } from "../parts/heading.js";
import { useJson } from "../parts/json.js";
import { choose, pathOf, usePlace } from "../parts/router.js";
import { Table } from "../parts/table.js";
import { Brief, Known, Link, Text, Time } from "../parts/text.js";
import { useSpan } from "../parts/timebar.js";
import { plain, rebalanceKey, rebalanceName, rebalancesOf, shellWord, visible } from "../parts/words.js";

/** @param {{group: string}} props */
export function RebalancesView({ group }) {
  const asked = useJson(pathOf("groups", group, "rebalances"), useSpan(), { on: ["entries"] });
  return html`<${Answer} past of=${asked}>${(body) => html`<${Rebalances} body=${body} group=${group} />`}<//>`;
}

function Rebalances({ body, group }) {
  const { params } = usePlace();
  const matches = matcher(params.filter);
  const shown = body.rebalances.filter((one) => matches([one.cause, one.sentence, one.id, one.assignor]));
  const real = rebalancesOf(body.rebalances).length;
  const others = body.rebalances.length - real;
  const sentence = `${count(real, "rebalance")} in this time span, of ${body.known} in the journal.${others ? ` Beside them ${count(others, "change")} without a rebalance.` : ""}`;
  return html`<${Heading} level=${2} title="Rebalances" sentence=${sentence} command=${`kohort group why ${shellWord(group)} --last 0`} markdown=${() => listAsMarkdown(body)}>
      <${Search} value=${params.filter ?? ""} label="Filter rebalances" onInput=${(filter) => choose({ filter })} /><//>
    ${body.patterns.map((pattern) => html`<${Pattern} pattern=${pattern} group=${group} />`)}
    <${Table} caption="Rebalances" columns=${columnsFor(group)} rows=${shown} keyOf=${(one) => one.id} order="at.down" rowHeight=${52} rowClass=${(one) => (one.parent !== null ? "child" : "")} empty="No rebalance in this span: choose a longer one above." />`;
}

/** Pattern of several rebalances, such as a deploy or a crash loop. */
function Pattern({ pattern, group }) {
  const keys = pattern.rebalances.map((id) => (id.startsWith(`${group}/`) ? id.slice(group.length + 1) : id));
  return html`<section class="panel pattern"><h3>${plain(pattern.pattern)} <${Confidence} word=${pattern.confidence} /></h3>
    <p><${Text} value=${pattern.sentence} limit=${500} /></p><${Advice} text=${pattern.advice} />
    <details><summary>${count(pattern.evidence.length, "fact")}, ${count(keys.length, "rebalance")}</summary><${Evidence} facts=${pattern.evidence} />
    <p>${keys.slice(0, 60).map((key) => html`<${Link} to=${pathOf("groups", group, "rebalances", key)}>${visible(key)}<//> `)}</p></details></section>`;
}

function columnsFor(group) {
  return [
    { key: "at", title: "When", value: (one) => one.opened_at_ms, cell: (one) => html`<${Time} ms=${one.opened_at_ms} />` },
    {
      key: "what",
      title: "What happened",
      head: true,
      width: "widest",
      value: (one) => one.cause,
      cell: (one) => html`${one.parent !== null && html`<span class="chip">second round</span> `}<${Link} to=${pathOf("groups", group, "rebalances", rebalanceKey(one))} class="name">${visible(rebalanceName(one))}<//> <${Cause} code=${one.cause} /><div class="under reason"><${Brief} value=${one.sentence} limit=${240} /></div>`,
    },
    { key: "took", title: "Took", kind: "number", value: (one) => one.took_ms, cell: (one) => html`<${Known} value=${one.took_ms} why="it did not end, or its end is unknown" as=${duration} />` },
    { key: "moved", title: "Moved", kind: "number", help: "moved partitions", value: (one) => one.moves.length, cell: (one) => one.moves.length },
    { key: "pause", title: "Unowned", kind: "number", help: "time that partitions had no owner, summed", value: (one) => one.unowned_partition_ms, cell: (one) => html`<${Known} value=${one.unowned_partition_ms} why="the first fetch of new owners is unknown" as=${duration} />` },
    { key: "members", title: "Members", kind: "number", value: (one) => one.members.length, cell: (one) => `${one.members_before.length} → ${one.members.length}` },
    { key: "sure", title: "Confidence", value: (one) => one.confidence, cell: (one) => html`<${Confidence} word=${one.confidence} />` },
  ];
}

function listAsMarkdown(body) {
  const patterns = body.patterns.map((one) => `- **${plain(one.pattern)}**: ${visible(one.sentence)}`);
  const lines = body.rebalances.map((one) => `- ${new Date(one.opened_at_ms).toISOString()} ${visible(one.sentence)}`);
  return [`### Rebalances of ${visible(body.group)}`, "", ...patterns, ...lines].join("\n");
}
