/**
 * Table with caption, sort buttons (aria-sort) and arrow keys. With over 100 rows it draws only the visible rows.
 */
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "./html.js";
import { choose, usePlace } from "./router.js";
import { usePhone } from "./fold.js";
import { count, number } from "./format.js";

const ALL_DRAWN = 100;
const SPARE_ROWS = 8;
/** Number of rows above which the table has its own scroll bar and a fixed head. */
const LOW = 15;

/**
 * @typedef {object} Column
 * @property {string} key name of the column in the address
 * @property {string} title
 * @property {(row: any) => any} cell content of a cell
 * @property {(row: any) => any} [value] value to sort by; without it the column cannot be sorted
 * @property {string} [help] meaning of the column
 * @property {"number"|"text"} [kind]
 * @property {boolean} [head] true if the cell is the heading of its row
 * @property {string} [width] class of views.css with the maximum width
 * @property {boolean} [soon] on a phone the cell follows the heading of its row
 * @property {"wide"|"middle"} [needs] leave the column out below 1400 or below 900 pixels
 */

/**
 * Sort rows by an order such as "lag.down" or "name.up"; unknown values come last in both directions.
 * @param {any[]} rows
 * @param {Column[]} columns
 * @param {string|undefined} order
 */
export function sorted(rows, columns, order) {
  const [key, direction] = (order ?? "").split(".");
  const column = columns.find((one) => one.key === key && one.value);
  if (!column) return rows;
  const sign = direction === "up" ? 1 : -1;
  return [...rows].sort((a, b) => compare(column.value(a), column.value(b), sign));
}

function compare(a, b, sign) {
  const unknownA = a === null || a === undefined;
  const unknownB = b === null || b === undefined;
  if (unknownA || unknownB) return Number(unknownA) - Number(unknownB);
  if (typeof a === "number" && typeof b === "number") return sign * (a - b);
  return sign * String(a).localeCompare(String(b), "en", { numeric: true });
}

/**
 * @param {{caption: string, columns: Column[], rows: any[], keyOf: (row: any) => string, rowHeight?: number,
 *   rowClass?: (row: any) => string, order?: string, empty?: any, sortParam?: string, tall?: boolean}} props
 *   `order`: order without a parameter in the address. `sortParam`: name of that parameter.
 */
export function Table({ caption, columns, rows, keyOf, rowHeight = 34, rowClass, order, empty = "Nothing to show.", sortParam = "sort", tall = false }) {
  const { params } = usePlace();
  const asked = params[sortParam] ?? order;
  const ordered = sorted(rows, columns, asked);
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, height: 800 });
  const phone = usePhone();
  const [cards, setCards] = useState(ALL_DRAWN);
  const windowed = ordered.length > ALL_DRAWN && !phone;
  const [first, last] = windowed ? inSight(view, rowHeight, ordered.length) : [0, phone ? Math.min(cards, ordered.length) : ordered.length];
  useEffect(() => watchBox(box.current, windowed, setView), [windowed]);
  if (!rows.length) return html`<p class="empty">${empty}</p>`;
  return html`<div class=${`tablebox ${tall || rows.length > LOW ? "tall" : ""}`} ref=${box} tabindex="0" role="region" aria-label=${caption} onKeyDown=${(event) => byKey(event, box.current, rowHeight, windowed)}>
    <table aria-rowcount=${windowed ? ordered.length + 1 : null} class=${`${windowed ? "fixedrows" : ""} ${rowHeight > 40 ? "tworows" : ""}`}>
      <caption class="hidden">${caption}, ${count(rows.length, "row")}</caption>
      <thead><tr aria-rowindex=${windowed ? 1 : null}>${columns.map((column) => html`<${Head} column=${column} order=${asked} sortParam=${sortParam} />`)}</tr></thead>
      <tbody>
        <${Space} rows=${first} height=${rowHeight} columns=${columns.length} />
        ${ordered.slice(first, last).map((row, i) => html`<${Row} key=${keyOf(row)} row=${row} columns=${columns} index=${windowed ? first + i + 2 : null} className=${rowClass?.(row)} />`)}
        ${windowed && html`<${Space} rows=${ordered.length - last} height=${rowHeight} columns=${columns.length} />`}
      </tbody>
    </table>
  </div>
  ${phone && html`<div class="below">${last < ordered.length && html`<button type="button" class="small" onClick=${() => setCards(cards + ALL_DRAWN)}>${number(ordered.length - last)} more</button>`}
    ${rows.length > 1 && html`<${Order} columns=${columns} order=${asked} sortParam=${sortParam} caption=${caption} />`}</div>`}`;
}

