/** The drawing on a canvas, with the marks of the SVG; screen readers use the table. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "../parts/html.js";
import { drawCanvas, readColours } from "./draw-canvas.js";

/** @param {{model: object, view: object, placed: object, rows: [number, number], top: number, height: number, cursor: object}} props */
export function CanvasDrawing(props) {
  const canvas = useRef(null);
  const colours = useRef(null);
  const [theme, setTheme] = useState(0);
  const ratio = Math.min(2, globalThis.devicePixelRatio || 1);
  useEffect(() => {
    const changed = () => {
      colours.current = null;
      setTheme((now) => now + 1);
    };
    const scheme = matchMedia("(prefers-color-scheme: dark)");
    const watcher = new MutationObserver(changed);
    scheme.addEventListener("change", changed);
    watcher.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    return () => {
      scheme.removeEventListener("change", changed);
      watcher.disconnect();
    };
  }, []);
  useLayoutEffect(() => {
    colours.current ??= readColours(canvas.current.parentElement);
    drawCanvas(canvas.current, colours.current, props, ratio);
  });
  const { view, height } = props;
  const style = { width: `${view.width}px`, height: `${height}px` };
  return html`<canvas ref=${canvas} aria-hidden="true" data-theme-turn=${theme} width=${Math.round(view.width * ratio)} height=${Math.round(height * ratio)} style=${style}></canvas>`;
}
