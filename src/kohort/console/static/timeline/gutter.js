/** Names of the visible rows, left of the drawing. */
import { html } from "../parts/html.js";

/** Height of a name in pixels; in lower rows only some rows show their name. */
const NAME_HEIGHT = 15;

/** @param {{model: object, placed: object, rows: [number, number], top: number, cursor: object}} props */
export function Gutter({ model, placed, rows, top, cursor }) {
  const labels = [];
  let free = -Infinity;
  for (let i = rows[0]; i <= rows[1]; i += 1) {
    const y = placed.tops[i] - top;
    const height = placed.heights[i];
    const here = i === cursor.row;
    if (height < NAME_HEIGHT && y < free && !here) continue;
    free = y + NAME_HEIGHT;
    const row = model.rows[i];
    const kind = height < NAME_HEIGHT ? "one tiny" : height < 34 ? "one" : "";
    labels.push(html`<div key=${row.key} class=${`timeline-label ${kind} ${row.gone ? "gone" : ""} ${here ? "here" : ""}`}
      title=${row.under ? `${row.name} ${row.under}` : row.name}
      style=${{ top: `${y}px`, height: `${Math.max(height, NAME_HEIGHT)}px` }}><b>${row.label}</b>${row.under && html`<i>${row.under}</i>`}</div>`);
  }
  return html`<div class="timeline-gutter">${labels}</div>`;
}
