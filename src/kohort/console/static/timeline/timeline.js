/** Timeline of a group: a lane for each member or partition, with the rebalances. */
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { html } from "../parts/html.js";
import { count } from "../parts/format.js";
import { plain, visible } from "../parts/words.js";
import { CanvasDrawing } from "./canvas.js";
import { Patterns, SvgDrawing, underPoint } from "./draw-svg.js";
import { Legend, Reading } from "./foot.js";
import { Gutter } from "./gutter.js";
import { Head } from "./head.js";
import { layOut } from "./layout.js";
import { moveOf } from "./keys.js";
import { elasticScale, linearScale, placeOf, timeAt } from "./scale.js";
import { TimelineTable } from "./table.js";
import { around, countVisible, panned, placeRows, rowsWithin, spotsOf, windowOn, zoomed } from "./view.js";

/** With more marks than this, the window is drawn on a canvas instead of SVG. */
export const SVG_MOST = 1000;
const TALLEST = 560;
/** Width of the names of rows; timeline.css has the same. */
const gutter = () => (window.matchMedia("(max-width: 600px)").matches ? 112 : 196);
const GLIDE_MS = 180;
const ALL = { begin: 0, end: 1 };

/**
 * @param {{timeline: object, rebalances?: object[], events?: object[], selected?: string|null, onSelect?: (id: string) => void,
 *   mode?: "members"|"partitions", onMode?: (mode: string) => void, range?: {from_ms: number, until_ms: number}|null,
 *   onRange?: (range: object|null) => void}} props
 */
export function Timeline(props) {
  const { timeline, rebalances, events, selected = null, onSelect } = props;
  const [ownMode, setOwnMode] = useState(props.mode ?? "members");
  const mode = props.onMode ? (props.mode ?? "members") : ownMode;
  const [asTable, setAsTable] = useState(false);
  const [elastic, setElastic] = useState(true);
  const [fit, setFit] = useState(false);
  const model = useMemo(() => layOut({ timeline, rebalances, events, mode }), [timeline, rebalances, events, mode]);
  const scale = useMemo(() => scaleOf(model, elastic), [model, elastic]);
  const [box, size] = useSize();
  const [seen, show, glide] = useWindow(scale, props);
  const [cursor, setCursor] = useState({ round: -1, row: -1 });
  const [scrollTop, setScrollTop] = useState(0);

  useEffect(() => {
    const round = model.rounds.findIndex((one) => one.id === selected);
    if (round >= 0) setCursor((now) => ({ ...now, round }));
  }, [model, selected]);

  const width = Math.max(120, size - gutter());
  const view = useMemo(() => windowOn(scale, seen.begin, seen.end, width), [scale, seen, width]);
  const placed = useMemo(() => placeRows(model, fit ? TALLEST : null), [model, fit]);
  const spots = useMemo(() => spotsOf(model, scale), [model, scale]);
  const height = Math.max(40, Math.min(TALLEST, placed.total));
  const top = Math.min(scrollTop, Math.max(0, placed.total - height));
  const rows = rowsWithin(placed, top, top + height - 0.01);
  const columnUntil = model.rounds[cursor.round + 1]?.from ?? model.until;
  const drawn = { model, view, placed, spots, rows, top, height, cursor: { ...cursor, until: columnUntil } };

  const open = useCallback((round) => model.rounds[round] && onSelect?.(model.rounds[round].id), [model, onSelect]);
  const goTo = (next) => {
    setCursor(next);
    if (next.round !== cursor.round) reveal(model, scale, seen, next.round, glide);
    if (next.row !== cursor.row) scrollTo(box.current, placed, next.row, top, height);
  };
  const onKeyDown = (event) => {
    const move = moveOf(event);
    if (!move) return;
    event.preventDefault();
    event.stopPropagation();
    if (move.open) open(cursor.round);
    else if (move.zoom) glide(move.zoom === "all" ? ALL : zoomed(seen, move.zoom, 0.5));
    else if (move.pan) glide(panned(seen, move.pan));
    else goTo(step(cursor, move, model, view));
  };
  const setMode = (next) => {
    setAsTable(next === "table");
    if (next === "table") return;
    setOwnMode(next);
    props.onMode?.(next);
    setCursor((now) => ({ ...now, row: -1 }));
  };

  if (timeline.lanes.length === 0) return html`<p class="timeline-none">No member in ${visible(timeline.group)} in this time.</p>`;
  const shown = asTable ? "table" : mode;
  const tools = { shown, setMode, elastic, setElastic, fit, setFit, glide, seen, model, tall: placed.total > TALLEST || fit };
  return html`<section class="timeline" ref=${box} aria-label="Timeline" data-marks=${model.marks} data-rows=${model.rows.length} data-rounds=${model.rounds.length}>
    <${Patterns} />
    <${Tools} ...${tools} />
    ${asTable
      ? html`<${TimelineTable} timeline=${timeline} from=${view.time(0)} until=${view.time(width)} />`
      : html`<${Chart} ...${drawn} scale=${scale} seen=${seen} show=${show} goTo=${goTo} open=${open} onKeyDown=${onKeyDown} onScroll=${setScrollTop} />
          <${Legend} model=${model} />`}
    <${Reading} model=${model} round=${cursor.round} onOpen=${onSelect ? open : null} />
    <p class="unseen" role="status" aria-live="polite">${spoken(model, cursor)}</p>
  </section>`;
}

