/** What-if view: predictions by the real assignors; no change is executed. */
import { useEffect, useState } from "preact/hooks";
import { isOneFile, post } from "../data.js";
import { html } from "../parts/html.js";
import { Icon } from "../parts/badge.js";
import { Failure } from "../parts/failure.js";
import { count } from "../parts/format.js";
import { Heading } from "../parts/heading.js";
import { choose, pathOf, usePlace } from "../parts/router.js";
import { markdownTable, memberName, shellWord, visible } from "../parts/words.js";
import { WhatIfBoard } from "../timeline/board.js";
import { Compared, Loads, Moves } from "./what-if-tables.js";

const ASSIGNORS = { classic: ["range", "roundrobin", "sticky", "cooperative-sticky"], consumer: ["uniform", "range"] };
/** Ways in which a member fails: value for the command, and its label. */
const HOWS = [["", "its process dies"], ["close", "it leaves the group"], ["poll", "it stops polling"]];
const KEPT = ["add", "remove", "kill", "how", "assignor", "partitions", "rolling", "static", "consumer", "in", "drain"];

/**
 * Body of the API request, from the parameters of the address.
 * @param {Record<string, string>} params
 */
export function scenarioOf(params) {
  const [topic, number] = splitLast(params.partitions ?? "", "=");
  return {
    add: Number(params.add) || null,
    remove: params.remove ? [params.remove] : [],
    kill: params.kill ? [params.how ? `${params.kill}:${params.how}` : params.kill] : [],
    assignor: params.assignor || null,
    partitions: topic && Number(number) ? { [topic]: Number(number) } : {},
    rolling_restart: params.rolling === "1",
    static: params.static === "1",
    to_consumer: params.consumer === "1",
    in_rate: Number(params.in) || null,
    drain_rate: Number(params.drain) || null,
    compare: true,
  };
}

