/** Causes of rebalances over time, of all groups or of one group. */
import { html } from "../parts/html.js";
import { byFamily, Legend, Patterns } from "../parts/bars.js";
import { Cause, Explain, FAMILY_NAMES, familyOf } from "../parts/cause.js";
import { Answer } from "../parts/failure.js";
import { Save } from "../parts/copy.js";
import { csv, fileName } from "../parts/csv.js";
import { usePhone } from "../parts/fold.js";
import { count, share, timeOfDay, utc } from "../parts/format.js";
import { Heading } from "../parts/heading.js";
import { HeatMap } from "../parts/heatmap.js";
import { OF_CLUSTER, useJson } from "../parts/json.js";
import { choose, pathOf, usePlace } from "../parts/router.js";
import { Table } from "../parts/table.js";
import { Brief, Link, Time } from "../parts/text.js";
import { useSpan } from "../parts/timebar.js";
import { markdownTable, plain, shellWord, visible } from "../parts/words.js";

const HEIGHT = 140;
const BARS = 60;
/** Number of columns of the heat map: each column has room for its count. */
const CELLS = 12;
const CELLS_OF_PHONE = 4;

export function CausesView() {
  const { from } = useSpan();
  const asked = useJson("/causes", { since: from }, OF_CLUSTER);
  const software = useJson("/causes/software", { since: from });
  return html`<${Answer} past of=${asked} title="Causes">${(body) => html`<${Causes} body=${body} title="Causes" level=${1} software=${software} />`}<//>`;
}

/** Causes of one group's rebalances. @param {{group: string}} props */
export function GroupCausesView({ group }) {
  const { from, until } = useSpan();
  const asked = useJson(pathOf("groups", group, "causes"), { from, until }, { on: ["entries"] });
  const software = useJson(pathOf("groups", group, "causes", "software"), { from, until });
  return html`<${Answer} past of=${asked}>${(body) => html`<${Causes} body=${body} title="Causes" level=${2} group=${group} software=${software} />`}<//>`;
}

function Causes({ body, title, level, group = null, software }) {
  const { params } = usePlace();
  const all = totals(body.buckets);
  const sum = Object.values(all).reduce((a, b) => a + b, 0);
  const [first] = Object.entries(all).sort((a, b) => b[1] - a[1]);
  const sentence = first ? `${count(sum, "rebalance")}; most often ${plain(first[0])} (${first[1]}).` : "No rebalances in this span.";
  const heat = params.as !== "bars";
  const command = group === null ? "kohort groups" : `kohort group why ${shellWord(group)} --last 0`;
  return html`<${Heading} level=${level} title=${title} sentence=${sentence} command=${command} markdown=${() => asMarkdown(all)}>
      <${Save} label="Save as CSV" name=${`${fileName(...(group === null ? ["causes"] : [group, "causes"]))}.csv`} text=${() => asCsv(body.buckets)} /><//>
    ${sum > 0 && html`<div class="counts" role="group" aria-label="Drawn as"><button type="button" aria-pressed=${heat} onClick=${() => choose({ as: null })}>heat map</button><button type="button" aria-pressed=${!heat} onClick=${() => choose({ as: "bars" })}>bars</button></div>
      ${heat ? html`<${CauseHeat} buckets=${body.buckets} all=${all} />` : html`<${StackedBars} buckets=${joined(body.buckets, BARS)} /><${Legend} families=${byFamily(all)} />`}
      <details><summary>The same as a table</summary><${BucketTable} buckets=${body.buckets} /></details>
      <div class="columns"><${CauseTable} all=${all} />${body.offenders.length > 0 && html`<${Offenders} offenders=${body.offenders} />`}<${Software} of=${software} /></div>`}
    ${Object.keys(body.stable_share).length > 0 && html`<${Stable} shares=${body.stable_share} />`}`;
}

