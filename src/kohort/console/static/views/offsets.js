/** V11: changes of a group's offsets and members: first what it would do, then the same command, then doing it. */
import { useState } from "preact/hooks";
import { html } from "../parts/html.js";
import { Change } from "../parts/change.js";
import { count, number } from "../parts/format.js";
import { Heading } from "../parts/heading.js";
import { choose, pathOf, usePlace } from "../parts/router.js";
import { Table } from "../parts/table.js";
import { Known, Text } from "../parts/text.js";
import { memberName, plain, shellWord, visible } from "../parts/words.js";
import { Field } from "./what-if.js";

const WAYS = [
  ["reset", "Reset offsets"],
  ["forget", "Forget offsets"],
  ["members", "Remove members"],
  ["delete", "Delete the group"],
];
/** Where offsets can be set: name for the API, words, option of the command, what has to be given. */
const TARGETS = [
  ["earliest", "the first record there is", "--to-earliest", null],
  ["latest", "behind the last record", "--to-latest", null],
  ["datetime", "the first record of a time", "--to-datetime", "2026-11-20T08:00:00"],
  ["duration", "the first record of so long ago", "--by-duration", "PT2H or 90m"],
  ["offset", "an offset", "--to-offset", "1500"],
  ["shift", "so many records forward, or back", "--shift-by", "-100"],
  ["current", "where it is", "--to-current", null],
];

/** @param {{group: string, status: any}} props */
export function OffsetsView({ group, status }) {
  const { params } = usePlace();
  const way = WAYS.some(([name]) => name === params.way) ? params.way : "reset";
  if (!status) return null;
  const Form = { reset: Reset, forget: Forget, members: RemoveMembers, delete: DeleteGroup }[way];
  return html`<${Heading} level=${2} title="Offsets, and other changes" sentence="Nothing happens before you have seen the plan and typed the group's name." />
    <div class="counts" role="group" aria-label="What to change">${WAYS.map(([name, title]) => html`<button type="button" aria-pressed=${way === name} onClick=${() => choose({ way: name })}>${title}</button>`)}</div>
    ${way !== "members" && status.members.length > 0 && html`<p class="panel warn-panel"><strong>${count(status.members.length, "member")} ${status.members.length === 1 ? "is" : "are"} in the group</strong>, so its coordinator will refuse: stop ${status.members.slice(0, 3).map((one) => visible(memberName(one.who))).join(", ")}${status.members.length > 3 ? " and the others" : ""} first. The plan can be seen all the same.</p>`}
    <${Form} group=${group} status=${status} />`;
}

function TopicChoice({ status, value, onChange, all }) {
  const topics = [...new Set(status.partitions.map((one) => one.topic))].sort();
  return html`<${Field} label="Topic"><select value=${value} onChange=${(event) => onChange(event.target.value)}>${all && html`<option value="">${all}</option>`}${!all && html`<option value="">choose one</option>`}${topics.map((topic) => html`<option value=${topic}>${visible(topic).slice(0, 80)}</option>`)}</select><//>`;
}

function Reset({ group, status }) {
  const [to, setTo] = useState("earliest");
  const [value, setValue] = useState("");
  const [topic, setTopic] = useState("");
  const [partitions, setPartitions] = useState("");
  const [, , option, example] = TARGETS.find(([name]) => name === to);
  const scope = topic && partitions ? `${topic}:${partitions}` : topic;
  const command = ["kohort group reset-offsets", shellWord(group), scope && `--topic ${shellWord(scope)}`, option, example && shellWord(value || "VALUE")].filter(Boolean).join(" ");
  const whole = to === "offset" || to === "shift";
  const body = { to, value: example ? (whole ? Number(value) : value) : null, topics: scope ? [scope] : [] };
  const ready = !example || (value !== "" && (!whole || Number.isInteger(Number(value))));
  return html`<${Change} path=${`${pathOf("groups", group)}/offsets`} body=${body} name=${group} verb="Move the offsets" command=${command} ready=${ready} shown=${(plan) => html`<${Diff} plan=${plan} />`}>
    <${TopicChoice} status=${status} value=${topic} onChange=${setTopic} all="all that it has committed" />
    <${Field} label="Partitions" hint="such as 0,3; empty for all"><input type="text" value=${partitions} disabled=${!topic} onInput=${(event) => setPartitions(event.target.value)} /><//>
    <${Field} label="To"><select value=${to} onChange=${(event) => setTo(event.target.value)}>${TARGETS.map(([name, words]) => html`<option value=${name}>${words}</option>`)}</select><//>
    ${example && html`<${Field} label="Which" hint=${example}><input type="text" value=${value} onInput=${(event) => setValue(event.target.value)} /><//>`}
  <//>`;
}

