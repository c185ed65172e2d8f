/** Draw rows that are too low for text pixel by pixel: tens of thousands of spans in milliseconds. */
import { MOVED, SILENT, SOME, TAIL } from "./styles.js";
import { TAIL_WIDTH } from "./view.js";

const HUES = 8;

/** Colours of the style sheet as pixel values: each is drawn on a canvas of one pixel and read back. */
export function pixelsOf(colours) {
  const canvas = document.createElement("canvas");
  canvas.width = 1;
  canvas.height = 1;
  const pen = canvas.getContext("2d", { willReadFrequently: true });
  return Uint32Array.from(colours, ({ fill, stroke }, kind) => {
    const style = Math.floor(kind / HUES);
    pen.clearRect(0, 0, 1, 1);
    pen.globalAlpha = style === TAIL ? 0.25 : 1;
    pen.fillStyle = style === SOME || style === MOVED || style === SILENT ? stroke : fill;
    if (style === SOME) pen.globalAlpha = 0.25;
    if (style === MOVED) pen.globalAlpha = 0.5;
    pen.fillRect(0, 0, 1, 1);
    return new Uint32Array(pen.getImageData(0, 0, 1, 1).data.buffer)[0];
  });
}

/**
 * Spans of some rows as an image, without backgrounds.
 * @param {Uint32Array} pixels colour of each kind of mark, indexed by style and hue
 * @param {Uint32Array} pixels of the image, `width` wide
 */
export function fillDense({ model, view, placed, rows, top, spots }, pixels, into, width, height, ratio) {
  const scale = (view.width * ratio) / (view.end - view.begin);
  for (let i = rows[0]; i <= rows[1]; i += 1) {
    const spans = model.rows[i].spans;
    const { from, until } = spots[i];
    const above = Math.max(0, Math.round((placed.tops[i] - top) * ratio));
    const tall = placed.heights[i] * ratio;
    const below = Math.min(height, Math.max(above + 1, Math.round((placed.tops[i] - top) * ratio + tall - (tall > 3 ? 1 : 0))));
    for (let n = 0; n < spans.length; n += 1) {
      if (until[n] < view.begin || from[n] > view.end) continue;
      const span = spans[n];
      const left = Math.round((from[n] - view.begin) * scale);
      const end = span.style === TAIL ? Math.min(left + TAIL_WIDTH, (until[n] - view.begin) * scale) : (until[n] - view.begin) * scale;
      const right = Math.max(left + 1, Math.round(end) - (end - left > 3 ? 1 : 0));
      const first = Math.max(0, left);
      const last = Math.min(width, right);
      if (last <= first) continue;
      const pixel = pixels[span.style * HUES + span.hue];
      const each = span.style === SILENT ? 3 : 0; // every third pixel: looks hatched
      for (let y = above; y < below; y += 1) {
        if (each === 0) into.fill(pixel, y * width + first, y * width + last);
        else for (let x = first; x < last; x += each) into[y * width + x] = pixel;
      }
    }
  }
}