/** Heat map of causes over time, the most frequent cause first. */
function CauseHeat({ buckets: every, all }) {
  const buckets = joined(every, usePhone() ? CELLS_OF_PHONE : CELLS);
  const columns = buckets.map((one) => ({ title: timeOfDay(one.from_ms, buckets.at(-1).until_ms).replace(/:\d\d$/, ""), from_ms: one.from_ms }));
  const rows = Object.entries(all).sort((a, b) => b[1] - a[1]).map(([cause]) => ({
    key: cause, name: visible(plain(cause)), title: html`<${Cause} code=${cause} />`, cells: buckets.map((one) => one.by_cause[cause] ?? 0),
  }));
  return html`<${HeatMap} caption="Causes over time" first="Cause" rows=${rows} columns=${columns} />`;
}

/** CSV lines: one for each cause in each time interval. */
function asCsv(buckets) {
  const lines = buckets.flatMap((one) => Object.entries(one.by_cause).map(([cause, times]) => [utc(one.from_ms), utc(one.until_ms), cause, FAMILY_NAMES[familyOf(cause)], times]));
  return csv([["from", "until", "cause", "kind", "rebalances"], ...lines]);
}

function totals(buckets) {
  const all = {};
  for (const bucket of buckets) for (const [cause, times] of Object.entries(bucket.by_cause)) all[cause] = (all[cause] ?? 0) + times;
  return all;
}

/** Join neighbouring time intervals, so that the chart has at most `most` bars. */
function joined(buckets, most) {
  const each = Math.max(1, Math.ceil(buckets.length / most));
  const found = [];
  for (let i = 0; i < buckets.length; i += each) {
    const some = buckets.slice(i, i + each);
    found.push({ from_ms: some[0].from_ms, until_ms: some[some.length - 1].until_ms, by_cause: totals(some) });
  }
  return found;
}

function StackedBars({ buckets }) {
  const highest = Math.max(1, ...buckets.map((one) => Object.values(one.by_cause).reduce((a, b) => a + b, 0)));
  const width = 100 / buckets.length;
  const last = buckets[buckets.length - 1];
  return html`<${Patterns} /><div class="stacked"><svg role="img" aria-label=${`rebalances over time by cause; at most ${highest} in one bar; the same is in the table below`}>
      ${buckets.map((bucket, i) => html`<${Stack} bucket=${bucket} x=${i * width} width=${width} unit=${HEIGHT / highest} />`)}
      <line class="base" x1="0" x2="100%" y1=${HEIGHT - 0.5} y2=${HEIGHT - 0.5} /></svg>
    <div class="axis"><span>${timeOfDay(buckets[0].from_ms)}</span><span>most in a bar: ${highest}</span><span>${timeOfDay(last.until_ms)}</span></div></div>`;
}

