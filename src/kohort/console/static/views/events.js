/** Events of a group: a sentence for each journal entry. */
import { html } from "../parts/html.js";
import { Answer } from "../parts/failure.js";
import { count } from "../parts/format.js";
import { Heading, matcher, Search } from "../parts/heading.js";
import { useJson } from "../parts/json.js";
import { choose, pathOf, usePlace } from "../parts/router.js";
import { Table } from "../parts/table.js";
import { Brief, Known, Member, Text, Time } from "../parts/text.js";
import { useSpan } from "../parts/timebar.js";
import { memberName, plain, shellWord, visible } from "../parts/words.js";

/** @param {{group: string}} props */
export function EventsView({ group }) {
  const asked = useJson(pathOf("groups", group, "events"), useSpan(), { on: ["entries"] });
  return html`<${Answer} past of=${asked}>${(body) => html`<${Events} body=${body} group=${group} />`}<//>`;
}

function Events({ body, group }) {
  const { params } = usePlace();
  const kinds = [...new Set(body.events.map((one) => one.kind))].sort();
  const matches = matcher(params.filter);
  const rows = body.events
    .map((one, i) => ({ ...one, key: String(i) }))
    .filter((one) => (!params.kind || one.kind === params.kind) && matches([one.sentence, one.kind, one.member && memberName(one.member)]))
    .reverse();
  const open = rows.find((one) => one.key === params.entry);
  return html`<${Heading} level=${2} title="Events" sentence=${`${count(body.events.length, "entry").replace(/entrys$/, "entries")} of the journal in this span, the latest first.`} command=${`kohort group events ${shellWord(group)}`} markdown=${() => rows.map((one) => `- ${new Date(one.at_ms).toISOString()} ${visible(one.sentence)}`).join("\n")}>
      <label><span class="hidden">Kind</span><select value=${params.kind ?? ""} onChange=${(event) => choose({ kind: event.target.value })}><option value="">all kinds</option>${kinds.map((kind) => html`<option value=${kind}>${plain(kind)}</option>`)}</select></label>
      <${Search} value=${params.filter ?? ""} label="Filter events" onInput=${(filter) => choose({ filter })} /><//>
    ${open && html`<section class="panel"><div class="heading"><h3>${plain(open.kind)}, <${Time} ms=${open.at_ms} /></h3><button type="button" class="small" onClick=${() => choose({ entry: null })}>close</button></div><pre tabindex="0" role="group" aria-label="the entry">${visible(JSON.stringify(open.entry, null, 2)).replaceAll("⟨U+000A⟩", "\n")}</pre></section>`}
    <${Table} caption="Events" columns=${COLUMNS} rows=${rows} keyOf=${(one) => one.key} rowHeight=${34} empty="No entry matches in this time span." />`;
}

/** @type {import("../parts/table.js").Column[]} */
const COLUMNS = [
  { key: "at", title: "When", value: (one) => one.at_ms, cell: (one) => html`<${Time} ms=${one.at_ms} />` },
  { key: "what", title: "Event", head: true, width: "widest", cell: (one) => html`<${Brief} value=${one.sentence} limit=${180} />` },
  { key: "member", title: "Member", value: (one) => one.member && memberName(one.member), cell: (one) => one.member && html`<${Member} member=${one.member} />` },
  { key: "gen", title: "Generation", kind: "number", value: (one) => one.generation, cell: (one) => html`<${Known} value=${one.generation} why="the entry names no member" as=${String} />` },
  { key: "kind", title: "Kind", value: (one) => one.kind, cell: (one) => html`<button type="button" class="small" onClick=${() => choose({ entry: one.key }, { push: true })}><${Text} value=${plain(one.kind)} limit=${30} /></button>${one.observed ? html` <span class="chip">inferred</span>` : ""}` },
];
