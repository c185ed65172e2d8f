/**
 * All requests of the page: to the server's API, or to the answers within an exported file.
 * No other module sends requests.
 */

const API = "/api/v1";
const TIMEOUT_MS = 30_000;

/** A failed request: error and advice. */
export class AskError extends Error {
  /**
   * @param {number} status HTTP status; 0 without an answer
   * @param {string} message
   * @param {string} whatToDo
   * @param {unknown} [body]
   */
  constructor(status, message, whatToDo, body) {
    super(message);
    this.status = status;
    this.whatToDo = whatToDo;
    this.body = body;
  }
}

/** Length of answers, in characters. @type {WeakMap<object, number>} */
const lengths = new WeakMap();

/** Return the length of an answer in characters; 0 if unknown. */
export function lengthOf(body) {
  return lengths.get(body) ?? 0;
}

/** Answers that were requested in advance. @type {Map<string, Promise<any>>} */
const early = new Map();
const embedded = readEmbedded();
let token = null;

function readEmbedded() {
  const element = document.getElementById("kohort-data");
  return element ? JSON.parse(element.textContent) : null;
}

/** True if this page is an exported file without a server. */
export function isOneFile() {
  return embedded !== null;
}

/** Keep the token for changes. */
export function setToken(value) {
  token = value;
}

/**
 * The query of `params`, sorted by name; null and undefined are left out.
 * @param {Record<string, unknown>} params
 */
function queryOf(params) {
  const given = Object.entries(params).filter(([, value]) => value !== null && value !== undefined && value !== "");
  given.sort(([a], [b]) => (a < b ? -1 : 1));
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return text ? `?${text}` : "";
}

/**
 * Request a finding.
 * @param {string} path such as "/groups"
 * @param {Record<string, unknown>} [params]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
export async function getJson(path, params = {}, signal) {
  const query = queryOf(params);
  if (embedded) return fromFile(path, query);
  const asked = early.get(path + query);
  early.delete(path + query);
  const body = await (asked ?? fetched(path + query, signal));
  signal?.throwIfAborted();
  return body;
}

/** Request an answer in advance; the first later request uses it. */
export function askEarly(path) {
  if (embedded) return;
  const asked = fetched(path);
  asked.catch(() => {}); // reported to the later request
  early.set(path, asked);
}

function fetched(address, signal) {
  return answerOf(() => fetch(API + address, { signal: withTimeout(signal), headers: { Accept: "application/json" } }));
}

/**
 * Send a request with a body: a prediction or a change.
 * @param {string} path
 * @param {object} body
 * @returns {Promise<any>}
 */
export async function post(path, body) {
  if (embedded) throw new AskError(0, "this page is a file without a server", "use kohort console");
  const headers = { "Content-Type": "application/json", Accept: "application/json" };
  if (token) headers["X-Kohort-Token"] = token;
  const request = { method: "POST", headers, body: JSON.stringify(body), signal: withTimeout() };
  return answerOf(() => fetch(API + path, request));
}

function withTimeout(signal) {
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  return signal ? AbortSignal.any([signal, timeout]) : timeout;
}

function fromFile(path, query) {
  const found = embedded[path + query] ?? embedded[path];
  if (found === undefined) {
    throw new AskError(404, "this file does not contain the answer", "open the live console: kohort console");
  }
  return found;
}

async function answerOf(ask) {
  let response;
  try {
    response = await ask();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const late = error.name === "TimeoutError";
    throw new AskError(0, late ? "the console's server did not answer in time" : "the console's server cannot be reached",
      "check that its process still runs; the page shows its last values");
  }
  const text = await response.text().catch((error) => {
    if (error.name === "AbortError") throw error;
    return "";
  });
  const body = parsed(text, null);
  if (response.ok && body !== null) {
    if (typeof body === "object") lengths.set(body, text.length);
    return body;
  }
  throw new AskError(response.status, body?.error ?? `the server answered ${response.status}`,
    body?.advice ?? "check the log of the console", body);
}

const EVENTS = ["reach", "looked", "groups", "group", "entries", "resync", "bye"];

/**
 * Listen to the event stream. Returns a function that closes it.
 * @param {{group: string|null, onEvent: (kind: string, data: any) => void, onState: (state: "open"|"lost") => void}} asked
 * @returns {() => void}
 */
export function openStream({ group, onEvent, onState }) {
  if (embedded) return () => {};
  const source = new EventSource(`${API}/stream${queryOf({ group })}`);
  source.onopen = () => onState("open");
  source.onerror = () => onState("lost");
  for (const kind of EVENTS) {
    source.addEventListener(kind, (event) => onEvent(kind, parsed(event.data, {})));
  }
  return () => source.close();
}

function parsed(text, otherwise) {
  try {
    return JSON.parse(text);
  } catch {
    return otherwise;
  }
}
