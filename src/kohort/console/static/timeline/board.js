/** Board of a prediction: assignments before and after, and the cost. The change is not executed. */
import { useMemo, useState } from "preact/hooks";
import { compact } from "../parts/format.js";
import { html } from "../parts/html.js";
import { cut, memberName, visible } from "../parts/words.js";
import { boardOf, evenness } from "./before-after.js";
import { partsOf } from "./lanes.js";

const CHIPS_MOST = 60;
const ROWS_MOST = 40;
const HUES = 8;

/** @param {{group: object, prediction: object}} props a GroupFinding and a WhatIfFinding */
export function WhatIfBoard({ group, prediction }) {
  const board = useMemo(() => boardOf(group, prediction), [group, prediction]);
  const [all, setAll] = useState(false);
  const names = useMemo(() => namesOf(board), [board]);
  const hues = useMemo(() => huesOf(group), [group]);
  const many = board.rows.length > ROWS_MOST;
  const rows = all || !many ? board.rows : [...board.rows].sort((a, b) => Number(b.changed) - Number(a.changed)).slice(0, ROWS_MOST);
  return html`<section class="board" aria-label="Before and after" data-moves=${prediction.moves.length}>
    <p class="board-banner"><strong>A prediction.</strong> Nothing was executed: ${visible(prediction.scenario)}, with ${visible(prediction.assignor)} (${prediction.protocol}).</p>
    <${Metrics} board=${board} prediction=${prediction} />
    <div class="board-table" role="region" tabindex="0" aria-label="Members before and after">
      <table>
        <caption class="unseen">Partitions of each member before and after</caption>
        <thead><tr><th scope="col">Member</th><th scope="col">Before</th><th scope="col">After</th></tr></thead>
        <tbody>${rows.map((row) => html`<${Row} key=${row.id} row=${row} names=${names} hues=${hues} idle=${prediction.idle.includes(row.id)} />`)}
        <${Nobody} nobody=${board.nobody} hues=${hues} /></tbody>
      </table>
    </div>
    ${many && html`<button type="button" class="board-more" onClick=${() => setAll(!all)}>${all ? "Changes first" : `All ${board.rows.length} members`}</button>`}
    <p class="board-legend"><span class="board-chip gives">0</span> goes elsewhere <span class="board-chip gets">0</span> comes from elsewhere <span class="board-chip">0</span> stays</p>
    <${Words} title="Notes" of=${prediction.notes} /><${Words} title="Assumed" of=${prediction.assumptions} />
  </section>`;
}

function namesOf(board) {
  return new Map(board.rows.map((row) => [row.id, visible(nameOf(row))]));
}

const nameOf = (row) => row.member.instance_id ?? (row.member.client_id ? memberName({ ...row.member, member_id: row.id }) : row.id);

function huesOf(group) {
  const topics = [...new Set(group.partitions.map((one) => one.topic))].sort();
  return { of: (topic) => Math.max(0, topics.indexOf(topic)) % HUES, one: topics.length === 1 };
}

function Metrics({ board, prediction }) {
  const before = evenness(board.rows, "before");
  const after = evenness(board.rows, "after");
  const spread = (sizes) => (sizes === null ? "–" : sizes[0] === sizes[1] ? `${sizes[0]}` : `${sizes[1]} to ${sizes[0]}`);
  const pause = range(prediction.pause_from_s, prediction.pause_to_s);
  const waits = prediction.drain;
  return html`<dl class="board-metrics">
    <${Metric} name="Members" was=${prediction.members_before} now=${prediction.members_after} />
    <${Metric} name="Partitions of one member" was=${spread(before)} now=${spread(after)} />
    <${Metric} name="Partitions that move" now=${`${prediction.moves.length} of ${prediction.partitions}`} more=${prediction.moves_in_all > prediction.moves.length ? `${prediction.moves_in_all} moves on the way` : ""} />
    <${Metric} name="Rebalances" now=${prediction.rounds} />
    <${Metric} name="Total pause" now=${`${pause} s`} more="partition-seconds" tone=${prediction.pause_to_s > 60 ? "warn" : ""} />
    <${Metric} name="Idle" now=${prediction.idle.length} tone=${prediction.idle.length > 0 ? "warn" : ""} />
    ${waits && html`<${Metric} name="Peak lag" now=${[...new Set([waits.peak_lag_from, waits.peak_lag_to])].map(compact).join(" to ")} />
      <${Metric} name="Caught up after" now=${waits.drained_from_s === null ? "never" : waits.drained_to_s === null ? `${round(waits.drained_from_s)} s, or never` : `${range(waits.drained_from_s, waits.drained_to_s)} s`} tone=${waits.drained_to_s === null ? "warn" : ""} />`}
  </dl>`;
}

