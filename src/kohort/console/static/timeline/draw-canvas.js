/** Draw tens of thousands of marks on a canvas, ordered by kind, so that the colour seldom changes. */
import { colour } from "../parts/theme.js";
import { SIGNS } from "./glyphs.js";
import { LEVELS, MOVED, NOBODY, SILENT, SOME, TAIL } from "./styles.js";
import { classOf, clip, fitting, signsOf } from "./draw-svg.js";
import { fillDense, pixelsOf } from "./draw-dense.js";
import { spanBox, spanEnds } from "./view.js";

const HUES = 8;
/** Height in pixels below which rows have no texts and no outlines. */
const DENSE = 8;
const KINDS = SOME + LEVELS;
const TEXT = '10.5px system-ui, sans-serif';
/** Number of marks in a window above which texts are left out. */
const TEXTS_MOST = 6000;

/** Colours of each kind of mark in the style sheet, read from `host`; read again when the theme changes. */
export function readColours(host) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("width", "0");
  svg.setAttribute("height", "0");
  const made = [];
  const probe = (name) => {
    const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    rect.setAttribute("class", name);
    svg.append(rect);
    made.push(rect);
  };
  for (let style = 0; style < KINDS; style += 1) for (let hue = 0; hue < HUES; hue += 1) probe(style === TAIL ? `tl-tail h${hue}` : classOf({ style, hue }));
  const others = ["tl-band", "tl-edge", "tl-row", "tl-busy-ground", "tl-hatch", "tl-here", "tl-here-line", "tl-row-here", "tl-text", "tl-arrival", "tl-blocker", "tl-nobody-ground", "tl-silent-ground"];
  others.forEach(probe);
  const tones = Object.keys(SIGNS).map((kind) => `tl-sign filled tone-${SIGNS[kind].tone}`);
  tones.forEach(probe);
  host.append(svg);
  const read = made.map((rect) => {
    const { fill, stroke, opacity } = getComputedStyle(rect);
    return { fill, stroke, opacity: Number(opacity) };
  });
  svg.remove();
  const named = Object.fromEntries(others.map((name, number) => [name, read[KINDS * HUES + number]]));
  const signs = Object.fromEntries(Object.keys(SIGNS).map((kind, number) => [kind, read[KINDS * HUES + others.length + number].fill]));
  const spans = read.slice(0, KINDS * HUES);
  return { spans, pixels: pixelsOf(spans), named, signs, paper: colour("--paper") || "white" };
}

/** Draw a window on a canvas of its size times `ratio`. */
export function drawCanvas(canvas, colours, props, ratio) {
  const { view, height } = props;
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, view.width, height);
  drawGrounds(pen, colours.named, props);
  if (isDense(props)) drawDense(pen, colours, props, ratio);
  else drawSpans(pen, colours, props);
  drawOver(pen, colours, props);
}

const isDense = ({ placed, rows }) => rows[1] >= rows[0] && placed.heights[rows[0]] < DENSE;
let dense = null;

/** Draw all spans as one image over the backgrounds. */
function drawDense(pen, colours, props, ratio) {
  const width = Math.round(props.view.width * ratio);
  const height = Math.round(props.height * ratio);
  if (dense === null || dense.image.width !== width || dense.image.height !== height) {
    const sheet = new OffscreenCanvas(width, height);
    dense = { sheet, pen: sheet.getContext("2d", { willReadFrequently: true }), image: new ImageData(width, height) };
  }
  const into = new Uint32Array(dense.image.data.buffer);
  into.fill(0);
  fillDense(props, colours.pixels, into, width, height, ratio);
  dense.pen.putImageData(dense.image, 0, 0);
  pen.drawImage(dense.sheet, 0, 0, props.view.width, props.height);
}

function drawGrounds(pen, named, { model, view, placed, rows, top, height, cursor }) {
  pen.fillStyle = named["tl-band"].fill;
  pen.globalAlpha = named["tl-band"].opacity;
  model.columns.forEach((column, number) => {
    const [left, right] = clip(view, column.from, column.until);
    if (number % 2 === 1 && right > left) pen.fillRect(left, 0, right - left, height);
  });
  pen.globalAlpha = 1;
  pen.fillStyle = named["tl-row"].stroke;
  for (let i = rows[0]; i <= rows[1]; i += 1) {
    if (placed.heights[i] >= 8) pen.fillRect(0, placed.tops[i] - top + placed.heights[i] - 1, view.width, 1);
  }
  if (cursor.row >= rows[0] && cursor.row <= rows[1]) {
    pen.fillStyle = named["tl-row-here"].fill;
    pen.fillRect(0, placed.tops[cursor.row] - top, view.width, placed.heights[cursor.row]);
  }
  pen.fillStyle = named["tl-busy-ground"].fill;
  pen.strokeStyle = named["tl-hatch"].stroke;
  pen.lineWidth = 1;
  let drawnTo = -9;
  model.rounds.forEach((round, number) => {
    const [left, right] = clip(view, round.from, round.until ?? model.until);
    if (right < 0 || left > view.width || (right < drawnTo + 1 && number !== cursor.round)) return;
    drawnTo = Math.max(right, left + 1);
    pen.fillRect(left, 0, Math.max(1, right - left), height);
    if (right - left > 5) hatch(pen, left, right, height);
  });
  const round = model.rounds[cursor.round];
  if (round) {
    const [left, right] = clip(view, round.from, cursor.until);
    pen.fillStyle = named["tl-here"].fill;
    pen.fillRect(left, 0, Math.max(1, right - left), height);
    pen.fillStyle = named["tl-here-line"].stroke;
    pen.fillRect(left - 0.75, 0, 1.5, height);
  }
}

