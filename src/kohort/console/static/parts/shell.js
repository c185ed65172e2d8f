/** Frame of every view: navigation, shown time, list of groups and brokers that could not be sampled. */
import { useEffect, useLayoutEffect, useState } from "preact/hooks";
import { getJson, setToken } from "../data.js";
import { html } from "./html.js";
import { Icon } from "./badge.js";
import { Failure, Guarded } from "./failure.js";
import { useFold } from "./fold.js";
import { HelpDialog } from "./keys.js";
import { consoleFailed, onNews, setCluster, useLive } from "./live.js";
import { OutageBanner } from "./outage.js";
import { usePlace } from "./router.js";
import { Link } from "./text.js";
import { setTheme, theme } from "./theme.js";
import { TimeBar } from "./timebar.js";
import { visible } from "./words.js";
import { viewOf } from "../views/index.js";

const SECTIONS = [
  ["groups", "Groups"],
  ["doctor", "Doctor"],
  ["causes", "Causes"],
  ["topics", "Topics"],
  ["brokers", "Brokers"],
  ["pipelines", "Pipelines"],
];
const ASK_AGAIN_MS = 3000;
/** Time between two requests of /cluster: its journal and its gaps may change. */
const LOOK_AGAIN_MS = 10_000;
/** Time after which a missing answer of the console counts as an outage. */
const ANSWER_MS = 10_000;

export function Shell() {
  const place = usePlace();
  const { cluster, outage } = useLive();
  const [error, setError] = useState(null);
  const section = SECTIONS.find(([name]) => name === (place.segments[0] ?? "groups"));
  const fold = useFold(`${section?.[1] ?? "Menu"} ▾`);
  useLayoutEffect(() => askCluster(setError), []);
  useEffect(() => nameWindow(place, cluster, outage), [place.path, cluster, outage?.part]);
  return html`
    <a class="skip" href="#main" onClick=${toMain}>to the content</a>
    <div class="bars"><header class=${`top ${fold.className}`}>
      <${Link} to="/groups" class="brand" aria-label="kohort, all groups"><img src="/static/icon.svg" alt="" width="20" height="20" />kohort<//>${fold.button}
      <nav class="folded" aria-label="Sections" onClick=${fold.close}><ul>${SECTIONS.map((one) => html`<${Section} name=${one[0]} title=${one[1]} here=${place.segments[0]} />`)}</ul></nav>
      <span class="grow"></span>
      <span class="folded settings"><${ThemeSwitch} />
      <${HelpDialog} /></span>
    </header>
    <${OutageBanner} />
    ${cluster && html`<${TimeBar} />`}</div>
    <main id="main" tabindex="-1">
      ${error && html`<${Failure} error=${error} />`}
      ${cluster && html`<${Unseen} cluster=${cluster} />`}
      ${cluster && html`<${Guarded} key=${place.path}>${viewOf(place)}<//>`}
      ${!cluster && !error && html`<p class="soft">Loading …</p>`}
    </main>`;
}

function toMain(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

/** Request /cluster until the console answers, then at intervals; only once for a recording. */
function askCluster(setError) {
  let timer = null;
  let known = false;
  const ask = async () => {
    clearTimeout(timer);
    try {
      const cluster = await getJson("/cluster", {}, known ? AbortSignal.timeout(ANSWER_MS) : undefined);
      setToken(cluster.token ?? null);
      setError(null);
      setCluster(cluster);
      known = true;
      if (cluster.kind === "live") timer = setTimeout(ask, cluster.journal?.kind ? LOOK_AGAIN_MS : ASK_AGAIN_MS);
    } catch (error) {
      if (known) consoleFailed(error);
      else setError(error);
      timer = setTimeout(ask, ASK_AGAIN_MS);
    }
  };
  ask();
  const stop = onNews((kind) => (kind === "lost" ? ask() : undefined));
  return () => {
    stop();
    clearTimeout(timer);
  };
}

function nameWindow({ segments }, cluster, outage) {
  const where = visible(segments.slice(0, 3).reverse().join(" · ") || "groups").slice(0, 80);
  document.title = `${outage ? "NO ANSWER – " : ""}${where} – ${visible(cluster?.title || cluster?.address || "kohort console")}`;
}

function Section({ name, title, here }) {
  return html`<li><${Link} to=${`/${name}`} aria-current=${(here ?? "groups") === name ? "page" : null}>${title}<//></li>`;
}

/** Sentences about groups and brokers that could not be sampled; closed by default. */
function Unseen({ cluster }) {
  if (!cluster.unseen?.length) return null;
  const many = cluster.unseen.length;
  return html`<details class="notseen"><summary><${Icon} name="info" />${many === 1 ? "One thing is" : `${many} things are`} not visible from here</summary>
    <ul>${cluster.unseen.map((line) => html`<li>${visible(line)}</li>`)}</ul></details>`;
}

function ThemeSwitch() {
  const [chosen, setChosen] = useState(theme);
  const change = (event) => {
    setTheme(event.target.value);
    setChosen(event.target.value);
  };
  return html`<label class="themes"><span class="hidden">Colours</span><select value=${chosen} onChange=${change}>
    <option value="system">system</option><option value="light">light</option><option value="dark">dark</option></select></label>`;
}
