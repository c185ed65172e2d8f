/** Outage of the cluster or of the console: the page shows it in place of every current value. */
import { useEffect, useState } from "preact/hooks";
import { html } from "./html.js";
import { Icon } from "./badge.js";
import { ago, timeOfDay, utc } from "./format.js";
import { presentMs, useLive } from "./live.js";
import { visible } from "./words.js";

const TICK_MS = 1000;
const PARTS = {
  cluster: "The cluster has not answered",
  console: "The console has not answered",
};

/** Banner above all views: cluster or console, start of the outage, error. */
export function OutageBanner() {
  const { outage } = useLive();
  return outage && html`<${Banner} outage=${outage} />`;
}

function Banner({ outage }) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((n) => n + 1), TICK_MS);
    return () => clearInterval(timer);
  }, []);
  const now = presentMs();
  return html`<div class="outage" role="alert" data-outage=${outage.part}>
    <${Icon} name="cross" />
    <div><strong>${PARTS[outage.part]} since <time datetime=${utc(outage.sinceMs)} data-tip=${utc(outage.sinceMs)}>${timeOfDay(outage.sinceMs, now)}</time></strong>
      <span aria-hidden="true"> (${ago(outage.sinceMs, now)})</span>. Health, lag and members of all groups, topics and brokers are unknown.
      <div class="outage-why">${visible(outage.error)}</div></div>
  </div>`;
}

/** Text in place of values that are unknown during the outage. @param {{title?: any, level?: 1|2}} props */
export function NotKnown({ title, level = 1 }) {
  const { outage } = useLive();
  const heading = title && (level === 1 ? html`<h1>${title}</h1>` : html`<h2>${title}</h2>`);
  return html`${heading}<p class="empty" data-unknown>Unknown: ${sinceWords(outage)}.</p>`;
}

/** "the cluster has not answered since 09:31:12": the reason of an unknown value. */
export function sinceWords(outage) {
  const part = PARTS[outage.part];
  return `${part.charAt(0).toLowerCase()}${part.slice(1)} since ${timeOfDay(outage.sinceMs, presentMs())}`;
}
