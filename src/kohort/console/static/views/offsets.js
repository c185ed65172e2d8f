/** Changes of offsets and members: plan, command, execution. */
import { useState } from "preact/hooks";
import { html } from "../parts/html.js";
import { Change } from "../parts/change.js";
import { Save } from "../parts/copy.js";
import { csv, fileName } from "../parts/csv.js";
import { count, number } from "../parts/format.js";
import { Heading } from "../parts/heading.js";
import { useJson } from "../parts/json.js";
import { choose, pathOf, usePlace } from "../parts/router.js";
import { Table } from "../parts/table.js";
import { Known, Text } from "../parts/text.js";
import { markdownTable, memberName, plain, shellWord, visible } from "../parts/words.js";
import { Field } from "./what-if.js";

const WAYS = [
  ["reset", "Reset offsets"],
  ["forget", "Delete offsets"],
  ["members", "Remove members"],
  ["delete", "Delete the group"],
];
/** Targets of an offset reset: name in the API, label, option of the command, required input. */
const TARGETS = [
  ["earliest", "the first record", "--to-earliest", null],
  ["latest", "the log end", "--to-latest", null],
  ["datetime", "the first record since a time", "--to-datetime", "2026-11-20T08:00:00"],
  ["duration", "the first record of the last", "--by-duration", "PT2H or 90m"],
  ["offset", "an offset", "--to-offset", "1500"],
  ["shift", "a number of records forward, or back", "--shift-by", "-100"],
  ["current", "the committed offset", "--to-current", null],
  ["file", "offsets in a file", "--from-file", "lines"],
  ["group", "the offsets of another group", "clone", "a group"],
];
/** File name in the shown command; its lines are those of the form. */
const FILE = "offsets.csv";
const MOST_FILE = 200_000;

/** @param {{group: string, status: any}} props */
export function OffsetsView({ group, status }) {
  const { params } = usePlace();
  const way = WAYS.some(([name]) => name === params.way) ? params.way : "reset";
  if (!status) return null;
  const Form = { reset: Reset, forget: Forget, members: RemoveMembers, delete: DeleteGroup }[way];
  return html`<${Heading} level=${2} title="Offsets, and other changes" command=${`kohort group describe ${shellWord(group)}`} markdown=${() => asMarkdown(status)} />
    <div class="counts" role="group" aria-label="What to change">${WAYS.map(([name, title]) => html`<button type="button" aria-pressed=${way === name} onClick=${() => choose({ way: name })}>${title}</button>`)}</div>
    ${way !== "members" && status.members.length > 0 && html`<p class="panel warn-panel"><strong>${count(status.members.length, "member")} ${status.members.length === 1 ? "is" : "are"} in the group</strong>, so the coordinator rejects a reset: stop ${status.members.slice(0, 3).map((one) => visible(memberName(one.member))).join(", ")}${status.members.length > 3 ? " and the others" : ""} first. The plan can be seen all the same.</p>`}
    <${Form} group=${group} status=${status} />`;
}

function asMarkdown(status) {
  const rows = status.partitions.map((one) => [`${one.topic}-${one.partition}`, one.committed, one.log_end, one.lag]);
  return `${visible(status.sentence)}\n\n${markdownTable(["Partition", "Committed", "End", "Lag"], rows)}`;
}

function TopicChoice({ status, value, onChange, all }) {
  const topics = [...new Set(status.partitions.map((one) => one.topic))].sort();
  return html`<${Field} label="Topic"><select value=${value} onChange=${(event) => onChange(event.target.value)}>${all && html`<option value="">${all}</option>`}${!all && html`<option value="">choose one</option>`}${topics.map((topic) => html`<option value=${topic}>${visible(topic).slice(0, 80)}</option>`)}</select><//>`;
}

