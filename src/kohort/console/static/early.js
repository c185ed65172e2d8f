/** What the first view shows is asked for while the rest of the page is still on its way. */
import { askEarly } from "./data.js";

const { pathname, search } = window.location;
askEarly("/cluster");
if (["/", "/groups"].includes(pathname) && !new URLSearchParams(search).has("at")) askEarly("/groups");
