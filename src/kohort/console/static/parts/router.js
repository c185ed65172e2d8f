/**
 * The address of the page: the view and all choices in it, so that a link opens the same view.
 *
 * A served page uses paths (/groups/orders/members?sort=lag). An exported file has them after a "#".
 */
import { useLayoutEffect, useState } from "preact/hooks";
import { isOneFile } from "../data.js";

/** Parameters that all views share; other parameters belong to one view. */
const KEPT = ["at", "from", "until", "span", "live"];

/** @type {Set<() => void>} */
const listeners = new Set();

/**
 * @typedef {{path: string, segments: string[], params: Record<string, string>}} Place
 */

/** @returns {Place} */
export function currentPlace() {
  const address = isOneFile() ? window.location.hash.slice(1) || "/groups" : window.location.pathname + window.location.search;
  return parsePlace(address);
}

/**
 * @param {string} address a path with an optional query
 * @returns {Place}
 */
export function parsePlace(address) {
  const [path, query = ""] = splitOnce(address, "?");
  const segments = path.split("/").filter(Boolean).map(decoded);
  return { path, segments, params: Object.fromEntries(new URLSearchParams(query)) };
}

function splitOnce(text, mark) {
  const at = text.indexOf(mark);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}

function decoded(segment) {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

/**
 * Join segments to a path; each is encoded, since group names may contain any character.
 * @param {...string} segments
 */
export function pathOf(...segments) {
  return `/${segments.map(encodeURIComponent).join("/")}`;
}

/**
 * Address of a view, with the shared parameters such as the chosen time.
 * @param {string} path
 * @param {Record<string, string|number|null|undefined>} [params]
 */
export function addressOf(path, params = {}) {
  const here = currentPlace().params;
  const all = {};
  for (const name of KEPT) if (here[name] !== undefined) all[name] = here[name];
  return withQuery(path, { ...all, ...params });
}

function withQuery(path, params) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

/** Value of `href` for a link. */
export function hrefOf(path, params) {
  const address = addressOf(path, params);
  return isOneFile() ? `#${address}` : address;
}

/** Open a view. */
export function go(path, params) {
  show(addressOf(path, params), false);
}

/**
 * Change parameters of this view; null removes one. Adds an entry to the browser's history only if `push` is true.
 * @param {Record<string, string|number|null>} changes
 */
export function choose(changes, { push = false } = {}) {
  const here = currentPlace();
  show(withQuery(here.path, { ...here.params, ...changes }), !push);
}

function show(address, replace) {
  const href = isOneFile() ? `#${address}` : address;
  window.history[replace ? "replaceState" : "pushState"](null, "", href);
  tell();
}

function tell() {
  for (const listener of [...listeners]) listener();
}

/** Handle the browser's Back and Forward buttons, and clicks on links of this page. Called once. */
export function startRouter() {
  window.addEventListener("popstate", tell);
  window.addEventListener("hashchange", tell);
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a[data-link]") : null;
    const plainClick = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!link || !plainClick) return;
    event.preventDefault();
    window.history.pushState(null, "", link.getAttribute("href"));
    tell();
    window.scrollTo(0, 0);
  });
}

/** @param {() => void} listener */
export function onPlace(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/**
 * Hook: the present address; the component is drawn again when it changes.
 * @returns {Place}
 */
export function usePlace() {
  const [place, setPlace] = useState(currentPlace);
  useLayoutEffect(() => onPlace(() => setPlace(currentPlace())), []);
  return place;
}
