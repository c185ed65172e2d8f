/** `html`: templates for Preact. Values in templates become text, never markup. */
import { h } from "preact";
import htm from "htm";

export const html = htm.bind(h);
