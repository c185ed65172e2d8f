/** Partitions of a group: committed offset, lag, owner, records around the offset. */
import { useMemo } from "preact/hooks";
import { html } from "../parts/html.js";
import { Health } from "../parts/badge.js";
import { count, duration, number, rate } from "../parts/format.js";
import { Heading, matcher, Search } from "../parts/heading.js";
import { useJson } from "../parts/json.js";
import { choose, pathOf, usePlace } from "../parts/router.js";
import { Table } from "../parts/table.js";
import { Brief, Known, Member, Records, Waited } from "../parts/text.js";
import { useSpan } from "../parts/timebar.js";
import { markdownTable, memberName, shellWord, visible } from "../parts/words.js";
import { Peek } from "./peek.js";

const WORDS = ["STOP", "STALL", "REWIND", "WARN", null, "OK"];
/** Filters of the partitions: name in the address, title, condition. */
const ONLY = [
  ["", "all", () => true],
  ["lag", "with lag", (one) => one.lag > 0],
  ["unowned", "without owner", (one) => !one.owner],
  ["uncommitted", "never committed", (one) => one.committed === null],
];

/** @param {{group: string, status: any}} props */
export function PartitionsView({ group, status }) {
  const { params } = usePlace();
  const rebalances = useJson(pathOf("groups", group, "rebalances"), useSpan(), { on: ["entries"] });
  const moves = useMemo(() => movesOf(rebalances.body), [rebalances.body]);
  if (!status) return null;
  const only = ONLY.find(([name]) => name === (params.only ?? "")) ?? ONLY[0];
  const matches = matcher(params.filter);
  const shown = status.partitions.filter((one) => only[2](one) && matches([`${one.topic}-${one.partition}`, one.owner && memberName(one.owner), one.status, one.reason]));
  return html`<${Heading} level=${2} title="Partitions" sentence=${sentenceOf(status)} command=${`kohort group describe ${shellWord(group)}`} markdown=${() => asMarkdown(shown)}>
      <${Search} value=${params.filter ?? ""} label="Filter partitions" onInput=${(filter) => choose({ filter })} /><//>
    ${params.peek && html`<${Peek} path=${pathOf("groups", group, "peek")} place=${params.peek} command=${(topic, partition) => `kohort group peek ${shellWord(group)} ${shellWord(`${topic}:${partition}`)}`} />`}
    <div class="counts" role="group" aria-label="Which partitions">${ONLY.map(([name, title, test]) => {
      const times = status.partitions.filter(test).length;
      return html`<button type="button" class=${times || only[0] === name ? "" : "zero"} aria-pressed=${only[0] === name} onClick=${() => choose({ only: name })}>${title} <b>${times}</b></button>`;
    })}</div>
    <${Table} caption="Partitions" columns=${columnsWith(moves)} rows=${shown} keyOf=${(one) => `${one.topic}-${one.partition}`} order="status.up" rowHeight=${46} empty="No partition matches." />`;
}

/** Number of owner changes of each partition in the rebalances of the time span; null without a journal. */
function movesOf(body) {
  if (!body) return null;
  const times = new Map();
  for (const move of body.rebalances.flatMap((one) => one.moves)) {
    const place = `${move.topic}-${move.partition}`;
    times.set(place, (times.get(place) ?? 0) + 1);
  }
  return times;
}

function columnsWith(moves) {
  const of = (one) => (moves === null ? null : (moves.get(`${one.topic}-${one.partition}`) ?? 0));
  const moved = { key: "moved", title: "Moved", needs: "wide", kind: "number", help: "moves to another member in this time span", value: of, cell: (one) => html`<${Known} value=${of(one)} why="no journal has rebalances of this time span" as=${(times) => `${times}×`} />` };
  return [...COLUMNS.slice(0, -2), moved, ...COLUMNS.slice(-2)];
}

function sentenceOf(status) {
  const lagging = status.partitions.filter((one) => one.lag > 0).length;
  return `${count(status.partitions.length, "partition")}, ${lagging || "none"} with lag, ${status.partitions.filter((one) => !one.owner).length || "none"} without an owner.`;
}

function rank(one) {
  return WORDS.indexOf(one.status ?? null);
}

/** @type {import("../parts/table.js").Column[]} */
const COLUMNS = [
  { key: "status", title: "Status", value: rank, cell: (one) => html`<${Health} word=${one.status} why=${one.reason} />` },
  { key: "place", title: "Partition, and why", head: true, width: "wide", value: (one) => `${one.topic}-${one.partition}`, cell: (one) => html`<span class="name"><${Brief} value=${`${one.topic}-${one.partition}`} limit=${48} /></span><div class="under reason">${one.status === "OK" ? "" : html`<${Brief} value=${one.reason} limit=${110} />`}</div>` },
  { key: "owner", title: "Owner", value: (one) => one.owner && memberName(one.owner), cell: (one) => html`<${Member} member=${one.owner} />` },
  { key: "committed", title: "Committed", kind: "number", value: (one) => one.committed, cell: (one) => html`<${Known} value=${one.committed} why="never committed" as=${number} />` },
  { key: "end", title: "End", kind: "number", help: "log end; below it, the last stable offset of an open transaction", value: (one) => one.log_end, cell: (one) => html`<${Known} value=${one.log_end} as=${number} />${one.last_stable !== null && one.last_stable !== one.log_end ? html`<div class="under">stable ${number(one.last_stable)}</div>` : ""}` },
  { key: "lag", soon: true, title: "Lag", kind: "number", value: (one) => one.lag, cell: (one) => html`<${Records} value=${one.lag} why=${one.unknown} />` },
  { key: "wait", title: "Waited", kind: "number", value: (one) => one.lag_ms, cell: (one) => html`<${Waited} value=${one.lag_ms} />` },
  { key: "lead", title: "Lead", kind: "number", help: "distance of the next record from the log start: at 0, retention is about to delete unread records", value: (one) => one.lead, cell: (one) => html`<${Known} value=${one.lead} as=${number} />${one.lost ? html`<div class="under bad-text">${number(one.lost)} lost</div>` : ""}` },
  { key: "in", title: "Written", kind: "number", value: (one) => one.written_per_s, cell: (one) => html`<${Known} value=${one.written_per_s} why="rates need several samples" as=${rate} />` },
  { key: "out", title: "Read", kind: "number", value: (one) => one.read_per_s, cell: (one) => html`<${Known} value=${one.read_per_s} why="rates need several samples" as=${rate} />` },
  { key: "eta", title: "Caught up in", kind: "number", value: (one) => one.eta_ms, cell: (one) => html`<${Known} value=${one.eta_ms} why="the lag does not shrink, or its rate is unknown" as=${duration} />` },
  { key: "said", title: "Metadata", needs: "wide", help: "the metadata of the commit", value: (one) => one.metadata || null, cell: (one) => (one.metadata ? html`<${Brief} value=${one.metadata} limit=${24} />` : "") },
  { key: "look", title: "Records", cell: (one) => html`<button type="button" class="small" aria-label=${visible(`peek at the records of ${one.topic}-${one.partition}`)} onClick=${() => choose({ peek: `${one.topic}-${one.partition}` }, { push: true })}>peek</button>` },
];

function asMarkdown(partitions) {
  const rows = partitions.map((one) => [one.status, `${one.topic}-${one.partition}`, one.owner && memberName(one.owner), one.committed, one.log_end, one.lag, one.reason]);
  return markdownTable(["Status", "Partition", "Owner", "Committed", "End", "Lag", "Why"], rows);
}
