/** An error and its advice, beside the data that are still known. */
import { Component } from "preact";
import { html } from "./html.js";
import { Icon } from "./badge.js";
import { useOutage } from "./live.js";
import { NotKnown } from "./outage.js";
import { visible } from "./words.js";

/** @param {{error: Error & {whatToDo?: string}, retry?: () => void}} props */
export function Failure({ error, retry }) {
  return html`<div class="failure" role="alert">
    <${Icon} name="cross" />
    <div><strong>${sentence(error.message)}</strong>${error.whatToDo && html`<div>${sentence(error.whatToDo)}</div>`}</div>
    ${retry && html`<button type="button" class="small" onClick=${retry}>try again</button>`}
  </div>`;
}

/** With a capital letter and a full stop. */
function sentence(text) {
  const shown = visible(text);
  return shown.charAt(0).toUpperCase() + shown.slice(1) + (/[.!?]$/.test(shown) ? "" : ".");
}

/**
 * Something asked for: shown when it is there, with why it is not; old data stay in sight beside an error. During an outage
 * current values are unknown, and only those of the past stay.
 * @param {{of: object, title?: string, past?: boolean, children: (body: any) => any}} props `title`: of a whole page, where there is
 *   no answer yet; `past`: the answer holds during an outage, too
 */
export function Answer({ of, title, past = false, children }) {
  const { body, error, loading, reload } = of;
  const outage = useOutage();
  if (outage && !past) return html`<${NotKnown} title=${title} />`;
  if (outage && body) return children(body);
  return html`${title && !body && html`<h1>${title}</h1>`}${error && html`<${Failure} error=${error} retry=${reload} />`}
    ${loading && html`<p class="soft loading">Loading …</p>`}
    ${body && children(body)}`;
}

/** In place of what only a cluster can answer, where a recording is shown. */
export function NoCluster({ title }) {
  return html`<h1>${title}</h1><p class="empty">A recording has no cluster: <code>kohort console --bootstrap HOST:PORT</code> shows one.</p>`;
}

/** Keeps a fault of one view from taking the whole page. */
export class Guarded extends Component {
  constructor(props) {
    super(props);
    this.state = { error: null };
  }

  componentDidCatch(error) {
    this.setState({ error });
    console.error(error);
  }

  render({ children }, { error }) {
    if (!error) return children;
    return html`<${Failure} error=${{ message: `this view could not be drawn: ${error.message}`, whatToDo: "open another view, or reload the page; this is a bug in kohort" }} />`;
  }
}
