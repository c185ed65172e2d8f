/** Chart of the lag over time, with rebalances as bands. Drawn by uPlot, with a table of the same values. */
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { html } from "./html.js";
import { compact, duration, timeOfDay } from "./format.js";
import { colour } from "./theme.js";

const HEIGHT = 200;

/**
 * @param {{times: number[], lag: (number|null)[], bands: {from: number, until: number}[], onPick?: (ms: number) => void}} props
 */
export function LagChart({ times, lag, bands, onPick }) {
  const box = useRef(null);
  useEffect(() => {
    const element = box.current;
    const draw = () => drawn(element, times, lag, bands, onPick);
    let chart = draw();
    const again = () => {
      chart.destroy();
      chart = draw();
    };
    const sizes = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height: HEIGHT }));
    sizes.observe(element);
    document.addEventListener("kohort-theme", again);
    return () => {
      sizes.disconnect();
      document.removeEventListener("kohort-theme", again);
      chart.destroy();
    };
  }, [times, lag, bands]);
  return html`<div class="chart" role="img" aria-label=${summary(times, lag, bands)}><div ref=${box} aria-hidden="true"></div></div>`;
}

function summary(times, lag, bands) {
  const known = lag.filter((value) => value !== null);
  if (!known.length) return "lag over time: unknown";
  const last = known[known.length - 1];
  return `lag over ${duration(times[times.length - 1] - times[0])}: from ${compact(known[0])} to ${compact(last)}, at most ${compact(Math.max(...known))}; ${bands.length} rebalances`;
}

function drawn(box, times, lag, bands, onPick) {
  const ink = colour("--ink-soft");
  const line = colour("--line");
  const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line }, font: "11px system-ui, sans-serif" };
  const options = {
    width: box.clientWidth,
    height: HEIGHT,
    ms: 1,
    legend: { show: false },
    cursor: { drag: { x: false, y: false } },
    scales: { y: { range: (_chart, _low, high) => [0, Math.max(1, high * 1.1)] } },
    axes: [
      { ...axis, values: (_chart, splits) => splits.map((ms) => timeOfDay(ms, times[times.length - 1]).slice(-8)) },
      { ...axis, size: 56, values: (_chart, splits) => splits.map((value) => compact(value)) },
    ],
    series: [{}, { stroke: colour("--hue-5"), width: 2, fill: colour("--fill"), points: { show: false } }],
    hooks: { drawClear: [(chart) => drawBands(chart, bands)] },
  };
  const chart = new uPlot(options, [times, lag], box);
  chart.over.addEventListener("click", () => onPick?.(chart.posToVal(chart.cursor.left, "x")));
  return chart;
}

/** Draw rebalances as hatched bands, at least three pixels wide. */
function drawBands(chart, bands) {
  const { ctx, bbox } = chart;
  ctx.save();
  ctx.beginPath();
  ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
  ctx.clip();
  for (const band of bands) {
    const left = chart.valToPos(band.from, "x", true);
    const width = Math.max(3, chart.valToPos(band.until, "x", true) - left);
    drawBand(ctx, left, bbox.top, width, bbox.height);
  }
  ctx.restore();
}

function drawBand(ctx, left, top, width, height) {
  ctx.fillStyle = colour("--band");
  ctx.fillRect(left, top, width, height);
  ctx.strokeStyle = colour("--hue-6");
  ctx.lineWidth = 1;
  ctx.beginPath();
  for (let y = top - width; y < top + height; y += 8) {
    ctx.moveTo(left, y + width);
    ctx.lineTo(left + width, y);
  }
  ctx.moveTo(left, top);
  ctx.lineTo(left, top + height);
  ctx.stroke();
}