function scaleOf(model, elastic) {
  if (!elastic) return linearScale(model.from, model.until);
  const busy = model.rounds.map((round) => ({ from: round.from, until: round.until ?? model.until }));
  return elasticScale(model.from, model.until, busy);
}

/** Width of an element; updated when the element is resized. */
function useSize() {
  const box = useRef(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    if (!box.current) return undefined;
    const watcher = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width) - 2));
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, [box.current]);
  return [box, width];
}

/** Visible window, in places of the scale; `glide` animates to it, unless the user prefers reduced motion. */
function useWindow(scale, { range, onRange }) {
  const [seen, setSeen] = useState(ALL);
  const latest = useRef(seen);
  const frame = useRef(0);
  latest.current = seen;
  useEffect(() => {
    if (range) setSeen({ begin: placeOf(scale, range.from_ms), end: Math.max(placeOf(scale, range.until_ms), placeOf(scale, range.from_ms) + 1e-6) });
  }, [scale, range?.from_ms, range?.until_ms]);
  const told = useCallback(
    (next) => onRange?.(next.begin <= 0 && next.end >= 1 ? null : { from_ms: Math.round(timeAt(scale, next.begin)), until_ms: Math.round(timeAt(scale, next.end)) }),
    [scale, onRange],
  );
  const show = useCallback((next) => {
    cancelAnimationFrame(frame.current);
    setSeen(next);
    told(next);
  }, [told]);
  const glide = useCallback((next) => {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) return show(next);
    const from = latest.current;
    const begun = performance.now();
    cancelAnimationFrame(frame.current);
    const draw = (now) => {
      const share = Math.min(1, Math.max(0, (now - begun) / GLIDE_MS));
      const soft = 1 - (1 - share) ** 3;
      setSeen({ begin: from.begin + (next.begin - from.begin) * soft, end: from.end + (next.end - from.end) * soft });
      if (share < 1) frame.current = requestAnimationFrame(draw);
      else told(next);
    };
    frame.current = requestAnimationFrame(draw);
    return undefined;
  }, [show, told]);
  useEffect(() => () => cancelAnimationFrame(frame.current), []);
  return [seen, show, glide];
}

function step(cursor, move, model, view) {
  const next = { ...cursor };
  if (move.round) {
    if (cursor.round < 0 && Number.isFinite(move.round)) next.round = firstSeen(model, view, move.round);
    else next.round = Math.min(Math.max(0, cursor.round + move.round), model.rounds.length - 1);
  }
  if (move.row) next.row = Math.min(Math.max(0, cursor.row + move.row), model.rows.length - 1);
  return next;
}

