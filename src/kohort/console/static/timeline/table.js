/** The timeline as a table, for screen readers and for copying. */
import { duration, timeOfDay, utc } from "../parts/format.js";
import { html } from "../parts/html.js";
import { cut, memberName, plain, visible } from "../parts/words.js";
import { tableRows } from "./table-rows.js";

const ROWS_MOST = 400;
const NAMES_MOST = 12;

/** @param {{timeline: object, from: number, until: number}} props only columns within the window are shown */
export function TimelineTable({ timeline, from, until }) {
  const all = tableRows(timeline).filter(({ column }) => column.from_ms < until && (column.until_ms ?? Infinity) > from);
  const rows = all.slice(0, ROWS_MOST);
  const left = all.length - rows.length;
  return html`<div class="timeline-table" tabindex="0" role="region" aria-label="Timeline as a table">
    <table>
      <caption>Assignments of ${visible(timeline.group)}, after each rebalance${left > 0 ? `; ${left} more rows: zoom in to see them` : ""}</caption>
      <thead><tr>${["Generation", "Began", "Cause", "Took", "Member", "Has", "Got", "Revoked", "Happened"].map((title) => html`<th scope="col">${title}</th>`)}</tr></thead>
      <tbody>${rows.map((row) => html`<tr>
        <th scope="row">${row.column.generation ?? "–"}</th>
        <td title=${utc(row.column.from_ms)}>${timeOfDay(row.column.from_ms)}</td>
        <td>${row.column.cause ? plain(row.column.cause) : "–"}</td>
        <td>${row.column.took_ms === null ? "–" : duration(row.column.took_ms)}</td>
        <td>${cut(visible(memberName(row.member)), 60)}</td>
        <td>${row.stays ? names(row.owned) : "gone"}</td><td>${names(row.gained)}</td><td>${names(row.lost)}</td>
        <td>${row.happened.map(visible).join("; ")}</td>
      </tr>`)}</tbody>
    </table>
  </div>`;
}

function names(partitions) {
  const shown = partitions.slice(0, NAMES_MOST).map(visible).join(", ");
  return partitions.length > NAMES_MOST ? `${shown} and ${partitions.length - NAMES_MOST} more` : shown || "–";
}
