/** Heat map of counts over time, as a table: columns are time intervals, each cell shows its count. */
import { html } from "./html.js";
import { count, timeOfDay } from "./format.js";

const SHADES = 5;

/**
 * @param {{caption: string, first: string, rows: {key: string, title: any, name: string, cells: number[]}[],
 *   columns: {title: string, from_ms: number}[]}} props `first`: heading of the first column. `name`: text of a row.
 */
export function HeatMap({ caption, first, rows, columns }) {
  const most = Math.max(1, ...rows.flatMap((row) => row.cells));
  const shade = (times) => (times === 0 ? "" : `shade s${Math.ceil((times / most) * SHADES)}`);
  return html`<div class="heat" tabindex="0" role="region" aria-label=${caption}><table>
    <caption class="hidden">${caption}; the most in one cell is ${most}</caption>
    <thead><tr><th scope="col">${first}</th>${columns.map((column) => html`<th scope="col">${column.title}</th>`)}<th scope="col">All</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.key}><th scope="row">${row.title}</th>
      ${row.cells.map((times, i) => html`<td class=${shade(times)} data-tip=${times ? `${row.name}, from ${timeOfDay(columns[i].from_ms)}: ${count(times, "rebalance")}` : null}>${times || ""}</td>`)}
      <td><b>${row.cells.reduce((a, b) => a + b, 0)}</b></td></tr>`)}</tbody></table></div>`;
}