function Diff({ plan }) {
  const skipped = plan.partitions.reduce((sum, one) => sum + (one.skipped ?? 0), 0);
  const again = plan.partitions.reduce((sum, one) => sum + (one.read_again ?? 0), 0);
  const columns = [
    { key: "place", title: "Partition", head: true, value: (one) => `${one.topic}-${one.partition}`, cell: (one) => html`<${Text} value=${`${one.topic}-${one.partition}`} limit=${60} />` },
    { key: "before", title: "Is at", kind: "number", value: (one) => one.prior_offset, cell: (one) => html`<${Known} value=${one.prior_offset} why="nothing is committed" as=${number} />` },
    { key: "after", title: plan.executed ? "Went to" : "Would go to", kind: "number", value: (one) => one.new_offset, cell: (one) => number(one.new_offset) },
    { key: "skipped", title: "Not read", kind: "number", value: (one) => one.skipped, cell: (one) => html`<${Known} value=${one.skipped} why="nothing is committed" as=${number} />` },
    { key: "again", title: "Read again", kind: "number", value: (one) => one.read_again, cell: (one) => html`<${Known} value=${one.read_again} why="nothing is committed" as=${number} />` },
    { key: "error", title: "Refused", cell: (one) => one.error && html`<${Text} value=${one.error} />` },
  ];
  return html`<p class="lead">${count(plan.partitions.length, "partition")}: ${count(skipped, "record")} will not be read, ${count(again, "record")} will be read again.</p>
    ${plan.refused.map((one) => html`<p class="bad-text">${visible(one.group)}: <${Text} value=${one.reason} limit=${300} /></p>`)}
    <${Table} caption="Where offsets go" columns=${columns} rows=${plan.partitions} keyOf=${(one) => `${one.topic}-${one.partition}`} sortParam="plan" empty="Nothing would move." />`;
}

function Forget({ group, status }) {
  const [topic, setTopic] = useState("");
  const command = `kohort group delete-offsets ${shellWord(group)} --topic ${topic ? shellWord(topic) : "TOPIC"}`;
  return html`<${Change} path=${`${pathOf("groups", group)}/offsets:delete`} body=${{ topics: topic ? [topic] : [] }} name=${group} verb="Forget the offsets" command=${command} ready=${topic !== ""} shown=${(plan) => html`<p class="lead">${count(plan.deleted.length, "offset")} ${plan.executed === false ? "would be" : "are"} forgotten.</p><p><${Text} value=${plan.deleted.map((one) => `${one.topic}-${one.partition} at ${one.offset}`).join(", ")} limit=${600} /></p>`}>
    <${TopicChoice} status=${status} value=${topic} onChange=${setTopic} /><//>`;
}

function RemoveMembers({ group, status }) {
  const [chosen, setChosen] = useState([]);
  const [reason, setReason] = useState("");
  const flip = (id) => setChosen(chosen.includes(id) ? chosen.filter((one) => one !== id) : [...chosen, id]);
  const command = ["kohort group remove-member", shellWord(group), ...(chosen.length ? chosen.map(shellWord) : ["MEMBER"]), reason && `--reason ${shellWord(reason)}`].filter(Boolean).join(" ");
  return html`<${Change} path=${`${pathOf("groups", group)}/members:remove`} body=${{ members: chosen, reason }} name=${group} verb="Take them out" command=${command} ready=${chosen.length > 0 && reason !== ""} shown=${(plan) => html`<p class="lead">${count(plan.removed.length, "member")}; what they have is given to others.</p><ul>${plan.removed.map((one) => html`<li>${visible(memberName({ ...one, instance_id: one.group_instance_id }))}: ${count(one.assignment.length, "partition")}</li>`)}</ul>`}>
    <fieldset class="members"><legend>Members</legend>${status.members.map((one) => {
      const id = one.who.instance_id || one.who.member_id;
      return html`<label class="tick"><input type="checkbox" checked=${chosen.includes(id)} onChange=${() => flip(id)} /> ${visible(memberName(one.who)).slice(0, 60)} <span class="soft">${visible(plain(one.state))}, ${count(one.partitions.length, "partition")}</span></label>`;
    })}${!status.members.length && html`<p class="soft">It has none.</p>`}</fieldset>
    <${Field} label="Reason" hint="is written to the journal"><input type="text" maxlength="200" value=${reason} onInput=${(event) => setReason(event.target.value)} /><//><//>`;
}

function DeleteGroup({ group }) {
  return html`<${Change} path=${`${pathOf("groups", group)}/group:delete`} body=${{}} name=${group} verb="Delete the group" command=${`kohort group delete ${shellWord(group)}`} shown=${() => html`<p class="lead">The group and all its offsets go for good: whoever comes next begins where auto.offset.reset says.</p>`}>
    <p>A group without members goes, with everything it has committed.</p><//>`;
}
