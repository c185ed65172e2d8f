/** Problems of groups with advice, the worst first, from the rules of `kohort doctor`. */
import { html } from "../parts/html.js";
import { Confidence, Severity } from "../parts/badge.js";
import { Advice, Evidence } from "../parts/evidence.js";
import { Answer } from "../parts/failure.js";
import { count } from "../parts/format.js";
import { Heading, matcher, Search } from "../parts/heading.js";
import { useJson } from "../parts/json.js";
import { choose, pathOf, usePlace } from "../parts/router.js";
import { Brief, Link, Text } from "../parts/text.js";
import { plain, visible } from "../parts/words.js";

const SHOWN = 100;

export function DoctorView() {
  const asked = useJson("/doctor", {}, { on: ["groups"] });
  const { params } = usePlace();
  return html`<${Answer} of=${asked} title="Doctor">${(body) => {
    const matches = matcher(params.filter);
    const found = body.findings.filter((one) => matches([one.group, one.rule, one.sentence]));
    return html`<${Heading} title="Doctor" sentence=${sentenceOf(body)} command="kohort doctor" markdown=${() => findingsAsMarkdown(found)}>
        <${Search} value=${params.filter ?? ""} label="Filter findings" onInput=${(filter) => choose({ filter })} />
      <//>
      <${Findings} findings=${found} named />`;
  }}<//>`;
}

function sentenceOf({ examined, findings, unknown = 0 }) {
  const rest = unknown ? `; the health of ${unknown === examined ? "all" : unknown} is unknown` : "";
  return `${count(examined, "group")} examined: ${count(findings.length, "finding")}${rest}.`;
}

/** Findings as a list. @param {{findings: any[], named?: boolean}} props `named`: show the group of each finding */
export function Findings({ findings, named = false }) {
  if (!findings.length) return html`<p class="empty">No problems found.</p>`;
  return html`<ul class="findings">${findings.slice(0, SHOWN).map((one) => html`<${Finding} one=${one} named=${named} />`)}</ul>
    ${findings.length > SHOWN && html`<p class="soft">${findings.length - SHOWN} more: filter to see them.</p>`}`;
}

function Finding({ one, named }) {
  return html`<li>
    <div class="finding-head"><${Severity} word=${one.severity} />
      ${named && html`<${Link} to=${pathOf("groups", one.group, "overview")} class="name"><${Brief} value=${one.group} limit=${48} /><//>`}
      <span class="chip">${visible(plain(one.rule.replace(/-/g, " ")))}</span><${Confidence} word=${one.confidence} /></div>
    <p><${Text} value=${one.sentence} limit=${400} /></p>
    <${Advice} text=${one.advice}><${Help} one=${one} /><//>
    ${one.evidence?.length > 0 && html`<details><summary>${count(one.evidence.length, "fact")}</summary><${Evidence} facts=${one.evidence} /></details>`}
  </li>`;
}

/** View of a group that helps with a finding, by the rule of the finding; other rules: the partitions, if it has some. */
const VIEWS_OF_RULES = {
  "no-consumer": "offsets",
  "no-owner": "rebalances",
  "beyond-the-end": "offsets",
  "topic-deleted": "offsets",
  storm: "rebalances",
  "missed-poll": "members",
  refused: "fenced",
  rewound: "events",
  slow: "members",
  hot: "members",
  idle: "members",
  full: "members",
};
/** Rules whose next step is to look at the next record of a partition. */
const PEEKS = new Set(["stalled", "open-transaction"]);
/** Rules whose next step is the configuration of a topic. */
const OF_TOPIC = new Set(["records-lost", "retention-near"]);
const MOST_LINKS = 3;

/** Links to the views that help with a finding. */
function Help({ one }) {
  const places = (one.partitions ?? []).slice(0, MOST_LINKS);
  const tab = VIEWS_OF_RULES[one.rule] ?? (places.length ? "partitions" : null);
  if (PEEKS.has(one.rule) && places.length) {
    return html`<div class="explain">${places.map((place) => html`<${Link} to=${pathOf("groups", one.group, "partitions")} params=${{ peek: place }} class="among">peek at the next record of ${visible(place)}<//>`)}</div>`;
  }
  if (OF_TOPIC.has(one.rule) && places.length) {
    const topics = [...new Set(places.map((place) => place.slice(0, place.lastIndexOf("-"))))];
    return html`<div class="explain">${topics.map((topic) => html`<${Link} to=${pathOf("topics", topic, "configuration")} class="among">configuration of ${visible(topic)}<//>`)}</div>`;
  }
  return tab && html`<div class="explain"><${Link} to=${pathOf("groups", one.group, tab)} class="among">show the ${tab === "fenced" ? "rejected requests" : tab}<//></div>`;
}

export function findingsAsMarkdown(findings) {
  return findings.map((one) => `- **${one.severity}** ${visible(one.group)}: ${visible(one.sentence)}\n  What to do: ${one.advice}`).join("\n");
}
