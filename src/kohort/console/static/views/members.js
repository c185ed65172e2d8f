/** Members of a group: state, assignment, lag; for a consumer group (KIP-848) also its reconciliation. */
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
import { Ago, Brief, Known, Member, Records, Text, Waited } from "../parts/text.js";
import { markdownTable, memberName, shellWord, visible } from "../parts/words.js";
import { Places, Standings } from "./rebalance-tables.js";

const WORST = ["stuck", "stalled", "STALL", "STOP", "hot", "WARN", "slow", "unknown", "idle", "OK", "ok"];
/** @param {{group: string, status: any}} props */
export function MembersView({ group, status }) {
  const { params } = usePlace();
  const { mode } = useLive();
  const described = useJson(mode === "live" ? pathOf("groups", group, "describe") : null, {}, { on: ["entries"] });
  const told = useJson(status?.protocol === "consumer" ? pathOf("groups", group, "rebalances") : null, {}, { on: ["entries"] });
  const clients = useJson(pathOf("groups", group, "clients"));
  if (!status) return null;
  const known = new Map((clients.body?.clients ?? []).map((one) => [one.member_id, one]));
  const journal = told.body?.rebalances.at(-1)?.standing ?? [];
  const more = new Map((described.body?.members ?? []).map((one) => [one.member_id, one]));
  const matches = matcher(params.filter);
  const shown = status.members.filter((one) => matches([memberName(one.member), one.member.client_id, one.member.host, one.state, one.reason]));
  return html`<${Heading} level=${2} title="Members" sentence=${sentenceOf(status)} command=${`kohort group describe ${shellWord(group)} --members`} markdown=${() => asMarkdown(status)}>
      <${Search} value=${params.filter ?? ""} label="Filter members" onInput=${(filter) => choose({ filter })} /><//>
    <${Table} caption="Members" columns=${columnsFor(known, status)} rows=${shown} keyOf=${(one) => one.member.member_id} order="state.up" rowHeight=${46} empty="The group has no members." />
    ${status.protocol === "consumer" && html`<${Reconciliation} standing=${more.size ? standingOf(status, more, journal) : journal} />`}
    <${Why} members=${shown} />`;
}

/** Members of a consumer group (KIP-848): assignment and target assignment. */
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

function columnsFor(known, status) {
  return [
    { key: "state", title: "State", value: rank, cell: (one) => html`<${StateWord} word=${one.state} />` },
    { key: "member", title: "Member, and why", head: true, width: "wide", value: (one) => memberName(one.member), cell: (one) => html`<span class="name"><${Member} member=${one.member} /></span>${one.member.instance_id && html` <span class="chip">static</span>`}<div class="under reason"><${Brief} value=${one.reason} limit=${120} /></div>` },
    { key: "host", title: "Host", value: (one) => one.member.host, cell: (one) => html`<${Brief} value=${one.member.host} limit=${32} /><div class="under"><${Brief} value=${one.member.client_id} limit=${32} /></div>` },
    { key: "parts", title: "Partitions", kind: "number", value: (one) => one.partitions.length, cell: (one) => html`<${Places} of=${one.partitions} />` },
    { key: "lag", soon: true, title: "Lag", kind: "number", value: (one) => one.lag, cell: (one) => html`<${Records} value=${one.lag} />` },
    { key: "wait", title: "Waited", kind: "number", value: (one) => one.lag_ms, cell: (one) => html`<${Waited} value=${one.lag_ms} complete=${one.lag_ms_complete} />` },
    { key: "eta", title: "Caught up in", kind: "number", value: (one) => one.eta_ms, cell: (one) => html`<${Known} value=${one.eta_ms} why="the lag does not shrink, or its rate is unknown" as=${duration} />` },
    { key: "software", title: "Client", needs: "middle", value: (one) => known.get(one.member.member_id)?.software, cell: (one) => html`<${Known} value=${known.get(one.member.member_id)?.software} why=${whyNot(known, one, "software")} as=${(text) => html`<${Brief} value=${text} limit=${32} />`} />` },
    { key: "poll", title: "Last poll, of limit", help: "time since the last poll, pushed by the client (KIP-714); limit: max.poll.interval.ms of Java clients and librdkafka", value: (one) => known.get(one.member.member_id)?.last_poll_ms_ago, cell: (one) => html`<${Polls} about=${known.get(one.member.member_id)} why=${(what) => whyNot(known, one, what)} />` },
    { key: "session", title: "Session", kind: "number", needs: "wide", help: "session.timeout.ms: the member is removed after this silence", value: (one) => known.get(one.member.member_id)?.session_timeout_ms, cell: (one) => html`<${Known} value=${known.get(one.member.member_id)?.session_timeout_ms} why=${whyNot(known, one, "limits")} as=${duration} />` },
    ...(status.protocol === "consumer" ? [{ key: "epoch", title: "Epoch", kind: "number", value: (one) => one.epoch, cell: (one) => html`<${Known} value=${one.epoch} as=${String} />${one.epoch !== null && status.epoch !== null && one.epoch < status.epoch ? html`<div class="under">of ${status.epoch}</div>` : ""}` }] : []),
  ];
}

