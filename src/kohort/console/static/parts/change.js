/**
 * A change in two steps: a plan, and its execution after the user has typed the group's name.
 * The server executes only the plan of the first step.
 */
import { useState } from "preact/hooks";
import { post } from "../data.js";
import { html } from "./html.js";
import { announce } from "./announce.js";
import { Command } from "./copy.js";
import { Failure } from "./failure.js";
import { useLive } from "./live.js";
import { visible } from "./words.js";

/**
 * @param {{path: string, body: object, name: string, verb: string, command: string, ready?: boolean,
 *   shown: (plan: any) => any, children: any}} props
 *   `path`: without ":plan". `name`: name to type. `verb`: label of the last button. `command`: the command to run
 *   instead if the console allows no changes.
 */
export function Change({ path, body, name, verb, command, ready = true, shown, children }) {
  const { cluster, mode } = useLive();
  const [state, setState] = useState({ plan: null, asked: "", done: null, error: null });
  const [typed, setTyped] = useState("");
  const asked = JSON.stringify(body);
  const plan = state.asked === asked ? state.plan : null;
  const why = whyNot(cluster, mode);
  const ask = async (event) => {
    event.preventDefault();
    setTyped("");
    setState(await tried(() => post(`${path}:plan`, body), (plan) => ({ plan, asked, done: null, error: null })));
  };
  const apply = async (event) => {
    event.preventDefault();
    const next = await tried(() => post(`${path}:apply`, { ...body, confirm: plan.confirm }), (done) => ({ plan: null, asked, done, error: null }));
    if (next.done) announce(`${verb}: done`);
    setState(next);
  };
  return html`<form class="panel form" onSubmit=${ask}>${children}
      <div class="buttons"><button type="submit" disabled=${!ready || why !== null}>Show the plan</button></div>
      ${why && html`<p class="soft">${why} The command that shows the same:</p>`}
      ${(why || !plan) && html`<${Command} text=${command} />`}</form>
    ${state.error && html`<${Failure} error=${state.error} />`}
    ${plan && html`<section class="panel plan"><h3>Plan</h3>${shown(plan)}${plan.command && html`<${Command} text=${plan.command} />`}
      ${plan.confirm && html`<form onSubmit=${apply} class="confirm"><label class="field"><span>Type <b>${visible(name)}</b> to confirm</span><input type="text" autocomplete="off" value=${typed} onInput=${(event) => setTyped(event.target.value)} /></label>
        <button type="submit" class="danger" disabled=${typed !== name}>${verb}</button></form>`}</section>`}
    ${state.done && html`<section class="panel done"><h3>Done</h3>${shown(state.done)}</section>`}`;
}

function whyNot(cluster, mode) {
  if (cluster?.kind === "recorded") return "A recording cannot be changed.";
  if (!cluster?.allow_changes) return "This console allows no changes: it was started without --allow-changes.";
  return mode === "live" ? null : "This view shows the past: go back to now for changes.";
}

async function tried(ask, then) {
  try {
    return then(await ask());
  } catch (error) {
    return { plan: null, asked: "", done: null, error };
  }
}