const round = (number) => (number >= 10 ? Math.round(number) : Math.round(number * 10) / 10);
const range = (from, to) => (round(from) === round(to) ? `${round(to)}` : `${round(from)} to ${round(to)}`);

function Metric({ name, was, now, more = "", tone = "" }) {
  const same = was === undefined || String(was) === String(now);
  const delta = typeof was === "number" && typeof now === "number" && was !== now ? `${now > was ? "+" : "−"}${Math.abs(now - was)}` : "";
  return html`<div class=${`board-metric ${tone}`}><dt>${name}</dt>
    <dd>${!same && html`<span class="was">${was}</span><span aria-hidden="true"> → </span><span class="unseen">to</span>`}<strong>${now}</strong>${delta && html` <em>${delta}</em>`}${more && html` <small>${more}</small>`}</dd></div>`;
}

function Row({ row, names, hues, idle }) {
  const fate = row.before === null ? "new" : row.after === null ? "goes" : "";
  return html`<tr class=${fate || (row.changed ? "changed" : "")}>
    <th scope="row"><b title=${visible(row.id)}>${cut(visible(nameOf(row)), 48)}</b>${fate && html`<span class="board-fate">${fate}</span>`}${idle && html`<span class="board-fate warn">idle</span>`}</th>
    <td><${Chips} chips=${row.before} kind="gives" names=${names} hues=${hues} none="new" /></td>
    <td><${Chips} chips=${row.after} kind="gets" names=${names} hues=${hues} none="departed" /></td>
  </tr>`;
}

function Chips({ chips, kind, names, hues, none }) {
  if (chips === null) return html`<span class="board-none">${none}</span>`;
  if (chips.length === 0) return html`<span class="board-none">no partition</span>`;
  const sorted = chips.length > CHIPS_MOST ? [...chips].sort((a, b) => Number(b.moved) - Number(a.moved)) : chips;
  return html`<span class="board-count">${chips.length}</span>${sorted.slice(0, CHIPS_MOST).map((one) => html`<${Chip} one=${one} kind=${kind} names=${names} hues=${hues} />`)}
    ${chips.length > CHIPS_MOST && html`<span class="board-none">and ${chips.length - CHIPS_MOST} more</span>`}`;
}

function Chip({ one, kind, names, hues }) {
  const [topic, number] = partsOf(one.name);
  const other = one.other === null ? "no owner" : (names.get(one.other) ?? visible(one.other));
  const where = one.moved ? ` ${kind === "gives" ? "goes to" : "comes from"} ${other}` : "";
  return html`<span class=${`board-chip h${hues.of(topic)} ${one.moved ? kind : ""}`} title=${`${visible(one.name)}${where}`}>${hues.one ? number : visible(one.name)}${where && html`<span class="unseen">${where}</span>`}</span>`;
}

function Nobody({ nobody, hues }) {
  if (nobody.before.length + nobody.after.length === 0) return null;
  const chips = (names) => html`${names.slice(0, CHIPS_MOST).map((name) => html`<${Chip} one=${{ name, moved: false, other: null }} kind="" names=${new Map()} hues=${hues} />`)}${names.length === 0 && html`<span class="board-none">–</span>`}`;
  return html`<tr class="changed"><th scope="row"><b>no owner</b></th><td>${chips(nobody.before)}</td><td>${chips(nobody.after)}</td></tr>`;
}

function Words({ title, of }) {
  if (of.length === 0) return null;
  return html`<h2>${title}</h2><ul class="board-words">${of.map((one) => html`<li>${visible(one)}</li>`)}</ul>`;
}
