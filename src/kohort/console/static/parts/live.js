/**
 * Time that the page shows: live, paused, or a past moment. `at` in the address alone decides.
 */
import { useLayoutEffect, useState } from "preact/hooks";
import { isOneFile, openStream } from "../data.js";
import { choose, currentPlace, onPlace } from "./router.js";

/**
 * @typedef {"live"|"paused"|"replay"|"recorded"} Mode
 * live: updated by the stream. paused: the screen does not change. replay: state at a past moment.
 * recorded: the end of a recording, without updates.
 */

const state = {
  /** @type {any} the answer of /cluster */
  cluster: null,
  /** Start of the pause; data requested before it stay on the screen. */
  pausedAt: null,
  /** @type {"open"|"lost"|"closed"} */
  stream: "closed",
  /** Time of the last stream event, by this machine's clock. */
  heardMs: 0,
  /** Outage of the cluster, as reported by the console. @type {{since_ms: number, error: string}|null} */
  unreachable: null,
  /** Outage of the console itself. @type {{sinceMs: number, error: string}|null} */
  silent: null,
};

const watchers = new Set();
const listeners = new Set();
let closeStream = () => {};
let streamOf = null;

/** Number of changes; a new listener compares it to detect changes that it missed. */
let version = 0;

function tell() {
  version += 1;
  for (const watcher of [...watchers]) watcher();
}

/** @returns {number|null} the shown moment; null: now */
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

/** True if the screen must not change: paused. */
export function isFrozen() {
  return mode() === "paused";
}

/** True for a recording, which has no cluster to query. */
export function isWithoutCluster(cluster) {
  return cluster?.kind === "recorded" && !cluster.cluster_id;
}

/**
 * The present outage: cluster or console, its start, its error; null without an outage.
 * @returns {{part: "cluster"|"console", sinceMs: number, error: string}|null}
 */
export function outage() {
  if (state.silent) return { part: "console", ...state.silent };
  if (state.unreachable) return { part: "cluster", sinceMs: state.unreachable.since_ms, error: state.unreachable.error };
  return null;
}

/** Record an outage of the console; it starts at the console's last answer. */
export function consoleFailed(error) {
  if (state.silent || !state.cluster) return;
  state.silent = { sinceMs: answeredMs(), error: error.message };
  tell();
}

/** Time of the console's last answer, by the console's clock. */
function answeredMs() {
  return Math.max(state.cluster.askedAtMs, state.heardMs) + clockDifference();
}

/** Reference time of "ago": the shown moment, the end of the recording, or now. */
export function nowMs() {
  const at = shownAt();
  if (at !== null) return at;
  if (mode() === "recorded") return state.cluster?.now_ms ?? Date.now();
  return presentMs();
}

/** Present time by the console's clock, also while a past moment is shown. */
export function presentMs() {
  return Date.now() + clockDifference();
}

function clockDifference() {
  return state.cluster ? state.cluster.now_ms - state.cluster.askedAtMs : 0;
}

/** Store the answer of /cluster; draw all views again if more than its time has changed. */
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

/** Show the state at a past moment. */
export function showAt(ms) {
  state.pausedAt = null;
  choose({ at: Math.round(ms), live: null });
}

/**
 * Register a listener for stream events.
 * @param {(kind: string, data: any) => void} listener
 */
export function onNews(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Event stream of a live page: changes of all groups, and all events of the shown group. */
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
 * Hook: mode and cluster; the component is drawn again when they change.
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

/** The outage that makes the values of this view unknown; null while a past moment is shown. */
export function useOutage() {
  const live = useLive();
  return live.mode === "live" ? live.outage : null;
}