function Stack({ bucket, x, width, unit }) {
  let top = HEIGHT;
  return byFamily(bucket.by_cause).map((one) => {
    const height = one.times * unit;
    top -= height;
    return html`<rect x=${`${x + width * 0.1}%`} y=${top} width=${`${width * 0.8}%`} height=${Math.max(0, height - 1)} fill=${`url(#family-${one.family})`} data-tip=${`${timeOfDay(bucket.from_ms)}: ${one.name} ${one.times}`} />`;
  });
}

function BucketTable({ buckets }) {
  const rows = buckets.filter((one) => Object.keys(one.by_cause).length);
  const columns = [
    { key: "from", title: "From", head: true, value: (row) => row.from_ms, cell: (row) => html`<${Time} ms=${row.from_ms} />` },
    { key: "causes", title: "Causes", cell: (row) => Object.entries(row.by_cause).map(([cause, times]) => `${visible(plain(cause))} ${times}`).join(", ") },
  ];
  return html`<${Table} caption="Rebalances over time" columns=${columns} rows=${rows} keyOf=${(row) => String(row.from_ms)} sortParam="buckets" tall />`;
}

function CauseTable({ all }) {
  const rows = Object.entries(all).map(([cause, times]) => ({ cause, times }));
  const columns = [
    { key: "cause", title: "Cause", head: true, value: (row) => row.cause, cell: (row) => html`<${Cause} code=${row.cause} />` },
    { key: "family", title: "Kind", value: (row) => FAMILY_NAMES[familyOf(row.cause)], cell: (row) => FAMILY_NAMES[familyOf(row.cause)] },
    { key: "times", title: "Times", kind: "number", value: (row) => row.times, cell: (row) => row.times },
    { key: "explain", title: "Meaning", cell: (row) => html`<${Explain} code=${row.cause} />` },
  ];
  return html`<section><h2>By cause</h2><${Table} caption="Rebalances by cause" columns=${columns} rows=${rows} keyOf=${(row) => row.cause} order="times.down" sortParam="bycause" /></section>`;
}

function Offenders({ offenders }) {
  const columns = [
    { key: "name", title: "Name", head: true, value: (row) => row.name, cell: (row) => html`<${Brief} value=${row.name || "an unknown client"} limit=${40} />` },
    { key: "kind", title: "Is a", value: (row) => row.kind, cell: (row) => visible(row.kind) },
    { key: "times", title: "Rebalances", kind: "number", value: (row) => row.rebalances, cell: (row) => row.rebalances },
    { key: "cause", title: "Mostly", value: (row) => row.cause, cell: (row) => html`<${Cause} code=${row.cause} />` },
  ];
  return html`<section><h2>Triggers</h2><${Table} caption="Triggers of the rebalances" columns=${columns} rows=${offenders} keyOf=${(row) => `${row.kind} ${row.name} ${row.cause}`} order="times.down" sortParam="offenders" /></section>`;
}

/** Client software of the members that triggered rebalances; for unknown software, the reason. */
function Software({ of }) {
  return html`<${Answer} of=${of}>${(body) => html`<${SoftwareTable} body=${body} />`}<//>`;
}

function SoftwareTable({ body }) {
  const unknown = Object.entries(body.unknown).map(([why, times]) => ({ software: null, why, rebalances: times, cause: null }));
  const columns = [
    { key: "software", title: "Software", head: true, value: (row) => row.software ?? "", cell: (row) => (row.software === null ? html`<span class="soft">unknown: ${visible(row.why)}</span>` : html`<${Brief} value=${row.software} limit=${60} />`) },
    { key: "times", title: "Rebalances", kind: "number", value: (row) => row.rebalances, cell: (row) => row.rebalances },
    { key: "cause", title: "Mostly", value: (row) => row.cause ?? "", cell: (row) => row.cause && html`<${Cause} code=${row.cause} />` },
  ];
  return html`<section><h2>By client version</h2><${Table} caption="Client software of the members that triggered rebalances" columns=${columns} rows=${[...body.software, ...unknown]} keyOf=${(row) => row.software ?? `unknown ${row.why}`} order="times.down" sortParam="software" /></section>`;
}

function Stable({ shares }) {
  const rows = Object.entries(shares).map(([group, part]) => ({ group, part }));
  const columns = [
    { key: "group", title: "Group", head: true, value: (row) => row.group, cell: (row) => html`<${Link} to=${pathOf("groups", row.group, "causes")}><${Brief} value=${row.group} limit=${48} /><//>` },
    { key: "part", title: "Time stable", kind: "number", help: "share of the time span without a rebalance", value: (row) => row.part, cell: (row) => (row.part > 0.995 && row.part < 1 ? `${(row.part * 100).toFixed(2)} %` : share(row.part)) },
  ];
  return html`<section><h2>Share of time that groups were stable</h2><${Table} caption="Share of time that groups were stable" columns=${columns} rows=${rows} keyOf=${(row) => row.group} order="part.up" sortParam="stable" /></section>`;
}

function asMarkdown(all) {
  return markdownTable(["Cause", "Times"], Object.entries(all).sort((a, b) => b[1] - a[1]));
}