/** Form of an offset reset; its input is in the address, except the lines of a file. */
function Reset({ group, status }) {
  const { params } = usePlace();
  const [lines, setLines] = useState("");
  const [to, , option, example] = TARGETS.find(([name]) => name === params.to) ?? TARGETS[0];
  const whole = to === "offset" || to === "shift";
  const apart = to === "file" || to === "group";
  const topic = apart ? "" : (params.topic ?? "");
  const scope = topic && params.only ? `${topic}:${params.only}` : topic;
  const value = to === "file" ? lines : example ? (params.value ?? "") : null;
  const body = { to, value: whole ? Number(value) : value, topics: scope ? [scope] : [] };
  const ready = value === null || (value !== "" && (!whole || Number.isInteger(Number(value))));
  const set = (name) => (text) => choose({ [name]: text });
  return html`<${Change} path=${`${pathOf("groups", group)}/offsets`} body=${body} name=${group} verb="Move the offsets" command=${resetCommand(group, { to, option, scope, value })} ready=${ready} shown=${(plan) => html`<${Diff} plan=${plan} group=${group} />`}>
    <${Field} label="To"><select value=${to} onChange=${(event) => choose({ to: event.target.value, value: null })}>${TARGETS.map(([name, words]) => html`<option value=${name}>${words}</option>`)}</select><//>
    ${!apart && html`<${TopicChoice} status=${status} value=${topic} onChange=${set("topic")} all="all committed partitions" />
      <${Field} label="Partitions" hint="such as 0,3; empty for all"><input type="text" value=${params.only ?? ""} disabled=${!topic} onInput=${(event) => choose({ only: event.target.value })} /><//>`}
    ${to === "file" && html`<${FileLines} lines=${lines} onLines=${setLines} />`}
    ${to === "group" && html`<${OtherGroup} group=${group} value=${value} onChange=${set("value")} />`}
    ${!apart && example && html`<${Field} label="Which" hint=${example}><input type="text" value=${value} onInput=${(event) => choose({ value: event.target.value })} /><//>`}
  <//>`;
}

/** The `kohort group reset-offsets` command with the same plan. */
function resetCommand(group, { to, option, scope, value }) {
  if (to === "group") return `kohort group clone ${shellWord(value || "OTHER")} ${shellWord(group)}`;
  const said = to === "file" ? FILE : value === null ? "" : shellWord(value || "VALUE");
  return ["kohort group reset-offsets", shellWord(group), scope && `--topic ${shellWord(scope)}`, option, said].filter(Boolean).join(" ");
}

/** Input of CSV lines, from a file or typed. */
function FileLines({ lines, onLines }) {
  const [problem, setProblem] = useState("");
  const take = async (event) => {
    const [file] = event.target.files;
    if (!file) return;
    setProblem(file.size > MOST_FILE ? `${file.name} has ${number(file.size)} bytes; the limit is ${number(MOST_FILE)}: use the command` : "");
    onLines(file.size > MOST_FILE ? "" : await file.text());
  };
  return html`<${Field} label="File" hint="CSV of “Save as CSV” or of kohort group reset-offsets --export"><input type="file" accept=".csv,text/csv,text/plain" onChange=${take} /><//>
    ${problem && html`<p class="bad-text" role="alert">${visible(problem)}</p>`}
    <${Field} label="Its lines" hint="topic,partition,offset"><textarea rows="5" spellcheck="false" value=${lines} onInput=${(event) => onLines(event.target.value)} placeholder="orders,0,1500"></textarea><//>`;
}

/** Input of the group whose offsets are copied. */
function OtherGroup({ group, value, onChange }) {
  const { body } = useJson("/groups");
  const others = (body?.groups ?? []).map((row) => row.group).filter((name) => name !== group);
  return html`<${Field} label="Source group" hint="all committed partitions"><input type="text" list="other-groups" value=${value} onInput=${(event) => onChange(event.target.value)} /><datalist id="other-groups">${others.slice(0, 500).map((name) => html`<option value=${name} />`)}</datalist><//>`;
}

