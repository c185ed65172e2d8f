/**
 * The time that the page shows: LIVE, paused, or a moment of the past. `at` in the address is the one truth of it.
 */
import { useLayoutEffect, useState } from "preact/hooks";
import { isOneFile, openStream } from "../data.js";
import { choose, currentPlace, onPlace } from "./router.js";

/**
 * @typedef {"live"|"paused"|"replay"|"recorded"} Mode
 * live: news as they come. paused: what was on the screen stays. replay: as it was known at a moment.
 * recorded: the end of a recording, which has no news.
 */

const state = {
  /** @type {any} the answer of /cluster */
  cluster: null,
  /** Where a pause began; data asked before stay. */
  pausedAt: null,
  /** @type {"open"|"lost"|"closed"} */
  stream: "closed",
  /** When the last news came, by this machine's clock. */
  heardMs: 0,
  /** The console's report of an outage of the cluster. @type {{since_ms: number, error: string}|null} */
  unreachable: null,
  /** A console that does not answer this page. @type {{sinceMs: number, error: string}|null} */
  silent: null,
};

const watchers = new Set();
const listeners = new Set();
let closeStream = () => {};
let streamOf = null;

/** How often something changed; who begins to watch sees by it what was missed. */
let version = 0;

function tell() {
  version += 1;
  for (const watcher of [...watchers]) watcher();
}

/** @returns {number|null} the moment that is shown; null is now */
export function shownAt() {
  const at = Number(currentPlace().params.at);
  return Number.isFinite(at) && at > 0 ? at : null;
}

/** @returns {Mode} */
export function mode() {
  const at = shownAt();
  if (at !== null) return at === state.pausedAt ? "paused" : "replay";
  return state.cluster?.kind === "recorded" || isOneFile() ? "recorded" : "live";
}

/** Whether what is on the screen is to stay as it is. */
export function isFrozen() {
  return mode() === "paused";
}

/** Whether there is no cluster that could be asked: a recording names none. */
export function isWithoutCluster(cluster) {
  return cluster?.kind === "recorded" && !cluster.cluster_id;
}

/**
 * The part that does not answer, since when, and the error; null while both answer.
 * @returns {{part: "cluster"|"console", sinceMs: number, error: string}|null}
 */
export function outage() {
  if (state.silent) return { part: "console", ...state.silent };
  if (state.unreachable) return { part: "cluster", sinceMs: state.unreachable.since_ms, error: state.unreachable.error };
  return null;
}

/** Keep the error of a console that does not answer; its start is the last answer. */
export function consoleFailed(error) {
  if (state.silent || !state.cluster) return;
  state.silent = { sinceMs: answeredMs(), error: error.message };
  tell();
}

/** Time of the last answer of the console, by its clock. */
function answeredMs() {
  return Math.max(state.cluster.askedAtMs, state.heardMs) + clockDifference();
}

/** The moment from which "ago" counts: the one that is shown, the end of the recording, or now. */
export function nowMs() {
  const at = shownAt();
  if (at !== null) return at;
  if (mode() === "recorded") return state.cluster?.now_ms ?? Date.now();
  return presentMs();
}

/** Now by the server's clock, whatever moment is shown. */
export function presentMs() {
  return Date.now() + clockDifference();
}

function clockDifference() {
  return state.cluster ? state.cluster.now_ms - state.cluster.askedAtMs : 0;
}

/** Keep what the server said of itself; all is drawn anew if more is different than the time. */
export function setCluster(cluster) {
  const before = state.cluster;
  const returned = state.silent !== null;
  state.cluster = { ...cluster, askedAtMs: Date.now() };
  state.silent = null;
  state.unreachable = cluster.unreachable ?? null;
  follow();
  if (returned || state.stream === "lost") tellNews("resync", {});
  if (returned || !before || apartFromTime(before) !== apartFromTime(state.cluster)) tell();
}

function apartFromTime(cluster) {
  return JSON.stringify({ ...cluster, now_ms: 0, askedAtMs: 0, journal: cluster.journal && { ...cluster.journal, until_ms: 0 } });
}

export function pause() {
  const at = Math.round(nowMs());
  state.pausedAt = at;
  choose({ at, live: null });
}

export function goLive() {
  state.pausedAt = null;
  choose({ at: null });
}

/** Show the page as it was known at a moment. */
export function showAt(ms) {
  state.pausedAt = null;
  choose({ at: Math.round(ms), live: null });
}

/**
 * Hear news of the stream.
 * @param {(kind: string, data: any) => void} listener
 */
export function onNews(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** One stream while the page is live: about all groups, and in full about the one that is shown. */
function follow() {
  const { segments } = currentPlace();
  const group = segments[0] === "groups" ? (segments[1] ?? null) : null;
  const wanted = state.cluster && mode() === "live" ? `of:${group ?? ""}` : null;
  if (wanted === streamOf) return;
  closeStream();
  streamOf = wanted;
  state.stream = "closed";
  closeStream = wanted === null ? () => {} : openStream({ group, onEvent: hear, onState: setStream });
}

function hear(kind, data) {
  state.heardMs = Date.now();
  if (kind === "bye") setStream("lost");
  if (kind === "reach") {
    state.unreachable = data.unreachable ?? null;
    tell();
  }
  tellNews(kind, data);
}

function tellNews(kind, data) {
  for (const listener of [...listeners]) listener(kind, data);
}

function setStream(stream) {
  const came = stream === "open" && state.stream === "lost";
  const changed = stream !== state.stream;
  state.stream = stream;
  if (came) tellNews("resync", {});
  if (changed && stream === "lost") tellNews("lost", {});
  if (changed) tell();
}

/** Called once. */
export function startLive() {
  onPlace(() => {
    follow();
    tell();
  });
  window.addEventListener("pagehide", () => closeStream());
}

/**
 * The mode and the cluster, in a component that is drawn anew when they change.
 * @returns {{mode: Mode, at: number|null, cluster: any, stream: string, outage: ReturnType<typeof outage>}}
 */
export function useLive() {
  const [, draw] = useState(version);
  const drawn = version;
  useLayoutEffect(() => {
    const watcher = () => draw(version);
    watchers.add(watcher);
    if (drawn !== version) watcher();
    return () => watchers.delete(watcher);
  }, []);
  return { mode: mode(), at: shownAt(), cluster: state.cluster, stream: state.stream, outage: outage() };
}

/** The outage that makes the values of this view unknown: that of the present, not of a moment of the past. */
export function useOutage() {
  const live = useLive();
  return live.mode === "live" ? live.outage : null;
}
