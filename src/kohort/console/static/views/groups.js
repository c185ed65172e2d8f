/** List of all groups, the worst health first. */
import { useEffect, useMemo } from "preact/hooks";
import { html } from "../parts/html.js";
import { Health } from "../parts/badge.js";
import { Cause } from "../parts/cause.js";
import { Answer } from "../parts/failure.js";
import { compact, count, duration, number, share } from "../parts/format.js";
import { Heading, matcher, Search } from "../parts/heading.js";
import { useJson } from "../parts/json.js";
import { useOutage } from "../parts/live.js";
import { sinceWords } from "../parts/outage.js";
import { choose, pathOf, usePlace } from "../parts/router.js";
import { Sparkline } from "../parts/sparkline.js";
import { Table } from "../parts/table.js";
import { Ago, Brief, Known, Link, Records, Unknown, Waited } from "../parts/text.js";
import { markdownTable, plain, visible } from "../parts/words.js";

const WORDS = ["STORM", "STOP", "STALL", "REWIND", "WARN", "REBALANCING", null, "OK"];
const ROW_PX = 46;
const CHOICES = 500;

/** Merge changed rows from the stream into the list of groups. */
function mergeGroups(body, kind, news) {
  if (kind !== "groups") return undefined;
  const rows = news.groups ?? (Array.isArray(news) ? news : []);
  const changed = new Map(rows.map((row) => [row.group, row]));
  const deleted = new Set(news.deleted ?? []);
  const groups = body.groups.filter((row) => !deleted.has(row.group)).map((row) => take(changed, row));
  groups.push(...changed.values());
  groups.sort((a, b) => rank(a) - rank(b));
  const trends = { ...body.trends, ...news.trends };
  for (const group of deleted) delete trends[group];
  return { ...body, groups, trends };
}

/** Take the changes of a row out of the stream event; without a new lag trend, keep the row's old one. */
function take(changed, row) {
  const news = changed.get(row.group);
  changed.delete(row.group);
  return news ? { trend: row.trend, ...news } : row;
}

function rank(row) {
  return WORDS.indexOf(row.health ?? null);
}

export function GroupsView() {
  const asked = useJson("/groups", {}, { merge: mergeGroups });
  const outage = useOutage();
  return html`<${Answer} past of=${asked} title="Groups">${(body) => html`<${Groups} body=${outage ? withoutValues(body, sinceWords(outage)) : body} outage=${outage} />`}<//>`;
}

/** Group names of the last sample, during an outage; all values are unknown. */
function withoutValues(body, why) {
  const nothing = { state: "Unknown", assignor: "", group_type: "", members: null, partitions: null, lag: null, lag_ms: null, health: null, rebalances_1h: null, last_rebalance: null, coordinator_id: null, topics: [] };
  return { groups: body.groups.map(({ group }) => ({ ...nothing, group, reason: why })), trends: {} };
}

function Groups({ body, outage }) {
  const { params } = usePlace();
  const shown = useMemo(() => chosenRows(body.groups, params), [body, params.filter, params.health, params.state, params.cause, params.topic]);
  useEffect(() => performance.mark("kohort: groups drawn"), []);
  const troubled = body.groups.filter((row) => rank(row) < WORDS.indexOf("REBALANCING"));
  return html`
    <${Heading} title="Groups" sentence=${outage ? `Unknown: ${sinceWords(outage)}. Listed: the groups of the last sample.` : sentenceOf(body.groups, troubled)} command="kohort groups" markdown=${() => markdownOf(shown)}>
      <${Choice} name="state" title="any state" values=${body.groups.map((row) => row.state)} chosen=${params.state} />
      <${Choice} name="cause" title="any cause" values=${body.groups.map((row) => row.last_rebalance?.cause)} chosen=${params.cause} as=${plain} />
      <${Choice} name="topic" title="any topic" values=${body.groups.flatMap((row) => row.topics ?? [])} chosen=${params.topic} />
      <${Search} value=${params.filter ?? ""} label="Filter groups" onInput=${(filter) => choose({ filter })} />
    <//>
    <${Counts} groups=${body.groups} chosen=${params.health} outage=${outage} />
    <${Table} caption="Groups, the worst first" columns=${columnsFor(body)} rows=${shown} keyOf=${(row) => row.group} rowHeight=${ROW_PX} empty=${body.groups.length ? "No group matches the filter." : html`<${NoGroups} />`} />`;
}

