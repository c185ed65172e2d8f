/** Entry point of the page. */
import { h, render } from "preact";
import { startKeys } from "./parts/keys.js";
import { startLive } from "./parts/live.js";
import { startRouter } from "./parts/router.js";
import { startTheme } from "./parts/theme.js";
import { startTips } from "./parts/tip.js";
import { Shell } from "./parts/shell.js";

startTheme();
startRouter();
startLive();
startTips();
startKeys();
const page = document.getElementById("page");
page.replaceChildren();
render(h(Shell, {}), page);