function Diff({ plan, group }) {
  const skipped = plan.partitions.reduce((sum, one) => sum + (one.skipped ?? 0), 0);
  const again = plan.partitions.reduce((sum, one) => sum + (one.read_again ?? 0), 0);
  const before = plan.partitions.filter((one) => one.prior_offset !== null).map((one) => [one.topic, one.partition, one.prior_offset]);
  const columns = [
    { key: "place", title: "Partition", head: true, value: (one) => `${one.topic}-${one.partition}`, cell: (one) => html`<${Text} value=${`${one.topic}-${one.partition}`} limit=${60} />` },
    { key: "before", title: "Committed", kind: "number", value: (one) => one.prior_offset, cell: (one) => html`<${Known} value=${one.prior_offset} why="no committed offset" as=${number} />` },
    { key: "after", title: plan.executed ? "New offset" : "Planned offset", kind: "number", value: (one) => one.new_offset, cell: (one) => number(one.new_offset) },
    { key: "skipped", title: "Not read", kind: "number", value: (one) => one.skipped, cell: (one) => html`<${Known} value=${one.skipped} why="no committed offset" as=${number} />` },
    { key: "again", title: "Read again", kind: "number", value: (one) => one.read_again, cell: (one) => html`<${Known} value=${one.read_again} why="no committed offset" as=${number} />` },
    { key: "error", title: "Refused", cell: (one) => one.error && html`<${Text} value=${one.error} />` },
  ];
  const words = [skipped ? `${count(skipped, "record")} will not be read` : "no record is skipped", again ? `${count(again, "record")} will be read again` : "no record is read again"];
  return html`<p class="lead">${count(plan.partitions.length, "partition")}: ${words.join(", ")}.</p>
    ${plan.refused.map((one) => html`<p class="bad-text">${visible(one.group)}: <${Text} value=${one.reason} limit=${300} /></p>`)}
    ${before.length > 0 && html`<p><${Save} label="Save present offsets as CSV" name=${`${fileName(group, "offsets")}.csv`} text=${() => csv(before, { forSpreadsheets: false })} /> <span class="soft">a file to undo the reset</span></p>`}
    <${Table} caption="Planned offsets" columns=${columns} rows=${plan.partitions} keyOf=${(one) => `${one.topic}-${one.partition}`} sortParam="plan" empty="No offset changes." />`;
}

function Forget({ group, status }) {
  const { params } = usePlace();
  const topic = params.topic ?? "";
  const command = `kohort group delete-offsets ${shellWord(group)} --topic ${topic ? shellWord(topic) : "TOPIC"}`;
  return html`<${Change} path=${`${pathOf("groups", group)}/offsets:delete`} body=${{ topics: topic ? [topic] : [] }} name=${group} verb="Delete the offsets" command=${command} ready=${topic !== ""} shown=${(plan) => html`<p class="lead">${count(plan.deleted.length, "offset")} ${plan.executed === false ? "would be" : "are"} forgotten.</p><p><${Text} value=${plan.deleted.map((one) => `${one.topic}-${one.partition} at ${one.offset}`).join(", ")} limit=${600} /></p>`}>
    <${TopicChoice} status=${status} value=${topic} onChange=${(chosen) => choose({ topic: chosen })} /><//>`;
}

function RemoveMembers({ group, status }) {
  const [chosen, setChosen] = useState([]);
  const [reason, setReason] = useState("");
  const flip = (id) => setChosen(chosen.includes(id) ? chosen.filter((one) => one !== id) : [...chosen, id]);
  const command = ["kohort group remove-member", shellWord(group), ...(chosen.length ? chosen.map(shellWord) : ["MEMBER"]), reason && `--reason ${shellWord(reason)}`].filter(Boolean).join(" ");
  return html`<${Change} path=${`${pathOf("groups", group)}/members:remove`} body=${{ members: chosen, reason }} name=${group} verb="Remove the members" command=${command} ready=${chosen.length > 0 && reason !== ""} shown=${(plan) => html`<p class="lead">${count(plan.removed.length, "member")}; their partitions go to other members.</p><ul>${plan.removed.map((one) => html`<li>${visible(memberName({ ...one, instance_id: one.group_instance_id }))}: ${count(one.assignment.length, "partition")}</li>`)}</ul>`}>
    <fieldset class="members"><legend>Members</legend>${status.members.map((one) => {
      const id = one.member.instance_id || one.member.member_id;
      return html`<label class="tick"><input type="checkbox" checked=${chosen.includes(id)} onChange=${() => flip(id)} /> ${visible(memberName(one.member)).slice(0, 60)} <span class="soft">${visible(plain(one.state))}, ${count(one.partitions.length, "partition")}</span></label>`;
    })}${!status.members.length && html`<p class="soft">The group has no members.</p>`}</fieldset>
    <${Field} label="Reason" hint="is written to the journal"><input type="text" maxlength="200" value=${reason} onInput=${(event) => setReason(event.target.value)} /><//><//>`;
}

function DeleteGroup({ group }) {
  return html`<${Change} path=${`${pathOf("groups", group)}/group:delete`} body=${{}} name=${group} verb="Delete the group" command=${`kohort group delete ${shellWord(group)}`} shown=${() => html`<p class="lead">The group and all its offsets are deleted permanently: its next members start at auto.offset.reset.</p>`}>
    <p>Deletes a group without members, and its committed offsets.</p><//>`;
}
