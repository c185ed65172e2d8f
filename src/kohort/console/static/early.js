/** Requests the data of the first view while the other modules load. */
import { askEarly } from "./data.js";

const { pathname, search } = window.location;
askEarly("/cluster");
if (["/", "/groups"].includes(pathname) && !new URLSearchParams(search).has("at")) askEarly("/groups");