function sentenceOf(groups, troubled) {
  if (!groups.length) return "The cluster shows no group.";
  const unknown = groups.filter((row) => (row.health ?? null) === null).length;
  if (!troubled.length) return `${count(groups.length, "group")}; ${healthWords(groups.length - unknown, unknown)}.`;
  const worst = troubled[0];
  const needs = troubled.length === 1 ? "needs" : "need";
  const which = troubled.length < groups.length ? `${count(troubled.length, "group")} of ${number(groups.length)}` : groups.length === 1 ? "The only group" : `All ${number(groups.length)} groups`;
  return html`<strong>${which} ${needs} attention.</strong> Worst: <${Link} to=${pathOf("groups", worst.group, "overview")}><${Brief} value=${worst.group} /><//>: <${Brief} value=${worst.reason || worst.health} limit=${140} />`;
}

/** Sentence about the groups that need attention; counts only groups with known health. */
function healthWords(known, unknown) {
  if (!unknown) return "none needs attention";
  if (!known) return "the health of all is unknown";
  return `${known} ${known === 1 ? "needs" : "need"} no attention, the health of ${unknown} is unknown`;
}

/** A filter for a column: a menu of the column's values; the chosen value is in the address. */
function Choice({ name, title, values, chosen, as = (value) => value }) {
  const some = [...new Set(chosen ? [...values, chosen] : values)].filter(Boolean).sort().slice(0, CHOICES);
  return html`<label><span class="hidden">${name}</span><select value=${chosen ?? ""} onChange=${(event) => choose({ [name]: event.target.value })}><option value="">${title}</option>${some.map((value) => html`<option value=${value}>${visible(as(value)).slice(0, 60)}</option>`)}</select></label>`;
}

function chosenRows(groups, { filter, health, state, cause, topic }) {
  const matches = matcher(filter);
  return groups.filter(
    (row) =>
      (!health || (row.health ?? "unknown") === health) &&
      (!state || row.state === state) &&
      (!cause || row.last_rebalance?.cause === cause) &&
      (!topic || row.topics?.includes(topic)) &&
      matches([row.group, row.reason, row.state, row.health, row.assignor, row.last_rebalance?.cause]),
  );
}

/** Number of groups of each health; a click on a number filters the list. */
function Counts({ groups, chosen, outage }) {
  const shown = (times) => (outage ? html`<${Unknown} why=${sinceWords(outage)} />` : times);
  return html`<div class="counts" role="group" aria-label="Filter by health">
    <button type="button" aria-pressed=${!chosen} onClick=${() => choose({ health: null })}>all <b>${shown(groups.length)}</b></button>
    ${WORDS.map((word) => {
      const times = groups.filter((row) => (row.health ?? null) === word).length;
      const name = word ?? "unknown";
      return times > 0 && html`<button type="button" aria-pressed=${chosen === name} onClick=${() => choose({ health: chosen === name ? null : name })}><${Health} word=${word} /> <b>${shown(times)}</b></button>`;
    })}
  </div>`;
}

