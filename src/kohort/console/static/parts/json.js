/**
 * Hook for API answers: requests an answer when the component appears, and again after a change of time or a stream event.
 */
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { getJson, lengthOf } from "../data.js";
import { isFrozen, mode, onNews, useLive } from "./live.js";

const BETWEEN_MS = 2000;
/** Stream events after which answers about the whole cluster are requested again. */
export const OF_CLUSTER = { on: ["groups"], betweenMs: 5000 };
/** For answers that no stream event announces: request again after five seconds, or later if the answer takes long. */
export const EVERY_5_S = { everyMs: 5000 };
const PAUSE_FACTOR = 4;
const KEPT = 40;
const KEPT_LENGTH = 4_000_000;

/** Cached answer of each request, so that a view opens at once when it is opened again. @type {Map<string, any>} */
const remembered = new Map();
let length = 0;

/** Cache an answer; above the limits of number and length, drop the oldest answers, but never the last one. */
function remember(key, body) {
  forget(key);
  remembered.set(key, body);
  length += lengthOf(body);
  while (remembered.size > 1 && (remembered.size > KEPT || length > KEPT_LENGTH)) forget(remembered.keys().next().value);
}

function forget(key) {
  length -= lengthOf(remembered.get(key));
  remembered.delete(key);
}

/**
 * @param {string|null} path null: no request
 * @param {Record<string, unknown>} [params]
 * @param {{on?: string[], betweenMs?: number, everyMs?: number, merge?: (body: any, kind: string, news: any) => any}} [options]
 *   `on`: stream events after which to request again, at most every two seconds or `betweenMs`. `merge`: merges an event
 *   into the answer without a request; returns the new answer, or undefined. `everyMs`: request again after this time,
 *   while the page is live and visible.
 * @returns {{body: any, error: Error|null, loading: boolean, reload: () => void}}
 */
export function useJson(path, params = {}, { on = [], betweenMs = BETWEEN_MS, everyMs = 0, merge } = {}) {
  const { at } = useLive();
  const key = path === null ? "" : `${path} ${JSON.stringify(params)} ${at ?? ""}`;
  const [state, setState] = useState({ key: "", path: "", body: null, error: null });
  const asked = useRef({ params, merge, on, betweenMs, stop: null, tookMs: 0, soon: null });
  asked.current.params = params;
  asked.current.merge = merge;
  asked.current.on = on;

  const load = useCallback(() => {
    asked.current.stop?.abort();
    if (path === null) return;
    const stop = new AbortController();
    asked.current.stop = stop;
    asked.current.outdated = false;
    asked.current.running = true;
    const beganMs = performance.now();
    getJson(path, { ...asked.current.params, at }, stop.signal).then(
      (body) => {
        asked.current.tookMs = performance.now() - beganMs;
        remember(key, body);
        setState({ key, path, body, error: null });
      },
      (error) => {
        if (error.name !== "AbortError") setState((old) => ({ key, path, body: old.path === path ? old.body : null, error }));
      },
    ).finally(() => {
      if (asked.current.stop !== stop) return;
      asked.current.running = false;
      if (asked.current.outdated) asked.current.soon?.();
    });
  }, [key]);

  useLayoutEffect(() => {
    if (path === null) return undefined;
    if (isFrozen() && state.path === path && state.body) return undefined;
    if (remembered.has(key)) setState({ key, path, body: remembered.get(key), error: null });
    load();
    return () => asked.current.stop?.abort();
  }, [key]);

  useEffect(() => followNews(asked, load, setState), [load]);
  useEffect(() => {
    if (!everyMs || path === null) return undefined;
    const again = () => mode() === "live" && !document.hidden && load();
    const timer = setInterval(again, Math.max(everyMs, PAUSE_FACTOR * asked.current.tookMs));
    return () => clearInterval(timer);
  }, [load, everyMs, state]);

  const mine = state.path === path;
  const body = mine ? state.body : (remembered.get(key) ?? null);
  const error = mine ? state.error : null;
  return { body, error, loading: path !== null && !body && !error, reload: load };
}

/**
 * Merge stream events into an answer, or request the answer again after a pause. An event during a request makes its
 * answer outdated: the answer is requested again after it arrived.
 */
function followNews(asked, load, setState) {
  let timer = null;
  const soon = () => {
    if (asked.current.running) {
      asked.current.outdated = true;
      return;
    }
    timer ??= setTimeout(() => {
      timer = null;
      load();
    }, asked.current.betweenMs);
  };
  asked.current.soon = soon;
  const stop = onNews((kind, news) => {
    if (isFrozen()) return;
    if (kind === "resync" || asked.current.on.includes(kind)) soon();
    else if (kind === "looked") setState((old) => (old.body?.at_ms < news.at_ms ? (soon(), old) : old));
    else if (asked.current.merge) {
      setState((old) => {
        const body = old.body && asked.current.merge(old.body, kind, news);
        if (!old.body || (body && asked.current.running)) soon();
        return body ? { ...old, body } : old;
      });
    }
  });
  return () => {
    stop();
    clearTimeout(timer);
  };
}