function firstSeen(model, view, direction) {
  const seen = model.rounds.map((round, number) => [view.x(round.from), number]).filter(([x]) => x >= 0 && x <= view.width);
  if (seen.length === 0) return direction > 0 ? 0 : model.rounds.length - 1;
  return direction > 0 ? seen[0][1] : seen.at(-1)[1];
}

/** Move the window to a round; a short round is shown with the time around it. */
function reveal(model, scale, seen, number, glide) {
  const round = model.rounds[number];
  if (!round) return;
  const from = placeOf(scale, round.from);
  const until = placeOf(scale, round.until ?? model.until);
  if (from >= seen.begin && until <= seen.end) return;
  const span = Math.max(seen.end - seen.begin, (until - from) * 1.4);
  glide(around((from + until) / 2, (from + until) / 2, 0, Math.min(1, span)));
}

function scrollTo(section, placed, row, top, height) {
  const scroller = section?.querySelector(".timeline-scroll");
  if (!scroller || row < 0) return;
  if (placed.tops[row] < top) scroller.scrollTop = placed.tops[row];
  else if (placed.tops[row] + placed.heights[row] > top + height) scroller.scrollTop = placed.tops[row] + placed.heights[row] - height;
}

/** Text of the cursor for screen readers. */
function spoken(model, cursor) {
  const round = model.rounds[cursor.round];
  const row = model.rows[cursor.row];
  const parts = [];
  if (round) parts.push(`${round.name}, ${visible(plain(round.cause ?? "unknown"))}`);
  if (row) {
    const at = round ? (model.rounds[cursor.round + 1]?.from ?? model.until) - 1 : model.until - 1;
    const has = row.spans.filter((span) => span.from <= at && span.until > at).map((span) => span.partition ?? span.say);
    parts.push(`${row.name}: ${has.length > 0 ? [...new Set(has)].join(", ") : "nothing"}`);
  }
  return parts.join(". ");
}

function Tools({ shown, setMode, elastic, setElastic, fit, setFit, glide, seen, model, tall }) {
  const choice = (name, words) => html`<button type="button" aria-pressed=${shown === name ? "true" : "false"} onClick=${() => setMode(name)}>${words}</button>`;
  return html`<div class="timeline-tools">
    <span class="group" role="group" aria-label="Rows">${choice("members", "Members")}${choice("partitions", "Partitions")}${choice("table", "Table")}</span>
    <span class="group" role="group" aria-label="Zoom">
      <button type="button" aria-label="Zoom out" onClick=${() => glide(zoomed(seen, 0.5, 0.5))}>−</button>
      <button type="button" aria-label="Zoom in" onClick=${() => glide(zoomed(seen, 2, 0.5))}>+</button>
      <button type="button" onClick=${() => glide(ALL)}>All</button>
    </span>
    <label><input type="checkbox" checked=${elastic} onChange=${(event) => setElastic(event.target.checked)} /> Widen rebalances</label>
    ${tall && html`<label><input type="checkbox" checked=${fit} onChange=${(event) => setFit(event.target.checked)} /> All rows at once</label>`}
    <span class="push">${countOfRows(model)}, ${model.counted.rebalances}</span>
  </div>`;
}

