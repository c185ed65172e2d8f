/** An error with its advice, shown beside older data. */
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

/** Make a sentence: capital letter, full stop. */
export function sentence(text) {
  const shown = visible(text);
  return shown.charAt(0).toUpperCase() + shown.slice(1) + (/[.!?]$/.test(shown) ? "" : ".");
}

/**
 * Frame for an API answer: loading, error, or content; older content stays beside an error. During an outage
 * current values are unknown; only past values stay.
 * @param {{of: object, title?: string, past?: boolean, children: (body: any) => any}} props `title`: heading of a page while there is
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

/** Text of a recording, in place of a view that needs a cluster. */
export function NoCluster({ title }) {
  return html`<h1>${title}</h1><p class="empty">A recording has no cluster: <code>kohort console --bootstrap HOST:PORT</code> shows one.</p>`;
}

/** Error boundary: a view with a bug does not break the page. */
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
