/** Signs of events of members (kind, place, text), and joins. Pure. */
import { visible } from "../parts/words.js";

/**
 * Shapes of the signs, in a box from -6 to 6: `line` is stroked, `fill` is filled; `tone` is the colour.
 * Signs differ in shape, not only in colour.
 */
export const SIGNS = {
  joined: { tone: "ok", line: "M0 -3.6A3.6 3.6 0 1 1 -0.01 -3.6Z", fill: "", words: "joined" },
  left: { tone: "calm", line: "M-3.4 -3.4L3.4 3.4M3.4 -3.4L-3.4 3.4", fill: "", words: "left" },
  expired: { tone: "bad", line: "M-3.6 -4.6H3.6M-3.6 4.6H3.6M-2.8 -4.6L2.8 4.6M2.8 -4.6L-2.8 4.6", fill: "M-2 3.9L0 1L2 3.9Z", words: "session expired" },
  poll: { tone: "bad", line: "M0 -4.6A4.6 4.6 0 1 1 -0.01 -4.6ZM0 -2.6V0.3L2.2 1.8", fill: "", words: "did not poll in time" },
  removed: { tone: "bad", line: "M0 -4.6A4.6 4.6 0 1 1 -0.01 -4.6ZM-2.8 -2.8L2.8 2.8", fill: "", words: "was removed" },
  fenced: { tone: "warn", line: "M-3 5V-4.8", fill: "M-3 -4.8H4.2L2.2 -2.2L4.2 0.4H-3Z", words: "a request was rejected" },
  away: { tone: "warn", line: "M4.2 2.6A4.6 4.6 0 1 1 0.6 -4.6A3.6 3.6 0 0 0 4.2 2.6Z", fill: "", words: "temporarily absent" },
  replaced: { tone: "calm", line: "M3.6 -1.6A4 4 0 1 0 3.9 1.2M4.2 -4.4V-1.2H1", fill: "", words: "came back under a new id" },
  reset: { tone: "warn", line: "M-3.6 -1.6A4 4 0 1 1 -3.9 1.2M-4.2 -4.4V-1.2H-1", fill: "", words: "offsets went back" },
  moved: { tone: "calm", line: "M-4.4 -2H4M1.6 -4.4L4 -2L1.6 0.4M4.4 2.6H-4M-1.6 0.2L-4 2.6L-1.6 5", fill: "", words: "another coordinator" },
};

/** Reason of a removal, and the sign for the removed member. */
const HOW = { max_poll_exceeded: "poll", session_expired: "expired" };

/**
 * @returns {{glyphs: {row: number, at: number, kind: string, say: string}[], arrivals: {row: number, at: number, late: boolean, say: string}[]}}
 *   a glyph in row -1 belongs to the whole group
 */
export function glyphsOf(timeline, events, rowAt) {
  const glyphs = [];
  for (const lane of timeline.lanes) {
    const row = rowAt(lane.member);
    if (lane.assignments.length > 0 && lane.assignments[0].from_ms > timeline.from_ms) {
      glyphs.push({ row, at: lane.assignments[0].from_ms, kind: "joined", say: "joined" });
    }
    for (const mark of lane.marks) glyphs.push({ row, at: mark.at_ms, ...signOf(mark) });
  }
  const arrivals = [];
  for (const event of events) {
    const row = event.member ? rowAt(event.member) : undefined;
    if (event.kind === "member_arrived" && row !== undefined) {
      arrivals.push({ row, at: event.at_ms, say: visible(event.sentence) });
    } else if (event.kind === "group_loaded" || event.kind === "group_unloaded") {
      glyphs.push({ row: -1, at: event.at_ms, kind: "moved", say: visible(event.sentence) });
    } else if (event.kind === "commit_unfenced" && event.entry?.backwards && row !== undefined) {
      glyphs.push({ row, at: event.at_ms, kind: "reset", say: visible(event.sentence) });
    }
  }
  return { glyphs: glyphs.sort((a, b) => a.at - b.at), arrivals };
}

function signOf(mark) {
  const say = visible(mark.text);
  if (mark.kind === "fenced") return { kind: "fenced", say: `refused: ${say}` };
  if (mark.kind in SIGNS && mark.kind !== "removed") return { kind: mark.kind, say };
  return { kind: HOW[mark.how] ?? "removed", say };
}
