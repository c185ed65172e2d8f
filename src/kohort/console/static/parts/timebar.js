/** Time controls: live, paused or a past moment, and the time span of the views. */
import { useEffect, useState } from "preact/hooks";
import { isOneFile } from "../data.js";
import { html } from "./html.js";
import { Icon } from "./badge.js";
import { useFold } from "./fold.js";
import { duration, timeOfDay, utc } from "./format.js";
import { goLive, nowMs, pause, presentMs, showAt, useLive } from "./live.js";
import { choose, usePlace } from "./router.js";
import { Ago } from "./text.js";
import { visible } from "./words.js";

const HOUR_MS = 3_600_000;
export const SPANS = [
  [900_000, "15 min"],
  [HOUR_MS, "1 h"],
  [6 * HOUR_MS, "6 h"],
  [24 * HOUR_MS, "24 h"],
  [7 * 24 * HOUR_MS, "7 d"],
];
const SPEEDS = [1, 10, 60];

/**
 * Time span of history views: from the address, else the last minutes up to now; a whole recording.
 * @returns {{from: number, until: number}}
 */
export function useSpan() {
  const { params } = usePlace();
  const { cluster, at } = useLive();
  const recorded = cluster?.kind === "recorded";
  const until = Number(params.until) || at || (recorded ? cluster.journal?.until_ms : null) || roundedNow();
  const whole = recorded && !params.span ? cluster.journal?.since_ms : null;
  const from = Number(params.from) || whole || until - (Number(params.span) || HOUR_MS);
  return { from, until };
}

/** Present time, rounded to ten seconds: requests stay the same, and their answers can be reused. */
function roundedNow() {
  return Math.ceil(nowMs() / 10_000) * 10_000;
}

export function TimeBar() {
  const { mode, at, cluster, stream, outage } = useLive();
  const fold = useFold("Time ▾");
  return html`<section class=${`timebar ${fold.className}`} aria-label="Time">
    <span class="cluster folded" data-tip=${clusterTip(cluster)}>${visible(cluster.title || cluster.address || cluster.cluster_id || "cluster")}</span>
    <${Now} mode=${mode} at=${at} stream=${stream} outage=${outage} />${fold.button}
    ${cluster.journal?.since_ms && !isOneFile() && html`<${Scrubber} cluster=${cluster} at=${at} />`}
    <span class="grow"></span>
    <${SpanChoice} />
    <${Source} cluster=${cluster} />
  </section>`;
}

function clusterTip(cluster) {
  return visible([cluster.address && `at ${cluster.address}`, cluster.cluster_id && `cluster ${cluster.cluster_id}`, cluster.version && `version ${cluster.version}`, cluster.user && `as ${cluster.user}`].filter(Boolean).join("; "));
}

const MODES = {
  live: ["dot", "LIVE"],
  paused: ["pause", "PAUSED"],
  replay: ["back", "REPLAY"],
  recorded: ["square", "RECORDED"],
};

function Now({ mode, at, stream, outage }) {
  const lost = mode === "live" && (outage !== null || stream === "lost");
  const [icon, word] = lost ? ["cross", outage ? "NO ANSWER" : "NOT CONNECTED"] : MODES[mode];
  return html`<span class=${`mode ${lost ? "lost" : mode}`} data-mode=${mode} data-stream=${stream}><${Icon} name=${icon} />${word}</span>
    ${at !== null && html`<time datetime=${utc(at)} data-tip=${utc(at)}>${timeOfDay(at)}</time>`}
    ${mode === "live" && html`<button type="button" class="small folded" onClick=${pause}>Pause</button>`}
    ${(mode === "paused" || mode === "replay") && html`<button type="button" class="small" onClick=${goLive}>${"Back to now"}</button>`}
    ${lost && !outage && html`<span class="soft">no events come from the console: values are up to 10 s old</span>`}`;
}

/** Slider over the time range of the journal, with step buttons and playback. */
function Scrubber({ cluster, at }) {
  const since = cluster.journal.since_ms;
  const end = () => (cluster.kind === "recorded" ? (cluster.journal.until_ms ?? cluster.now_ms) : Math.round(Math.max(presentMs(), at ?? 0)));
  const until = end();
  const [speed, setSpeed] = useState(0);
  const shown = at ?? until;
  useEffect(() => {
    if (!speed || at === null) return undefined;
    const timer = setTimeout(() => {
      const last = end();
      if (at + speed * 1000 >= last) setSpeed(0);
      showAt(Math.min(at + speed * 1000, last));
    }, 1000);
    return () => clearTimeout(timer);
  }, [speed, at]);
  const step = (ms) => showAt(Math.min(end(), Math.max(since, shown + ms)));
  const play = () => {
    if (at === null) showAt(Math.max(since, until - 900_000));
    setSpeed(speed ? 0 : SPEEDS[1]);
  };
  return html`<span class="scrubber folded">
    <button type="button" class="small" data-tip="a minute earlier" onClick=${() => step(-60_000)}>−1 min</button>
    <input type="range" aria-label="moment that is shown" min=${since} max=${Math.round(until)} step="1000" value=${Math.round(shown)} aria-valuetext=${`${timeOfDay(shown)}, ${duration(until - shown)} before the end`} onChange=${(event) => showAt(Number(event.target.value))} />
    <button type="button" class="small" data-tip="a minute later" onClick=${() => step(60_000)}>+1 min</button>
    <button type="button" class="small" aria-pressed=${speed > 0} onClick=${play}>${speed ? "Stop" : "Play"}</button>
    ${speed > 0 && html`<label><span class="hidden">Speed</span><select value=${speed} onChange=${(event) => setSpeed(Number(event.target.value))}>${SPEEDS.map((one) => html`<option value=${one}>${one}×</option>`)}</select></label>`}
  </span>`;
}

function SpanChoice() {
  const { params } = usePlace();
  const { cluster } = useLive();
  const fixed = params.from || params.until;
  const chosen = fixed ? "fixed" : (params.span ?? (cluster.kind === "recorded" ? "" : String(HOUR_MS)));
  const change = (event) => choose({ span: event.target.value, from: null, until: null });
  return html`<label class="span folded">Span <select value=${chosen} onChange=${change}>
    ${fixed && html`<option value="fixed">from the address</option>`}
    ${cluster.kind === "recorded" && html`<option value="">whole recording</option>`}
    ${SPANS.map(([ms, name]) => html`<option value=${String(ms)}>${name}</option>`)}</select></label>`;
}

function Source({ cluster }) {
  const journal = cluster.journal;
  if (!journal?.kind) {
    return html`<span class="chip warn folded" tabindex="0" data-tip=${visible(journal?.why_not ?? "there is none")}>no journal</span>`;
  }
  return html`<span class="chip folded" tabindex="0" data-tip=${`rebalances come from the ${journal.kind}${journal.stale ? "; it may be out of date" : ""}`}>${journal.kind}${journal.stale ? " (stale)" : ""}${journal.since_ms && html`, since <${Ago} ms=${journal.since_ms} />`}</span>`;
}
