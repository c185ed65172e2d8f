/** Announcements for screen readers: at most one sentence in five seconds. */

const BETWEEN_MS = 5000;
let waiting = null;
let timer = null;
let lastMs = -BETWEEN_MS;

/** Announce a sentence; it replaces a sentence that is still queued. */
export function announce(sentence) {
  waiting = sentence;
  const wait = Math.max(0, lastMs + BETWEEN_MS - performance.now());
  timer ??= setTimeout(say, wait);
}

function say() {
  timer = null;
  lastMs = performance.now();
  const line = document.getElementById("announced");
  if (line) line.textContent = waiting;
}
