/** Select the view for an address. The code of group views loads later, so that the list of groups appears first. */
import { useEffect, useState } from "preact/hooks";
import { html } from "../parts/html.js";
import { Failure } from "../parts/failure.js";
import { Link } from "../parts/text.js";
import { BrokersView } from "./brokers.js";
import { CausesView } from "./causes.js";
import { DoctorView } from "./doctor.js";
import { GroupsView } from "./groups.js";
import { PipelinesView } from "./pipelines.js";
import { TopicView, TopicsView } from "./topics.js";

/**
 * @param {{segments: string[]}} place
 * @returns the component to draw
 */
export function viewOf({ segments }) {
  const [section = "groups", name, tab, id] = segments;
  if (section === "groups" && name !== undefined) return html`<${OneGroup} key=${name} group=${name} tab=${tab ?? "overview"} id=${id} />`;
  if (section === "topics" && name !== undefined) return html`<${TopicView} key=${name} topic=${name} />`;
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

let loaded = null;

/** Views of one group, after their code has loaded. */
function OneGroup(props) {
  const [state, setState] = useState({ View: loaded, error: null });
  useEffect(() => {
    if (loaded) return;
    import("./group.js").then(
      (module) => {
        loaded = module.GroupView;
        setState({ View: loaded, error: null });
      },
      () => setState({ View: null, error: { message: "the views of a group could not be loaded", whatToDo: "check that the console still runs, and reload the page" } }),
    );
  }, []);
  if (state.error) return html`<${Failure} error=${state.error} />`;
  return state.View ? html`<${state.View} ...${props} />` : html`<p class="soft">Loading …</p>`;
}

function NothingHere() {
  return html`<h1>This view does not exist</h1><p>Go to <${Link} to="/groups">all groups<//>.</p>`;
}