function splitLast(text, mark) {
  const at = text.lastIndexOf(mark);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

/** The `kohort group what-if` command with the same prediction. */
export function commandOf(group, scenario) {
  const words = ["kohort group what-if", shellWord(group)];
  if (scenario.add) words.push(`--add ${scenario.add}`);
  for (const name of scenario.remove) words.push(`--remove ${shellWord(name)}`);
  for (const name of scenario.kill) words.push(`--kill ${shellWord(name)}`);
  if (scenario.assignor) words.push(`--assignor ${shellWord(scenario.assignor)}`);
  for (const [topic, number] of Object.entries(scenario.partitions)) words.push(`--partitions ${shellWord(`${topic}=${number}`)}`);
  if (scenario.rolling_restart) words.push("--rolling-restart");
  if (scenario.static) words.push("--static");
  if (scenario.to_consumer) words.push("--to-consumer");
  if (scenario.in_rate) words.push(`--in-rate ${scenario.in_rate}`);
  if (scenario.drain_rate) words.push(`--drain-rate ${scenario.drain_rate}`);
  return [...words, "--compare"].join(" ");
}

/** @param {{group: string, status: any}} props */
export function WhatIfView({ group, status }) {
  const { params } = usePlace();
  const [state, setState] = useState({ body: null, error: null, asking: false });
  const scenario = scenarioOf(params);
  const ask = async (event) => {
    event?.preventDefault();
    setState((old) => ({ ...old, asking: true }));
    try {
      setState({ body: await post(`${pathOf("groups", group)}/what-if`, scenario), error: null, asking: false });
    } catch (error) {
      setState({ body: null, error, asking: false });
    }
  };
  const shared = status !== null && !isOneFile() && KEPT.some((name) => params[name]);
  useEffect(() => {
    if (shared) ask(); // the address already contains a prediction: request it
  }, [status === null]);
  if (!status) return null;
  return html`<${Heading} level=${2} title="What if" sentence=${html`<span class="banner"><${Icon} name="info" />A prediction by the real assignors. Nothing is executed.</span>`} command=${commandOf(group, scenario)} markdown=${state.body && (() => asMarkdown(state.body))} />
    <div class="what-if"><${Form} status=${status} params=${params} onSubmit=${ask} asking=${state.asking} />
      <div>${state.error && html`<${Failure} error=${state.error} />`}
        ${state.body ? html`<${Answered} body=${state.body} status=${status} />` : html`<p class="empty">Choose a change, then “Predict”.</p>`}</div></div>`;
}

function Form({ status, params, onSubmit, asking }) {
  const set = (name) => (event) => choose({ [name]: event.target.type === "checkbox" ? (event.target.checked ? "1" : null) : event.target.value });
  const topics = [...new Set(status.partitions.map((one) => one.topic))];
  const members = status.members.map((one) => [one.member.instance_id || one.member.member_id, memberName(one.member)]);
  const restart = params.rolling === "1";
  const modern = status.protocol === "consumer" || params.consumer === "1";
  const clear = () => choose(Object.fromEntries(KEPT.map((name) => [name, null])));
  return html`<form class="panel form" onSubmit=${onSubmit}>
    <${Field} label="New members"><input type="number" min="0" max="1000" value=${params.add ?? ""} onInput=${set("add")} disabled=${restart} /><//>
    <${Field} label="Remove"><${MemberChoice} members=${members} value=${params.remove} onChange=${set("remove")} disabled=${restart} /><//>
    <${Field} label="Kill"><${MemberChoice} members=${members} value=${params.kill} onChange=${set("kill")} disabled=${restart} /><//>
    <${Field} label="How it ends"><select value=${params.how ?? ""} onChange=${set("how")} disabled=${restart || !params.kill}>${HOWS.map(([how, words]) => html`<option value=${how}>${words}</option>`)}</select><//>
    <${Field} label="Assignor"><select value=${params.assignor ?? ""} onChange=${set("assignor")}><option value="">unchanged</option>${ASSIGNORS[modern ? "consumer" : "classic"].map((name) => html`<option value=${name}>${name}</option>`)}</select><//>
    <${Field} label="Partitions" hint="TOPIC=N"><input type="text" list="what-if-topics" value=${params.partitions ?? ""} onInput=${set("partitions")} placeholder=${topics[0] ? visible(`${topics[0]}=24`) : ""} /><datalist id="what-if-topics">${topics.map((topic) => html`<option value=${`${topic}=`} />`)}</datalist><//>
    <label class="tick"><input type="checkbox" checked=${restart} onChange=${set("rolling")} /> restart all, one after the other</label>
    <label class="tick"><input type="checkbox" checked=${params.static === "1"} onChange=${set("static")} disabled=${!restart && !Number(params.add)} /> with instance ids (static)</label>
    <label class="tick"><input type="checkbox" checked=${params.consumer === "1"} onChange=${set("consumer")} /> move to the consumer protocol</label>
    <${Field} label="Written, records/s"><input type="number" min="0" step="any" value=${params.in ?? ""} onInput=${set("in")} placeholder="measured" /><//>
    <${Field} label="One member handles, /s"><input type="number" min="0" step="any" value=${params.drain ?? ""} onInput=${set("drain")} placeholder="measured" /><//>
    <div class="buttons"><button type="submit" class="primary" disabled=${asking || isOneFile()} data-tip=${isOneFile() ? "this page is a file: run kohort console to predict" : null}>${asking ? "Predicting …" : "Predict"}</button> <button type="button" onClick=${clear}>Clear</button></div>
  </form>`;
}

/** An input field with its label above it. */
export function Field({ label, hint, children }) {
  return html`<label class="field"><span>${label}${hint && html` <small>${hint}</small>`}</span>${children}</label>`;
}

function MemberChoice({ members, value, onChange, disabled }) {
  return html`<select value=${value ?? ""} onChange=${onChange} disabled=${disabled}><option value="">no member</option>${members.map(([id, name]) => html`<option value=${id}>${visible(name).slice(0, 60)}</option>`)}</select>`;
}

function asMarkdown({ prediction, compare }) {
  const rows = prediction.loads.map((one) => [memberName(one), one.partitions_before, one.partitions_after]);
  const ways = (compare ?? []).map((row) => [row.assignor, row.protocol, row.rounds, row.moved, row.idle]);
  const notes = [...prediction.notes, ...prediction.assumptions.map((one) => `assumed: ${one}`)].map((one) => `- ${visible(one)}`);
  return [`### What if: ${visible(prediction.scenario)}`, "", sentenceOf(prediction), "", ...notes, "", markdownTable(["Member", "Partitions before", "After"], rows), "", markdownTable(["Assignor", "Protocol", "Rounds", "Moved", "Idle"], ways)].join("\n");
}

function sentenceOf(found) {
  const idle = found.idle.length ? `, ${count(found.idle.length, "member")} would be idle` : "";
  return `${visible(found.scenario)}: ${count(found.rounds, "rebalance")}, ${count(found.moves.length, "partition")} of ${found.partitions} ${found.moves.length === 1 ? "moves" : "move"}${idle}.`;
}

function Answered({ body, status }) {
  const found = body.prediction;
  return html`<p class="lead">${sentenceOf(found)}</p>
    <${WhatIfBoard} group=${status} prediction=${found} />
    <${Loads} found=${found} />
    <${Moves} found=${found} status=${status} />
    <${Compared} rows=${body.compare} now=${found} />`;
}
