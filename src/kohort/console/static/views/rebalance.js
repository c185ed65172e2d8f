/** One rebalance: cause, evidence, delay, moved partitions, advice. */
import { html } from "../parts/html.js";
import { Confidence, Origin } from "../parts/badge.js";
import { Waterfall } from "../parts/bars.js";
import { Cause, Explain } from "../parts/cause.js";
import { Advice, Evidence } from "../parts/evidence.js";
import { Answer } from "../parts/failure.js";
import { count, duration } from "../parts/format.js";
import { Heading } from "../parts/heading.js";
import { useJson } from "../parts/json.js";
import { pathOf } from "../parts/router.js";
import { Link, Member, Text, Time } from "../parts/text.js";
import { useSpan } from "../parts/timebar.js";
import { memberName, plain, rebalanceKey, rebalanceName, shellWord, visible } from "../parts/words.js";
import { Joins } from "./joins.js";
import { MemberChanges, MovesTable, Standings } from "./rebalance-tables.js";

/** @param {{group: string, id: string}} props */
export function RebalanceView({ group, id }) {
  const path = pathOf("groups", group, "rebalances");
  const within = useJson(path, useSpan(), { on: ["entries"] });
  const elsewhere = within.body !== null && placeOf(within.body, id) < 0;
  const all = useJson(elsewhere ? path : null);
  return html`<${Answer} past of=${elsewhere ? all : within}>${(body) => {
    const at = placeOf(body, id);
    if (at < 0) return html`<${NotKnown} group=${group} id=${id} />`;
    return html`<${Steps} group=${group} before=${body.rebalances[at - 1]} after=${body.rebalances[at + 1]} /><${Rebalance} key=${id} one=${body.rebalances[at]} group=${group} />`;
  }}<//>`;
}

function placeOf(body, id) {
  return body.rebalances.findIndex((one) => rebalanceKey(one) === id);
}

function NotKnown({ group, id }) {
  return html`<h2>The journal does not have ${visible(id)}</h2><p>It may be too old. See <${Link} to=${pathOf("groups", group, "rebalances")}>its rebalances<//>.</p>`;
}

function Steps({ group, before, after }) {
  const link = (one, words) => one && html`<${Link} to=${pathOf("groups", group, "rebalances", rebalanceKey(one))}>${words}<//>`;
  return html`<nav class="steps" aria-label="Rebalances"><${Link} to=${pathOf("groups", group, "rebalances")}>all rebalances<//> ${link(before, "← earlier")} ${link(after, "later →")}</nav>`;
}

function Rebalance({ one, group }) {
  return html`<article>
    <${Heading} level=${2} title=${html`<${Cause} code=${one.cause} />`} command=${`kohort group why ${shellWord(group)} --rebalance ${shellWord(rebalanceKey(one))}`} markdown=${() => asMarkdown(one)} />
    <p class="lead"><${Text} value=${one.sentence} limit=${800} /></p>
    <p class="chips"><span class="chip">${visible(rebalanceName(one))}</span><span class="chip"><${Time} ms=${one.opened_at_ms} /></span>
      <span class="chip">${one.took_ms === null ? `ended: ${plain(one.end)}` : `took ${duration(one.took_ms)}`}</span><${Confidence} word=${one.confidence} /><${Origin} word=${one.origin} />
      ${one.also.map((cause) => html`<span class="chip">also <${Cause} code=${cause} /></span>`)}</p>
    <${Advice} text=${one.advice ?? "no action is known for this cause"}><div class="explain"><${Explain} code=${one.cause} /></div><//>
    <${Related} one=${one} group=${group} />
    <div class="columns">
      <div><${Blocker} one=${one} /><section><h3>Phases</h3><${Waterfall} phases=${one.phases_ms} /></section></div>
      <${Evidence} facts=${one.evidence.filter((fact) => !fact.kind.startsWith("phase_"))} />
    </div>
    <${MovesTable} one=${one} />
    ${one.standing.length ? html`<${Standings} standing=${one.standing} />` : html`<${MemberChanges} one=${one} />`}
    <${Joins} group=${group} one=${one} />
  </article>`;
}

function Related({ one, group }) {
  const parent = one.parent !== null && html`<p>The second round of <${Link} to=${pathOf("groups", group, "rebalances", String(one.parent))}>generation ${one.parent}<//>: members had to revoke partitions first.</p>`;
  const key = one.follows?.startsWith(`${group}/`) ? one.follows.slice(group.length + 1) : one.follows;
  const follows = key && html`<p>Follows <${Link} to=${pathOf("groups", group, "rebalances", key)}>${visible(key)}<//>, which removed that member.</p>`;
  const stale = one.stale_requests > 0 && html`<p>${count(one.stale_requests, "request")} of members that were out of date ${one.stale_requests === 1 ? "was" : "were"} refused after it: <${Link} to=${pathOf("groups", group, "fenced")}>show them<//>.</p>`;
  return html`${parent}${follows}${stale}`;
}

function Blocker({ one }) {
  if (!one.blocker) return null;
  const because = one.blocker.because ? `: ${plain(one.blocker.because)}` : "";
  const part = one.took_ms ? ` of ${duration(one.took_ms)}` : "";
  return html`<section class="blocker"><h3>Delayed by</h3><p><strong>${duration(one.blocker.waited_ms)}</strong>${part} was waiting for <${Member} member=${one.blocker.member} />${because}.</p></section>`;
}

function asMarkdown(one) {
  const facts = one.evidence.map((fact) => `- ${plain(fact.kind)}: ${visible(fact.value)}`);
  const moves = one.moves.slice(0, 30).map((move) => `- ${visible(move.topic)}-${move.partition}: ${visible(move.from ?? "no owner")} → ${visible(move.to ?? "no owner")}`);
  const blocker = one.blocker ? [`Delayed by ${visible(memberName(one.blocker.member))} for ${duration(one.blocker.waited_ms)}.`, ""] : [];
  const head = [`### ${visible(one.id)}: ${plain(one.cause)}`, "", visible(one.sentence), "", ...blocker];
  return [...head, `What to do: ${one.advice ?? "nothing"}`, "", "Evidence:", ...facts, "", `Moved (${one.moves.length}):`, ...moves].join("\n");
}
