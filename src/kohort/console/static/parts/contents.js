/** Keys, values and headers of records: as text, JSON or hex. They are data of clients, and always shown as text. */
import { html } from "./html.js";
import { bytes } from "./format.js";
import { Text } from "./text.js";

/** Ways to show contents: name in the address, label. */
export const FORMATS = [
  ["text", "text"],
  ["json", "JSON"],
  ["hex", "hex"],
];
const HEX_BYTES = 4096;
const HEX_LINE = 16;

/**
 * Content of a key, value or header. Bytes that are not UTF-8 are shown as base64 with a label, or as hex.
 * @param {{value: string|{base64: string}|null, size?: number, format?: string, limit?: number}} props
 *   `size`: whole size in bytes, if the value may be cut
 */
export function Content({ value, size, format = "text", limit = 160 }) {
  if (value === null) return html`<span class="soft">null</span>`;
  const data = format === "hex" || size !== undefined ? bytesOf(value) : null;
  const cut = data !== null && size > data.length && html` <span class="chip">first ${bytes(data.length)} of ${bytes(size)}</span>`;
  if (format === "hex") return html`<pre class="content">${hexDump(data)}</pre>${cut}`;
  if (typeof value !== "string") return html`<span class="chip">base64</span> <code><${Text} value=${value.base64} limit=${limit} /></code>${cut}`;
  const json = format === "json" && !cut ? indented(value) : null;
  if (json !== null) return html`<pre class="content"><${Text} value=${json} limit=${4000} lines /></pre>`;
  return html`<code><${Text} value=${value} limit=${limit} /></code>${cut}`;
}

function bytesOf(value) {
  if (typeof value === "string") return new TextEncoder().encode(value);
  return Uint8Array.from(atob(value.base64), (char) => char.charCodeAt(0));
}

/** Lines of 16 bytes: offset, hex, printable ASCII. */
function hexDump(data) {
  const lines = [];
  for (let at = 0; at < Math.min(data.length, HEX_BYTES); at += HEX_LINE) {
    const line = [...data.subarray(at, at + HEX_LINE)];
    const hex = line.map((one) => one.toString(16).padStart(2, "0")).join(" ").padEnd(HEX_LINE * 3);
    lines.push(`${at.toString(16).padStart(4, "0")}  ${hex} ${line.map((one) => (one > 31 && one < 127 ? String.fromCharCode(one) : ".")).join("")}`);
  }
  return lines.join("\n") + (data.length > HEX_BYTES ? `\n… ${bytes(data.length - HEX_BYTES)} more` : "");
}

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s"{}[\],:]+/g;

/** Indent a JSON object or array; null for other text. Long numbers keep all digits, which JSON.parse would round. */
export function indented(text) {
  if (!/^\s*[{[]/.test(text)) return null;
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  let depth = 0;
  let out = "";
  let last = "";
  const isOpen = (token) => token === "{" || token === "[";
  const line = () => `\n${"  ".repeat(depth)}`;
  for (const [token] of text.matchAll(TOKEN)) {
    const closes = token === "}" || token === "]";
    if (closes) depth -= 1;
    if (closes ? !isOpen(last) : isOpen(last) || last === ",") out += line();
    out += token === ":" ? ": " : token;
    if (isOpen(token)) depth += 1;
    last = token;
  }
  return out;
}