/** @returns {import("../parts/table.js").Column[]} */
function columnsFor(body) {
  return [
    { key: "health", title: "Health", value: rank, cell: (row) => html`<${Health} word=${row.health} why=${row.reason} />` },
    { key: "group", title: "Group, and why", value: (row) => row.group, head: true, width: "wide", cell: (row) => html`<${Name} row=${row} />` },
    { key: "state", title: "State", needs: "middle", value: (row) => row.state, cell: (row) => html`${visible(row.state)}<div class="under">${visible(row.assignor || row.group_type)}</div>` },
    { key: "members", title: "Members", kind: "number", value: (row) => row.members, cell: (row) => html`<${Known} value=${row.members} why=${row.reason} as=${String} /><div class="under">${[row.idle_members && `${row.idle_members} idle`, row.stuck_members && `${row.stuck_members} stuck`].filter(Boolean).join(", ")}</div>` },
    { key: "lag", soon: true, title: "Lag", kind: "number", help: "unread records", value: (row) => row.lag, cell: (row) => html`<${Records} value=${row.lag} /><div class="under">${row.partitions === null ? "" : count(row.partitions, "partition")}</div>` },
    { key: "wait", title: "Waited", kind: "number", help: "age of the next unread record: the oldest of all partitions", value: (row) => row.lag_ms, cell: (row) => html`<${Waited} value=${row.lag_ms} complete=${row.lag_ms_complete} />` },
    { key: "trend", title: "15 min", needs: "middle", help: "lag in the last 15 minutes", cell: (row) => html`<${Trend} row=${row} values=${row.trend ?? body.trends?.[row.group]} />` },
    { key: "rebalances", title: "Rebal./h", needs: "middle", kind: "number", help: "rebalances in the last hour, without second rounds of cooperative rebalances; and the share of stable time", value: (row) => row.rebalances_1h, cell: (row) => html`<${Known} value=${row.rebalances_1h} why="there is no journal" /><div class="under">${row.stable_share_1h === null || row.stable_share_1h === undefined ? "" : `${stableWords(row.stable_share_1h)} stable`}</div>` },
    { key: "last", title: "Last rebalance", width: "brief", value: (row) => row.last_rebalance?.at_ms, cell: (row) => html`<${Last} row=${row} />` },
    { key: "node", title: "Node", needs: "wide", kind: "number", help: "broker that coordinates the group", value: (row) => row.coordinator_id, cell: (row) => html`<${Known} value=${row.coordinator_id} why="its coordinator is unknown" as=${String} />` },
  ];
}

/** Format a share as a percentage; a share below 100 % is never rounded up to 100 %. */
function stableWords(part) {
  return part < 1 && part > 0.995 ? "> 99 %" : share(part);
}

function Name({ row }) {
  return html`<${Link} to=${pathOf("groups", row.group, "overview")} class="name"><${Brief} value=${row.group} limit=${48} /><//>
    <div class="under reason">${row.health === "OK" ? "" : html`<${Brief} value=${row.reason} limit=${110} />`}</div>`;
}

function Trend({ row, values }) {
  const drains = row.draining === "draining" && row.eta_ms !== null;
  return html`<${Sparkline} values=${values} /><div class="under">${drains ? `done in ${duration(row.eta_ms)}` : row.lag ? plain(row.draining) : ""}</div>`;
}

function Last({ row }) {
  const last = row.last_rebalance;
  if (!last) return html`<${Unknown} why=${row.rebalances_1h === null ? "there is no journal" : "the journal has none"} />`;
  return html`<${Ago} ms=${last.at_ms} />${last.took_ms !== null && `, ${duration(last.took_ms)}`}<div class="under" data-tip=${visible(plain(last.cause))}><${Cause} code=${last.cause} /></div>`;
}

function NoGroups() {
  return html`No group has ever committed or joined here. To make one:<br /><code>kohort topics create orders --partitions 6</code><br /><code>kohort consume orders --group my-group</code>`;
}

function markdownOf(rows) {
  return markdownTable(
    ["Health", "Group", "State", "Members", "Lag", "Waited", "Why"],
    rows.map((row) => [row.health ?? "unknown", row.group, row.state, row.members, row.lag === null ? null : compact(row.lag), row.lag_ms === null ? null : duration(row.lag_ms), row.reason]),
  );
}
