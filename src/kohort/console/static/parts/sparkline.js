/** Sparkline: a small line chart with gaps at unknown values. */
import { html } from "./html.js";
import { compact } from "./format.js";

const WIDTH = 72;
const HEIGHT = 20;

/** @param {{values: (number|null)[]}} props */
export function Sparkline({ values }) {
  const known = (values ?? []).filter((value) => value !== null);
  if (known.length < 2) return null;
  const low = Math.min(...known);
  const high = Math.max(...known);
  const first = known[0];
  const last = known[known.length - 1];
  const way = last > first ? "rose" : last < first ? "fell" : "stayed the same";
  return html`<svg class="spark" viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} width=${WIDTH} height=${HEIGHT} role="img" aria-label=${`lag ${way} from ${compact(first)} to ${compact(last)}, between ${compact(low)} and ${compact(high)}`}>
    <path d=${pathOfLine(values, low, high)} /></svg>`;
}

/** Lines through the known values. A flat line lies at the bottom if it is zero, else in the middle. */
function pathOfLine(values, low, high) {
  const range = high - low;
  const y = (value) => (range ? HEIGHT - 2 - ((value - low) / range) * (HEIGHT - 4) : low === 0 ? HEIGHT - 2 : HEIGHT / 2);
  const step = WIDTH / Math.max(1, values.length - 1);
  let pen = "M";
  let path = "";
  values.forEach((value, i) => {
    if (value === null) pen = "M";
    else {
      path += `${pen}${(i * step).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = "L";
    }
  });
  return path;
}
