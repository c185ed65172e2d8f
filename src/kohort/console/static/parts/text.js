/** Components that all views use: texts, unknown values, numbers, times, members, links. */
import { useState } from "preact/hooks";
import { html } from "./html.js";
import { ago, compact, duration, number, timeOfDay, utc } from "./format.js";
import { nowMs } from "./live.js";
import { hrefOf } from "./router.js";
import { cut, memberName, visible } from "./words.js";

const LONG = 120;

/**
 * Text from the cluster. Long text is cut; a button shows all of it.
 * @param {{value: unknown, limit?: number, lines?: boolean}} props `lines`: keep line breaks
 */
export function Text({ value, limit = LONG, lines = false }) {
  const [whole, setWhole] = useState(false);
  const text = String(value ?? "");
  const shown = (part) => (lines ? part.split("\n").map(visible).join("\n") : visible(part));
  if (text.length <= limit) return html`<bdi>${shown(text)}</bdi>`;
  if (whole) {
    return html`<bdi class="whole" tabindex="0" role="group" aria-label="the whole text">${shown(text)}</bdi>
      <button type="button" class="small" onClick=${() => setWhole(false)}>less</button>`;
  }
  return html`<bdi>${shown(cut(text, limit))}</bdi>
    <button type="button" class="small" onClick=${() => setWhole(true)}>all ${number(text.length)} letters</button>`;
}

/** Text in one line without a button; the tip has the whole text. */
export function Brief({ value, limit = 60 }) {
  const text = visible(cut(String(value ?? ""), 4000));
  if (text.length <= limit) return html`<bdi>${text}</bdi>`;
  return html`<bdi data-tip=${cut(text, 600)}>${cut(text, limit)}</bdi>`;
}

/**
 * Mark of an unknown value, with the reason.
 * @param {{why: string}} props
 */
export function Unknown({ why }) {
  return html`<span class="unknown" role="img" tabindex="0" aria-label=${`unknown: ${visible(why)}`} data-tip=${`unknown: ${visible(why)}`}>–</span>`;
}

/**
 * A value, or the reason why it is unknown.
 * @param {{value: any, why?: string, as?: (value: any) => any}} props
 */
export function Known({ value, why = "unknown", as = number }) {
  return value === null || value === undefined ? html`<${Unknown} why=${why} />` : as(value);
}

/** Number of records, rounded; the tip has all digits. */
export function Records({ value, why, least = false }) {
  if (value === null || value === undefined) return html`<${Unknown} why=${why ?? "the lag is unknown"} />`;
  const text = `${least ? "≥ " : ""}${compact(value)}`;
  return Math.abs(value) < 10000 ? text : html`<span data-tip=${number(value)}>${text}</span>`;
}

/** Age of the next unread record. */
export function Waited({ value, complete = true, why }) {
  if (value === null || value === undefined) return html`<${Unknown} why=${why ?? "the time of the next record is unknown"} />`;
  return `${complete ? "" : "≥ "}${duration(value)}`;
}

/** Local time of day; the tip has UTC. */
export function Time({ ms, why = "unknown" }) {
  if (ms === null || ms === undefined) return html`<${Unknown} why=${why} />`;
  return html`<time datetime=${utc(ms)} data-tip=${utc(ms)}>${timeOfDay(ms, nowMs())}</time>`;
}

/** Time since an event; the tip has the time of the event. */
export function Ago({ ms, why = "unknown" }) {
  if (ms === null || ms === undefined) return html`<${Unknown} why=${why} />`;
  return html`<time datetime=${utc(ms)} data-tip=${`${timeOfDay(ms)} (${utc(ms)})`}>${ago(ms, nowMs())}</time>`;
}

/** Name of a member; the tip has its host. */
export function Member({ member, none = "none" }) {
  if (!member) return html`<span class="soft">${none}</span>`;
  const about = [member.client_id && `client ${member.client_id}`, member.instance_id && `static ${member.instance_id}`, member.host && `at ${member.host}`, member.member_id];
  return html`<bdi class="name" data-tip=${cut(visible(about.filter(Boolean).join("\n")), 400)}>${cut(visible(memberName(member)), 60)}</bdi>`;
}

/** A link inside this page. */
export function Link({ to, params, children, ...rest }) {
  return html`<a href=${hrefOf(to, params)} data-link ...${rest}>${children}</a>`;
}