function hatch(pen, left, right, height) {
  pen.save();
  pen.beginPath();
  pen.rect(left, 0, right - left, height);
  pen.clip();
  pen.beginPath();
  for (let x = left - height; x < right; x += 9) {
    pen.moveTo(x, height);
    pen.lineTo(x + height, 0);
  }
  pen.stroke();
  pen.restore();
}

/** Collect the boxes of each kind; boxes that look like their neighbour are drawn once. */
function drawSpans(pen, colours, { model, view, placed, rows, top }) {
  const boxes = Array.from({ length: KINDS * HUES }, () => []);
  const texts = [];
  const fromMs = view.time(0);
  const untilMs = view.time(view.width);
  for (let i = rows[0]; i <= rows[1]; i += 1) {
    const row = model.rows[i];
    const height = placed.heights[i];
    const y = placed.tops[i] - top;
    for (const span of row.spans) {
      if (span.until < fromMs || span.from > untilMs) continue;
      const [left, right] = spanEnds(view, span);
      if (right <= left) continue;
      const [offset, tall] = spanBox(model, row, height, span);
      const wide = Math.max(0.6, right - left - (right - left > 3 ? 1 : 0));
      boxes[span.style * HUES + span.hue].push(left, y + offset, wide, tall);
      if (tall >= 11 && wide > 14 && span.text) texts.push(span.text, left, y + offset + tall / 2, wide);
    }
  }
  boxes.forEach((of, kind) => drawBoxes(pen, of, colours.spans[kind], Math.floor(kind / HUES), colours));
  if (texts.length / 4 > TEXTS_MOST) return;
  pen.fillStyle = colours.named["tl-text"].fill;
  pen.font = TEXT;
  pen.textBaseline = "middle";
  for (let i = 0; i < texts.length; i += 4) {
    const text = fitting(texts[i], texts[i + 3] - 8);
    if (text) pen.fillText(text, texts[i + 1] + 5, texts[i + 2] + 0.5);
  }
}

function drawBoxes(pen, boxes, { fill, stroke }, style, colours) {
  if (boxes.length === 0) return;
  const empty = style === SOME;
  pen.globalAlpha = style === TAIL ? 0.25 : 1;
  if (!empty) {
    pen.fillStyle = style === NOBODY ? colours.named["tl-nobody-ground"].fill : style === SILENT ? colours.named["tl-silent-ground"].fill : fill;
    for (let i = 0; i < boxes.length; i += 4) pen.fillRect(boxes[i], boxes[i + 1], boxes[i + 2], boxes[i + 3]);
  }
  if (style !== TAIL && stroke !== "none") {
    pen.strokeStyle = stroke;
    pen.lineWidth = 1;
    pen.setLineDash(style === MOVED || empty ? [4, 2.5] : style === SILENT ? [1, 3] : []);
    pen.beginPath();
    for (let i = 0; i < boxes.length; i += 4) {
      if (boxes[i + 2] > 4 && boxes[i + 3] > 7) pen.rect(boxes[i] + 0.5, boxes[i + 1] + 0.5, boxes[i + 2] - 1, boxes[i + 3] - 1);
    }
    pen.stroke();
    pen.setLineDash([]);
    if (style === SILENT) strike(pen, boxes);
  }
  pen.globalAlpha = 1;
}

/** Draw a line through the middle of each box: the owner was silent or away. */
function strike(pen, boxes) {
  pen.beginPath();
  for (let i = 0; i < boxes.length; i += 4) {
    const y = boxes[i + 1] + boxes[i + 3] / 2;
    pen.moveTo(boxes[i], y);
    pen.lineTo(boxes[i] + boxes[i + 2], y);
  }
  pen.stroke();
}

function drawOver(pen, colours, { model, view, placed, rows, top, height }) {
  pen.fillStyle = colours.named["tl-arrival"].stroke;
  for (const { row, at } of model.arrivals) {
    if (row < rows[0] || row > rows[1] || placed.heights[row] < 8) continue;
    const x = view.x(at);
    if (x > -2 && x < view.width + 2) pen.fillRect(x - 0.5, placed.tops[row] - top + 2, 1, placed.heights[row] - 5);
  }
  pen.strokeStyle = colours.named["tl-blocker"].stroke;
  pen.lineWidth = 2;
  pen.beginPath();
  for (const { row, from, until } of model.blockers) {
    if (row < rows[0] || row > rows[1] || placed.heights[row] < 8) continue;
    const [left, right] = clip(view, from, until);
    const y = placed.tops[row] - top + 5;
    if (right > left) {
      pen.moveTo(left, y + 9);
      pen.lineTo(left, y);
      pen.lineTo(right, y);
      pen.lineTo(right, y + 9);
    }
  }
  pen.stroke();
  pen.lineWidth = 1.7;
  for (const glyph of signsOf(model, view, rows, placed)) {
    const y = glyph.row < 0 ? height - 10 : placed.tops[glyph.row] - top + placed.heights[glyph.row] / 2;
    drawSign(pen, colours, glyph.kind, glyph.x, y);
  }
}

const paths = new Map();

function drawSign(pen, colours, kind, x, y) {
  if (!paths.has(kind)) paths.set(kind, [new Path2D(SIGNS[kind].line), new Path2D(SIGNS[kind].fill)]);
  const [line, filled] = paths.get(kind);
  pen.save();
  pen.translate(x, y);
  pen.fillStyle = colours.paper;
  pen.beginPath();
  pen.arc(0, 0, 7.5, 0, 7);
  pen.fill();
  pen.strokeStyle = colours.signs[kind];
  pen.fillStyle = colours.signs[kind];
  pen.stroke(line);
  pen.fill(filled);
  pen.restore();
}
