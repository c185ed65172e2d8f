/** V5: the members: what each does, what it has, how far behind; and, of a modern group, who is not at its target. */
import { html } from "../parts/html.js";
import { StateWord } from "../parts/badge.js";
import { Against } from "../parts/bars.js";
import { Evidence } from "../parts/evidence.js";
import { count, duration } from "../parts/format.js";
import { Heading, matcher, Search } from "../parts/heading.js";
import { useJson } from "../parts/json.js";
import { useLive } from "../parts/live.js";
import { choose, pathOf, usePlace } from "../parts/router.js";
import { Table } from "../parts/table.js";
import { Brief, Known, Member, Records, Text, Unknown, Waited } from "../parts/text.js";
import { markdownTable, memberName, shellWord, visible } from "../parts/words.js";
import { Places, Standings } from "./rebalance-tables.js";

const WORST = ["stuck", "stalled", "STALL", "STOP", "hot", "WARN", "slow", "unknown", "idle", "OK", "ok"];
const POLL_AGO = "org.apache.kafka.consumer.last.poll.seconds.ago";
const POLL_LIMIT_MS = 300_000;

/** @param {{group: string, status: any}} props */
export function MembersView({ group, status }) {
  const { params } = usePlace();
  const { mode } = useLive();
  const described = useJson(mode === "live" ? pathOf("groups", group, "describe") : null, {}, { on: ["entries"] });
  const told = useJson(mode !== "live" && status?.protocol === "consumer" ? pathOf("groups", group, "rebalances") : null);
  if (!status) return null;
  const more = new Map((described.body?.members ?? []).map((one) => [one.member_id, one]));
  const matches = matcher(params.filter);
  const shown = status.members.filter((one) => matches([memberName(one.who), one.who.client_id, one.who.host, one.state, one.reason]));
  return html`<${Heading} level=${2} title="Members" sentence=${sentenceOf(status)} command=${`kohort group members ${shellWord(group)}`} markdown=${() => asMarkdown(status)}>
      <${Search} value=${params.filter ?? ""} label="Filter members" onInput=${(filter) => choose({ filter })} /><//>
    <${Table} caption="Members" columns=${columnsFor(more, status)} rows=${shown} keyOf=${(one) => one.who.member_id} order="state.up" rowHeight=${46} empty="It has no members: nobody reads." />
    ${status.protocol === "consumer" && html`<${Reconciliation} standing=${more.size ? standingOf(status, more) : (told.body?.rebalances.at(-1)?.standing ?? [])} />`}
    <${Why} members=${shown} />`;
}

/** Of a modern group: what members have against what they are to have. */
function Reconciliation({ standing }) {
  return standing.length ? html`<${Standings} standing=${standing} title="Reconciliation: target against current" />` : null;
}

function sentenceOf(status) {
  const idle = status.members.filter((one) => one.state === "idle").length;
  const bad = status.members.filter((one) => !["OK", "ok", "idle", "unknown"].includes(one.state)).length;
  const parts = [count(status.members.length, "member"), idle && `${idle} idle`, bad && `${bad} with a problem`];
  return `${parts.filter(Boolean).join(", ")}.`;
}

function rank(member) {
  const at = WORST.indexOf(member.state);
  return at < 0 ? WORST.indexOf("slow") : at;
}

function columnsFor(more, status) {
  return [
    { key: "state", title: "State", value: rank, cell: (one) => html`<${StateWord} word=${one.state} />` },
    { key: "who", title: "Member, and why", head: true, width: "wide", value: (one) => memberName(one.who), cell: (one) => html`<span class="name"><${Member} who=${one.who} /></span>${one.who.instance_id && html` <span class="chip">static</span>`}<div class="under reason"><${Brief} value=${one.reason} limit=${120} /></div>` },
    { key: "host", title: "Host", value: (one) => one.who.host, cell: (one) => html`<${Brief} value=${one.who.host} limit=${32} /><div class="under"><${Brief} value=${one.who.client_id} limit=${32} /></div>` },
    { key: "parts", title: "Partitions", kind: "number", value: (one) => one.partitions.length, cell: (one) => html`<${Places} of=${one.partitions} />` },
    { key: "lag", title: "Lag", kind: "number", value: (one) => one.lag, cell: (one) => html`<${Records} value=${one.lag} />` },
    { key: "wait", title: "Waited", kind: "number", value: (one) => one.lag_ms, cell: (one) => html`<${Waited} value=${one.lag_ms} complete=${one.lag_ms_complete} />` },
    { key: "eta", title: "Caught up in", kind: "number", value: (one) => one.eta_ms, cell: (one) => html`<${Known} value=${one.eta_ms} why="it does not get less, or no rates were seen" as=${duration} />` },
    { key: "poll", title: "Last poll, of limit", help: "as its client pushed it (KIP-714), against max.poll.interval.ms' default", value: (one) => pollAgoMs(more.get(one.who.member_id)), cell: (one) => html`<${PollAge} ago=${pollAgoMs(more.get(one.who.member_id))} />` },
    ...(status.protocol === "consumer" ? [{ key: "epoch", title: "Epoch", kind: "number", value: (one) => one.epoch, cell: (one) => html`<${Known} value=${one.epoch} as=${String} />${one.epoch !== null && status.epoch !== null && one.epoch < status.epoch ? html`<div class="under">of ${status.epoch}</div>` : ""}` }] : []),
  ];
}

function pollAgoMs(described) {
  const seconds = described?.client_metrics?.values?.[POLL_AGO];
  return seconds === undefined ? null : seconds * 1000;
}

function PollAge({ ago }) {
  if (ago === null) return html`<${Unknown} why="its client pushes no metrics (KIP-714): kohort client-metrics set asks for them" />`;
  return html`<${Against} value=${ago} limit=${POLL_LIMIT_MS} name="time since the last poll" />`;
}

/** What `group.describe` says of members, as standings: the same table as in a rebalance. */
function standingOf(status, more) {
  const owners = new Map(status.members.flatMap((one) => one.partitions.map((place) => [place, one.who.member_id])));
  return status.members.map((one) => {
    const told = more.get(one.who.member_id);
    const get = told?.to_get ?? [];
    const awaited = get.filter((place) => owners.has(place)).map((place) => [place, owners.get(place)]);
    const lags = told?.to_give_up?.length ? "is to give up partitions" : get.length ? "waits for partitions" : "at the target";
    return { who: one.who, epoch: told?.member_epoch ?? one.epoch, state: lags, known: true, has: one.partitions, target: told?.target_assignment ?? null, to_revoke: told?.to_give_up ?? [], still_to_get: get, awaited_from: Object.fromEntries(awaited) };
  });
}

/** The evidence of those that are not well. */
function Why({ members }) {
  const unwell = members.filter((one) => !["OK", "ok"].includes(one.state) && one.evidence.length).slice(0, 20);
  if (!unwell.length) return null;
  return html`<section><h3>What these states rest on</h3>${unwell.map((one) => html`<details><summary><${Member} who=${one.who} />: <${Text} value=${one.reason} limit=${200} /></summary><${Evidence} facts=${one.evidence} /></details>`)}</section>`;
}

function asMarkdown(status) {
  const rows = status.members.map((one) => [one.state, memberName(one.who), one.who.host, one.partitions.length, one.lag, one.reason]);
  return `${visible(status.sentence)}\n\n${markdownTable(["State", "Member", "Host", "Partitions", "Lag", "Why"], rows)}`;
}
