/** A page that contains only the timeline or the what-if board of a group of the canned console. */
import { h, render } from "preact";
import { Timeline } from "/static/timeline/timeline.js";
import { WhatIfBoard } from "/static/timeline/board.js";

const asked = new URLSearchParams(location.search);
const group = encodeURIComponent(asked.get("group"));
const at = document.getElementById("stage");

async function getJson(path, body) {
  const options = body ? { method: "POST", body: JSON.stringify(body) } : {};
  return (await fetch(`/api/v1/groups/${group}${path}`, options)).json();
}

if (asked.has("what-if")) {
  const [{ status }, { prediction }] = await Promise.all([getJson(""), getJson("/what-if", JSON.parse(asked.get("what-if")))]);
  render(h(WhatIfBoard, { group: status, prediction }), at);
} else {
  const [{ timeline }, { rebalances }, { events }] = await Promise.all(["/timeline", "/rebalances", "/events"].map((path) => getJson(path)));
  const onSelect = (id) => document.body.setAttribute("data-opened", id);
  render(h(Timeline, { timeline, rebalances, events, selected: asked.get("selected"), mode: asked.get("mode") ?? "members", onSelect }), at);
}
document.body.setAttribute("data-ready", "yes");
