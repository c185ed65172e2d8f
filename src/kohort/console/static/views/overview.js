/** Overview of a group: problems, lag over time with rebalances, key values. */
import { useMemo } from "preact/hooks";
import { html } from "../parts/html.js";
import { Confidence } from "../parts/badge.js";
import { CauseBar } from "../parts/bars.js";
import { Cause } from "../parts/cause.js";
import { LagChart } from "../parts/chart.js";
import { Evidence } from "../parts/evidence.js";
import { Answer } from "../parts/failure.js";
import { count, duration, number } from "../parts/format.js";
import { Heading } from "../parts/heading.js";
import { useJson } from "../parts/json.js";
import { nowMs } from "../parts/live.js";
import { go, pathOf } from "../parts/router.js";
import { Table } from "../parts/table.js";
import { Ago, Known, Link, Member, Records, Text, Time, Waited } from "../parts/text.js";
import { useSpan } from "../parts/timebar.js";
import { plain, rebalanceKey, rebalancesOf, shellWord, visible } from "../parts/words.js";
import { Findings, findingsAsMarkdown } from "./doctor.js";

/** @param {{group: string, status: any}} props */
export function OverviewView({ group, status }) {
  const span = useSpan();
  const rebalances = useJson(pathOf("groups", group, "rebalances"), span, { on: ["entries"] });
  const history = useJson(pathOf("groups", group, "lag-history"), span, { on: ["group"] });
  const doctor = useJson("/doctor", { group }, { on: ["group"] });
  const findings = (doctor.body?.findings ?? []).filter((one) => one.group === group);
  return html`
    <${Heading} level=${2} title="Now" command=${`kohort group describe ${shellWord(group)} --state`} markdown=${() => asMarkdown(status, findings)} />
    ${status && html`<${Cards} status=${status} group=${group} />`}
    ${findings.length > 0 && html`<section><h2>What to do next</h2><${Findings} findings=${findings} /></section>`}
    <section><h2>Lag, and rebalances</h2><${Answer} of=${history}>${(body) => html`<${Chart} history=${body} rebalances=${rebalances.body?.rebalances ?? []} group=${group} />`}<//></section>
    <${Answer} of=${rebalances}>${(body) => html`<${Causes} body=${body} group=${group} />`}<//>
    ${status && html`<${Evidence} facts=${status.evidence} title="Evidence for the health" />`}`;
}

function Cards({ status, group }) {
  const owned = status.partitions.filter((one) => one.owner).length;
  const last = status.last_rebalance;
  return html`<dl class="cards">
    <div><dt>State</dt><dd>${visible(plain(status.state))}<small>${visible(status.protocol)}, ${visible(status.assignor || "no assignor")}</small></dd></div>
    <div><dt>${status.protocol === "consumer" ? "Epoch" : "Generation"}</dt><dd><${Known} value=${status.epoch} why="only the journal has the generation of a classic group, and it has no entry" as=${String} /><small>node <${Known} value=${status.coordinator_id} why="its coordinator is unknown" as=${String} /></small></dd></div>
    <div><dt>Members</dt><dd><${Link} to=${pathOf("groups", group, "members")}>${status.members.length}<//><small>${owned} of ${count(status.partitions.length, "partition")} owned</small></dd></div>
    <div><dt>Lag</dt><dd><${Records} value=${status.lag} least=${status.lag_unknown > 0} /><small>${status.lag_unknown ? `${count(status.lag_unknown, "partition")} unknown` : status.lag === 1 ? "record" : "records"}</small></dd></div>
    <div><dt>Waited</dt><dd><${Waited} value=${status.lag_ms} complete=${status.lag_ms_complete} /><small>${drain(status)}</small></dd></div>
    <div><dt>Cause of the lag</dt><dd class="words">${status.blame === "none" ? "none" : visible(plain(status.blame))}<small>${status.blamed && html`<${Member} member=${status.blamed} />`}</small></dd></div>
    <div><dt>Last rebalance</dt><dd><${Ago} ms=${last?.at_ms} why="no journal has one" /><small>${last && html`<${Cause} code=${last.cause} />`}${last?.took_ms ? ` ${duration(last.took_ms)}` : ""}</small></dd></div>
    <div><dt>Confidence</dt><dd class="words"><${Confidence} word=${status.confidence} /><small>${status.sample_span_ms ? `sampled over ${duration(status.sample_span_ms)}` : "one sample: no rates"}</small></dd></div>
  </dl>`;
}

function drain(status) {
  if (status.eta_ms !== null && status.draining === "draining") return `caught up in ${duration(status.eta_ms)}`;
  return plain(status.draining) === "unknown" ? "the trend of the lag is unknown" : plain(status.draining);
}

function Chart({ history, rebalances, group }) {
  const bands = useMemo(() => rebalancesOf(rebalances).map((one) => ({ from: one.opened_at_ms, until: one.opened_at_ms + (one.took_ms ?? 0), key: rebalanceKey(one) })), [rebalances]);
  if (!history.times_ms.length) return html`<p class="empty">No lag in this time span.</p>`;
  const open = (ms) => {
    const band = nearest(bands, ms);
    if (band) go(pathOf("groups", group, "rebalances", band.key));
  };
  return html`<${LagChart} times=${history.times_ms} lag=${history.lag} bands=${bands} onPick=${open} />
    <p class="soft under">Hatched: rebalances. A click opens the one nearest.</p>
    <details><summary>The same as a table</summary><${HistoryTable} history=${history} /></details>`;
}

function nearest(bands, ms) {
  const distance = (band) => Math.abs(band.from - ms);
  return bands.reduce((best, band) => (best === null || distance(band) < distance(best) ? band : best), null);
}

function HistoryTable({ history }) {
  const rows = history.times_ms.map((at, i) => ({ at, lag: history.lag[i], waited: history.lag_ms?.[i] ?? null }));
  const columns = [
    { key: "at", title: "Time", head: true, value: (row) => row.at, cell: (row) => html`<${Time} ms=${row.at} />` },
    { key: "lag", title: "Lag", kind: "number", value: (row) => row.lag, cell: (row) => html`<${Known} value=${row.lag} why="no sample at that time" as=${number} />` },
    { key: "waited", title: "Waited", kind: "number", value: (row) => row.waited, cell: (row) => html`<${Waited} value=${row.waited} />` },
  ];
  return html`<${Table} caption="Lag over time" columns=${columns} rows=${rows} keyOf=${(row) => String(row.at)} sortParam="lagsort" tall />`;
}

function Causes({ body, group }) {
  const byCause = {};
  for (const one of rebalancesOf(body.rebalances)) byCause[one.cause] = (byCause[one.cause] ?? 0) + 1;
  const latest = body.rebalances.slice(-3).reverse();
  return html`<section><h2>Why it rebalanced</h2><${CauseBar} byCause=${byCause} />
    ${body.patterns.map((pattern) => html`<p class="pattern"><strong>${plain(pattern.pattern)}</strong> <${Text} value=${pattern.sentence} limit=${400} /></p>`)}
    <ul class="latest">${latest.map((one) => html`<li><${Ago} ms=${one.opened_at_ms} /> <${Link} to=${pathOf("groups", group, "rebalances", rebalanceKey(one))}><${Text} value=${one.sentence} limit=${260} /><//></li>`)}</ul></section>`;
}

function asMarkdown(status, findings) {
  if (!status) return "";
  return `### ${visible(status.group)}\n\n${visible(status.sentence)}\n\n${findingsAsMarkdown(findings)}\n\n(as of ${new Date(nowMs()).toISOString()})`;
}
