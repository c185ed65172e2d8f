/** `html`: templates that Preact draws. Values in them are text, never markup. */
import { h } from "preact";
import htm from "htm";

export const html = htm.bind(h);
