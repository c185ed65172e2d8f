/** Frame of all views of one group: name, state in a sentence, tabs. */
import { html } from "../parts/html.js";
import { Health } from "../parts/badge.js";
import { Failure, sentence } from "../parts/failure.js";
import { useJson } from "../parts/json.js";
import { setGroupKeys } from "../parts/keys.js";
import { useOutage } from "../parts/live.js";
import { NotKnown, sinceWords } from "../parts/outage.js";
import { pathOf } from "../parts/router.js";
import { Tabs } from "../parts/tabs.js";
import { Link, Text } from "../parts/text.js";
import { cut, visible } from "../parts/words.js";
import { GroupCausesView } from "./causes.js";
import { EventsView } from "./events.js";
import { FencedView } from "./fenced.js";
import { MembersView } from "./members.js";
import { OffsetsView } from "./offsets.js";
import { OverviewView } from "./overview.js";
import { PartitionsView } from "./partitions.js";
import { RebalanceView } from "./rebalance.js";
import { RebalancesView } from "./rebalances.js";
import { TimelineView } from "./timeline.js";
import { WhatIfView } from "./what-if.js";

/**
 * Views of a group: name in the address, title, key after "g", component. `past`: the view needs only the journal, so
 * it stays during an outage. A new view needs a row here, a module, and a route in answers.py.
 */
const TABS = [
  { name: "overview", title: "Overview", key: "o", View: OverviewView },
  { name: "timeline", title: "Timeline", key: "l", View: TimelineView, past: true },
  { name: "rebalances", title: "Rebalances", key: "r", View: RebalancesView, past: true },
  { name: "members", title: "Members", key: "m", View: MembersView },
  { name: "partitions", title: "Partitions", key: "a", View: PartitionsView },
  { name: "fenced", title: "Fenced", key: "f", View: FencedView, past: true },
  { name: "causes", title: "Causes", key: "u", View: GroupCausesView, past: true },
  { name: "what-if", title: "What-if", key: "w", View: WhatIfView },
  { name: "offsets", title: "Offsets", key: "s", View: OffsetsView },
  { name: "events", title: "Events", key: "e", View: EventsView, past: true },
];
setGroupKeys(TABS);

/** Return the state of this group from a stream event. */
function mergeStatus(group) {
  return (_body, kind, news) => {
    const status = kind === "group" ? (news.status ?? news) : null;
    return status?.group === group ? { status } : undefined;
  };
}

/** @param {{group: string, tab: string, id?: string}} props */
export function GroupView({ group, tab, id }) {
  const asked = useJson(pathOf("groups", group), {}, { merge: mergeStatus(group), on: ["entries"] });
  const outage = useOutage();
  const status = outage ? null : (asked.body?.status ?? null);
  const missing = asked.error?.status === 404 && !asked.body && !outage;
  const chosen = TABS.find(({ name }) => name === tab) ?? TABS[0];
  const View = tab === "rebalances" && id !== undefined ? RebalanceView : chosen.View;
  return html`
    <div class="group-head">
      <nav aria-label="You are here" class="crumbs"><${Link} to="/groups">Groups<//> <span aria-hidden="true">›</span></nav>
      <h1><bdi data-tip=${group.length > 70 ? cut(visible(group), 500) : null}>${cut(visible(group), 70)}</bdi></h1>
      ${status && html`<${Health} word=${status.health} why=${status.reason} />`}
      ${outage && html`<${Health} word=${null} why=${sinceWords(outage)} />`}
    </div>
    ${status && html`<p class=${`sentence ${chosen.name === "overview" ? "" : "of-tabs"}`}><${Text} value=${status.sentence} limit=${500} /></p>`}
    ${outage && html`<p class="sentence">Health, lag and members are unknown: ${sinceWords(outage)}.</p>`}
    ${asked.error && !missing && !outage && html`<${Failure} error=${asked.error} retry=${asked.reload} />`}
    <${Tabs} label="Views of this group" path=${["groups", group]} tabs=${TABS} chosen=${chosen.name} />
    ${missing && !chosen.past ? html`<${Missing} group=${group} error=${asked.error} />` : outage && !chosen.past ? html`<${NotKnown} title=${chosen.title} level=${2} />` : html`<${View} group=${group} status=${status} id=${id} />`}`;
}

/** Sentence in place of the views of a group that does not exist. Its journal may still have its past. */
function Missing({ group, error }) {
  return html`<p class="empty" role="alert">${sentence(error.message)} Its past may be in the journal: <${Link} to=${pathOf("groups", group, "timeline")}>timeline<//>, <${Link} to=${pathOf("groups", group, "rebalances")}>rebalances<//>.</p>`;
}
