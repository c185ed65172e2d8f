/** V8: causes over time: of all groups, or of one. */
import { html } from "../parts/html.js";
import { byFamily, Legend, Patterns } from "../parts/bars.js";
import { Cause, Explain, FAMILY_NAMES, familyOf } from "../parts/cause.js";
import { Answer } from "../parts/failure.js";
import { count, share, timeOfDay } from "../parts/format.js";
import { Heading } from "../parts/heading.js";
import { useJson } from "../parts/json.js";
import { pathOf } from "../parts/router.js";
import { Table } from "../parts/table.js";
import { Brief, Link, Time } from "../parts/text.js";
import { useSpan } from "../parts/timebar.js";
import { markdownTable, plain, visible } from "../parts/words.js";

const HEIGHT = 140;
const BARS = 60;

export function CausesView() {
  const asked = useJson("/causes", { since: useSpan().from }, { on: ["entries"] });
  return html`<${Answer} of=${asked}>${(body) => html`<${Causes} body=${body} title="Causes" level=${1} />`}<//>`;
}

/** The same of one group. @param {{group: string}} props */
export function GroupCausesView({ group }) {
  const span = useSpan();
  const asked = useJson(pathOf("groups", group, "rebalances"), span, { on: ["entries"] });
  return html`<${Answer} of=${asked}>${(body) => html`<${Causes} body=${{ buckets: bucketsOf(body.rebalances, span), offenders: [], stable_share: {} }} title="Causes" level=${2} />`}<//>`;
}

/** Rebalances counted by time and cause. */
function bucketsOf(rebalances, { from, until }) {
  const width = Math.max(1, (until - from) / BARS);
  const buckets = Array.from({ length: BARS }, (_, i) => ({ from_ms: from + i * width, until_ms: from + (i + 1) * width, by_cause: {} }));
  for (const one of rebalances) {
    const bucket = buckets[Math.min(BARS - 1, Math.max(0, Math.floor((one.opened_at_ms - from) / width)))];
    bucket.by_cause[one.cause] = (bucket.by_cause[one.cause] ?? 0) + 1;
  }
  return buckets;
}

function Causes({ body, title, level }) {
  const all = totals(body.buckets);
  const sum = Object.values(all).reduce((a, b) => a + b, 0);
  const [first] = Object.entries(all).sort((a, b) => b[1] - a[1]);
  const sentence = first ? `${count(sum, "rebalance")}; most often ${plain(first[0])} (${first[1]}).` : "No rebalances in this span.";
  return html`<${Heading} level=${level} title=${title} sentence=${sentence} command="kohort explain" markdown=${() => asMarkdown(all)} />
    ${sum > 0 && html`<${StackedBars} buckets=${joined(body.buckets)} /><${Legend} families=${byFamily(all)} />
      <details><summary>The same as a table</summary><${BucketTable} buckets=${body.buckets} /></details>
      <div class="columns"><${CauseTable} all=${all} />${body.offenders.length > 0 && html`<${Offenders} offenders=${body.offenders} />`}</div>`}
    ${Object.keys(body.stable_share).length > 0 && html`<${Stable} shares=${body.stable_share} />`}`;
}

function totals(buckets) {
  const all = {};
  for (const bucket of buckets) for (const [cause, times] of Object.entries(bucket.by_cause)) all[cause] = (all[cause] ?? 0) + times;
  return all;
}

/** At most so many bars that each can be seen. */
function joined(buckets) {
  const each = Math.ceil(buckets.length / BARS);
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
    { key: "name", title: "Who", head: true, value: (row) => row.name, cell: (row) => html`<${Brief} value=${row.name || "an unknown client"} limit=${40} />` },
    { key: "kind", title: "Is a", value: (row) => row.kind, cell: (row) => visible(row.kind) },
    { key: "times", title: "Rebalances", kind: "number", value: (row) => row.rebalances, cell: (row) => row.rebalances },
    { key: "cause", title: "Mostly", value: (row) => row.cause, cell: (row) => html`<${Cause} code=${row.cause} />` },
  ];
  return html`<section><h2>Who is behind it</h2><${Table} caption="Who is behind the rebalances" columns=${columns} rows=${offenders} keyOf=${(row) => `${row.kind} ${row.name} ${row.cause}`} order="times.down" sortParam="offenders" /></section>`;
}

function Stable({ shares }) {
  const rows = Object.entries(shares).map(([group, part]) => ({ group, part }));
  const columns = [
    { key: "group", title: "Group", head: true, value: (row) => row.group, cell: (row) => html`<${Link} to=${pathOf("groups", row.group, "causes")}><${Brief} value=${row.group} limit=${48} /><//>` },
    { key: "part", title: "Time stable", kind: "number", help: "share of the span in which it was not rebalancing", value: (row) => row.part, cell: (row) => (row.part > 0.995 && row.part < 1 ? `${(row.part * 100).toFixed(2)} %` : share(row.part)) },
  ];
  return html`<section><h2>How much of the time groups were stable</h2><${Table} caption="Share of time that groups were stable" columns=${columns} rows=${rows} keyOf=${(row) => row.group} order="part.up" sortParam="stable" /></section>`;
}

function asMarkdown(all) {
  return markdownTable(["Cause", "Times"], Object.entries(all).sort((a, b) => b[1] - a[1]));
}