function inSight(view, rowHeight, total) {
  const first = Math.max(0, Math.floor(view.top / rowHeight) - SPARE_ROWS);
  return [Math.min(first, total), Math.min(total, first + Math.ceil(view.height / rowHeight) + 2 * SPARE_ROWS)];
}

function watchBox(box, windowed, setView) {
  if (!box || !windowed) return undefined;
  const look = () => setView({ top: box.scrollTop, height: box.clientHeight });
  look();
  box.addEventListener("scroll", look, { passive: true });
  const sizes = new ResizeObserver(look);
  sizes.observe(box);
  return () => {
    box.removeEventListener("scroll", look);
    sizes.disconnect();
  };
}

function classOf(column) {
  return [column.kind === "number" && "number", column.width, column.needs && `needs-${column.needs}`].filter(Boolean).join(" ");
}

/** Choice of the order, on a phone: its rows are cards without column heads. */
function Order({ columns, order, sortParam, caption }) {
  const ways = columns.filter((column) => column.value).flatMap((column) => [[`${column.key}.down`, `${column.title} ↓`], [`${column.key}.up`, `${column.title} ↑`]]);
  if (!ways.length) return null;
  return html`<label>Order <select aria-label=${`order of ${caption}`} value=${order ?? ""} onChange=${(event) => choose({ [sortParam]: event.target.value })}><option value="">as listed</option>${ways.map(([way, title]) => html`<option value=${way}>${title}</option>`)}</select></label>`;
}

function Head({ column, order, sortParam }) {
  const [key, direction] = (order ?? "").split(".");
  const on = key === column.key;
  const up = on && direction === "up";
  const kind = classOf(column);
  if (!column.value) return html`<th scope="col" class=${kind} data-tip=${column.help}>${column.title}</th>`;
  const first = column.kind === "number" ? "down" : "up";
  const next = on ? (up ? "down" : "up") : first;
  return html`<th scope="col" class=${kind} aria-sort=${on ? (up ? "ascending" : "descending") : "none"}>
    <button type="button" class="sort" data-tip=${column.help} onClick=${() => choose({ [sortParam]: `${key === column.key ? key : column.key}.${next}` })}>
      ${column.title}<span class="arrow" aria-hidden="true">${on ? (up ? "▲" : "▼") : ""}</span>
    </button></th>`;
}

function Row({ row, columns, index, className = "" }) {
  const head = columns.findIndex((column) => column.head);
  return html`<tr class=${className} aria-rowindex=${index} tabindex="-1">
    ${columns.map((column, i) => {
      const kind = `${classOf(column)} ${i < head ? "before" : column.soon ? "soon" : ""}`;
      return column.head ? html`<th scope="row" class=${kind} data-title=${column.title}>${column.cell(row)}</th>` : html`<td class=${kind} data-title=${column.title}>${column.cell(row)}</td>`;
    })}
  </tr>`;
}

function Space({ rows, height, columns }) {
  if (rows <= 0) return null;
  return html`<tr class="space" aria-hidden="true"><td colspan=${columns} style=${{ height: `${rows * height}px` }}></td></tr>`;
}

/** Move the focus: arrow keys to the next row, Home and End to the first and last row. */
function byKey(event, box, rowHeight, windowed) {
  const steps = { ArrowDown: 1, ArrowUp: -1 };
  if (event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement) return;
  if (event.key === "Home" || event.key === "End") {
    if (windowed) box.scrollTop = event.key === "Home" ? 0 : box.scrollHeight;
    return;
  }
  const step = steps[event.key];
  if (!step) return;
  event.preventDefault();
  const rows = [...box.querySelectorAll("tbody tr:not(.space)")];
  const here = rows.indexOf(document.activeElement?.closest("tr"));
  const next = rows[here < 0 ? 0 : here + step];
  if (!next) return;
  if (windowed && here >= 0) {
    box.scrollTop += step * rowHeight;
    box.dispatchEvent(new Event("scroll")); // draws the rows ahead before the next key; the browser's own event waits for a frame
  }
  (next.querySelector("a, button") ?? next).focus({ preventScroll: windowed });
}
