/** Joins of a rebalance: arrival, reason, timeout. */
import { html } from "../parts/html.js";
import { Answer } from "../parts/failure.js";
import { count, duration } from "../parts/format.js";
import { useJson } from "../parts/json.js";
import { pathOf } from "../parts/router.js";
import { Table } from "../parts/table.js";
import { Known, Member, Text } from "../parts/text.js";

const OLD = "journal entries of that version have no such value";
const SLACK_MS = 1000;

/** Table of the journaled JoinGroup requests in a rebalance of a classic group. @param {{group: string, one: any}} props */
export function Joins({ group, one }) {
  if (one.protocol !== "classic" || one.origin !== "journal" || one.end === "no_rebalance") return null;
  return html`<${Asked} group=${group} one=${one} />`;
}

function Asked({ group, one }) {
  const until = one.opened_at_ms + (one.took_ms ?? 0) + SLACK_MS;
  const asked = useJson(pathOf("groups", group, "events"), { kinds: "member_arrived", from: one.opened_at_ms, until });
  return html`<section><h3>Joins</h3><${Answer} past of=${asked}>${(body) => html`<${JoinsTable} arrivals=${body.events.filter((event) => event.kind === "member_arrived" && event.at_ms - (event.entry.after_ms ?? 0) === one.opened_at_ms)} />`}<//></section>`;
}

function JoinsTable({ arrivals }) {
  const last = Math.max(1, ...arrivals.map((event) => event.entry.after_ms));
  const columns = [
    { key: "member", title: "Member", head: true, value: (event) => event.member?.member_id, cell: (event) => html`<${Member} member=${event.member} />${event.entry.new ? html` <span class="chip">new</span>` : ""}` },
    { key: "after", title: "Arrived after", kind: "number", value: (event) => event.entry.after_ms, cell: (event) => html`<svg class="arrival" viewBox="0 0 60 8" width="60" height="8" aria-hidden="true" focusable="false"><rect class="phase p0" width=${Math.max(1, (event.entry.after_ms / last) * 60)} height="8" /></svg> ${duration(event.entry.after_ms)}` },
    { key: "reason", title: "Its reason", cell: (event) => html`<${Known} value=${event.entry.reason || null} why="the client sent none (JoinGroup before version 8 has no reason)" as=${(text) => html`<${Text} value=${text} limit=${120} />`} />` },
    { key: "version", title: "JoinGroup", kind: "number", value: (event) => event.entry.api_version, cell: (event) => html`<${Known} value=${event.entry.api_version} why=${OLD} as=${(version) => `v${version}`} />` },
    { key: "session", title: "Session", kind: "number", help: "session.timeout.ms", value: (event) => event.entry.session_timeout_ms, cell: (event) => html`<${Known} value=${event.entry.session_timeout_ms} why=${OLD} as=${duration} />` },
    { key: "limit", title: "Rebalance timeout", kind: "number", help: "longest wait for the member: max.poll.interval.ms of Java clients and librdkafka", value: (event) => event.entry.rebalance_timeout_ms, cell: (event) => html`<${Known} value=${event.entry.rebalance_timeout_ms} why=${OLD} as=${duration} />` },
  ];
  return html`<p class="soft">${count(arrivals.length, "join")} in this rebalance.</p><${Table} caption="Joins of this rebalance" columns=${columns} rows=${arrivals} keyOf=${(event) => `${event.member?.member_id} ${event.at_ms}`} order="after.up" sortParam="joins" empty="The journal has no join of this rebalance." />`;
}