/** Head, row names and drawing, with control by mouse and keyboard. */
function Chart(props) {
  const { model, view, placed, rows, top, height, cursor, spots, seen, show, goTo, open, onKeyDown, onScroll } = props;
  const [tip, setTip] = useState(null);
  const drag = useRef(null);
  const surface = useRef(null);
  const latest = useRef(seen);
  latest.current = seen;
  useEffect(() => {
    const element = surface.current;
    const onWheel = (event) => {
      const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
      if (event.ctrlKey || event.metaKey) {
        const share = (event.clientX - element.getBoundingClientRect().left - gutter()) / view.width;
        show((latest.current = zoomed(latest.current, Math.exp(-event.deltaY * 0.004), Math.min(1, Math.max(0, share)))));
      } else if (Math.abs(sideways) > (event.shiftKey ? 0 : Math.abs(event.deltaY))) {
        show((latest.current = panned(latest.current, sideways / view.width)));
      } else return;
      event.preventDefault();
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  }, [view.width, show]);
  const begin = (event) => {
    if (event.button !== 0 || event.target.closest("button")) return;
    drag.current = { x: event.clientX, seen: latest.current, moved: false };
    event.currentTarget.setPointerCapture(event.pointerId);
  };
  const move = (event) => {
    const of = drag.current;
    if (of) {
      const share = (of.x - event.clientX) / view.width;
      of.moved ||= Math.abs(of.x - event.clientX) > 3;
      if (of.moved) show(panned(of.seen, share));
      setTip(null);
    } else if (event.currentTarget.classList.contains("timeline-drawing")) setTip(tipAt(event, props, surface.current));
  };
  const end = (event) => {
    const of = drag.current;
    drag.current = null;
    if (of && !of.moved && event.type === "pointerup") goTo(pointed(event, props, cursor));
  };
  const pointer = { onPointerDown: begin, onPointerMove: move, onPointerUp: end, onPointerCancel: end, onPointerLeave: () => setTip(null) };
  const marks = countVisible(spots, rows, view);
  const many = marks > SVG_MOST;
  const words = describe(model);
  return html`<div class="timeline-chart" ref=${surface} tabindex="0" role="group" aria-roledescription="timeline" aria-label=${words} onKeyDown=${onKeyDown} data-drawn=${many ? "canvas" : "svg"} data-seen=${marks}>
    <div class="timeline-head">
      <div class="timeline-corner"><strong>${model.mode === "members" ? "Members" : "Partitions"}</strong>${model.mode === "members" ? (model.chips ? "a band for each partition" : "darker is more partitions") : "colour and name: the owner"}</div>
      <div class="timeline-over" ...${pointer}><${Head} model=${model} view=${view} cursor=${cursor} onOpen=${open} onRound=${(round) => goTo({ ...cursor, round })} /></div>
    </div>
    <div class="timeline-scroll" tabindex="-1" style=${{ height: `${height}px` }} onScroll=${(event) => onScroll(event.currentTarget.scrollTop)}>
      <div style=${{ height: `${placed.total}px` }}>
        <div class="timeline-sticky" style=${{ height: `${height}px` }}>
          <${Gutter} model=${model} placed=${placed} rows=${rows} top=${top} cursor=${cursor} />
          <div class="timeline-drawing" ...${pointer}>
            ${many ? html`<${CanvasDrawing} ...${props} />` : html`<${SvgDrawing} ...${props} words=${words} />`}
          </div>
        </div>
      </div>
    </div>
    ${tip && html`<div class="timeline-tip" aria-hidden="true" style=${{ left: `${tip.x}px`, top: `${tip.y}px` }}>${tip.text}</div>`}
  </div>`;
}

function tipAt(event, props, surface) {
  const of = event.currentTarget.getBoundingClientRect();
  const under = underPoint(props, event.clientX - of.left, event.clientY - of.top);
  if (!under) return null;
  const all = surface.parentElement.getBoundingClientRect();
  const x = Math.min(event.clientX - all.left + 14, all.width - 250);
  return { text: under.say, x, y: event.clientY - all.top + 16 };
}

/** Cursor after a click: the row at that place, and the rebalance of its column. */
function pointed(event, { model, view, placed, top }, cursor) {
  const of = event.currentTarget.getBoundingClientRect();
  const ms = view.time(event.clientX - of.left);
  const round = model.rounds.findLastIndex((one) => one.from <= ms);
  if (!event.currentTarget.classList.contains("timeline-drawing")) return { ...cursor, round };
  const y = event.clientY - of.top + top;
  const row = placed.tops.findLastIndex((at) => at <= y);
  return { round, row };
}

const countOfRows = (model) => (model.mode === "members" ? model.counted.members : count(model.rows.length, "partition"));

function describe(model) {
  return `${countOfRows(model)} over time, ${model.counted.rebalances}. Left and right go through rebalances, up and down through rows; the same as a table is under Table.`;
}