/** Reason why a value of a member's client is unknown. @param {"software"|"limits"|"polls"} what */
function whyNot(known, one, what) {
  return known.get(one.member.member_id)?.unknown[what] ?? "not reported yet";
}

/** Last poll and max.poll.interval.ms of a member, if known; below, the time of the client's metrics report. */
function Polls({ about, why }) {
  const ago = about?.last_poll_ms_ago ?? null;
  const limit = about?.rebalance_timeout_ms ?? null;
  const said = about?.said_at_ms ? html`<div class="under">reported <${Ago} ms=${about.said_at_ms} />${about.longest_poll_gap_ms !== null ? `; longest ${duration(about.longest_poll_gap_ms)}` : ""}</div>` : "";
  if (ago !== null && limit !== null) return html`<${Against} value=${ago} limit=${limit} name="time since the last poll" />${said}`;
  return html`<${Known} value=${ago} why=${why("polls")} as=${duration} /> of <${Known} value=${limit} why=${why("limits")} as=${duration} />${said}`;
}

/** Convert members of `group.describe` to rows of the table that a rebalance shows. */
function standingOf(status, more, journal) {
  const since = new Map(journal.map((one) => [one.member.member_id, one.to_revoke_since_ms]));
  const owners = new Map(status.members.flatMap((one) => one.partitions.map((place) => [place, one.member.member_id])));
  return status.members.map((one) => {
    const told = more.get(one.member.member_id);
    const get = told?.to_get ?? [];
    const awaited = get.filter((place) => owners.has(place)).map((place) => [place, owners.get(place)]);
    const lags = told?.to_revoke?.length ? "must revoke partitions" : get.length ? "waits for partitions" : "at the target";
    return { member: one.member, epoch: told?.member_epoch ?? one.epoch, state: lags, known: true, assignment: one.partitions, target: told?.target_assignment ?? null, to_revoke: told?.to_revoke ?? [], to_revoke_since_ms: since.get(one.member.member_id) ?? null, still_to_get: get, awaited_from: Object.fromEntries(awaited) };
  });
}

/** Evidence about members with problems. */
function Why({ members }) {
  const unwell = members.filter((one) => !["OK", "ok"].includes(one.state) && one.evidence.length).slice(0, 20);
  if (!unwell.length) return null;
  return html`<section><h3>Evidence for these states</h3>${unwell.map((one) => html`<details><summary><${Member} member=${one.member} />: <${Text} value=${one.reason} limit=${200} /></summary><${Evidence} facts=${one.evidence} /></details>`)}</section>`;
}

function asMarkdown(status) {
  const rows = status.members.map((one) => [one.state, memberName(one.member), one.member.host, one.partitions.length, one.lag, one.reason]);
  return `${visible(status.sentence)}\n\n${markdownTable(["State", "Member", "Host", "Partitions", "Lag", "Why"], rows)}`;
}
