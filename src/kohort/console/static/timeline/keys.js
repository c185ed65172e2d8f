/** Actions of keys in the timeline. Pure. */

const MOVES = {
  ArrowLeft: { round: -1 },
  ArrowRight: { round: 1 },
  ArrowUp: { row: -1 },
  ArrowDown: { row: 1 },
  Home: { round: -Infinity },
  End: { round: Infinity },
  Enter: { open: true },
  "+": { zoom: 2 },
  "=": { zoom: 2 },
  "-": { zoom: 0.5 },
  0: { zoom: "all" },
};

/** @returns {{round?: number, row?: number, pan?: number, zoom?: number|"all", open?: boolean}|null} */
export function moveOf({ key, shiftKey, ctrlKey, altKey, metaKey, target }) {
  if (ctrlKey || altKey || metaKey) return null;
  if (key === "Enter" && target?.closest?.("button")) return null;
  if (shiftKey && key === "ArrowLeft") return { pan: -0.2 };
  if (shiftKey && key === "ArrowRight") return { pan: 0.2 };
  return MOVES[key] ?? null;
}
