/** Select the view for an address. The code of a group or topic loads later, so that the list of groups appears first. */
import { useEffect, useState } from "preact/hooks";
import { html } from "../parts/html.js";
import { Failure } from "../parts/failure.js";
import { Link } from "../parts/text.js";
import { BrokersView } from "./brokers.js";
import { CausesView } from "./causes.js";
import { DoctorView } from "./doctor.js";
import { GroupsView } from "./groups.js";
import { PipelinesView } from "./pipelines.js";
import { TopicsView } from "./topics.js";

/**
 * @param {{segments: string[]}} place
 * @returns the component to draw
 */
export function viewOf({ segments }) {
  const [section = "groups", name, tab, id] = segments;
  if (section === "groups" && name !== undefined) return html`<${OneGroup} key=${name} group=${name} tab=${tab ?? "overview"} id=${id} />`;
  if (section === "topics" && name !== undefined) return html`<${OneTopic} key=${name} topic=${name} tab=${tab ?? "partitions"} />`;
  const View = VIEWS[section];
  return View ? html`<${View} />` : html`<${NothingHere} />`;
}

const VIEWS = {
  groups: GroupsView,
  doctor: DoctorView,
  causes: CausesView,
  topics: TopicsView,
  brokers: BrokersView,
  pipelines: PipelinesView,
};

const OneGroup = loadedLater("a group", async () => (await import("./group.js")).GroupView);
const OneTopic = loadedLater("a topic", async () => (await import("./topic.js")).TopicView);

/** Component whose code loads when it is first drawn. */
function loadedLater(what, load) {
  let loaded = null;
  return function Later(props) {
    const [state, setState] = useState({ View: loaded, error: null });
    useEffect(() => {
      if (loaded) return;
      load().then(
        (View) => {
          loaded = View;
          setState({ View, error: null });
        },
        () => setState({ View: null, error: { message: `the views of ${what} could not be loaded`, whatToDo: "check that the console still runs, and reload the page" } }),
      );
    }, []);
    if (state.error) return html`<${Failure} error=${state.error} />`;
    return state.View ? html`<${state.View} ...${props} />` : html`<p class="soft">Loading …</p>`;
  };
}

function NothingHere() {
  return html`<h1>This view does not exist</h1><p>Go to <${Link} to="/groups">all groups<//>.</p>`;
}
