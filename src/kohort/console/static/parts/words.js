/**
 * Text that came from a cluster, made safe to read: whatever is invisible or turns the reading direction is shown.
 * Preact writes it as text; nothing here makes markup.
 */

/** Control characters, line separators, zero-width and bidirectional characters, and lone surrogates. */
const INVISIBLE =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/**
 * The text with every invisible character written as its code: "a⟨U+202E⟩b".
 * @param {unknown} value
 * @returns {string}
 */
export function visible(value) {
  return String(value).replace(INVISIBLE, (char) => {
    const code = char.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
    return `⟨U+${code}⟩`;
  });
}

/** The text cut to `limit` characters, with "…" where something is missing. */
export function cut(text, limit) {
  return text.length > limit ? `${text.slice(0, limit - 1)}…` : text;
}

const UUID_TAIL = /(^|-)([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** A member id with only the head of its UUID. */
export function shortId(memberId) {
  return memberId.replace(UUID_TAIL, "$1$2");
}

/**
 * A member's name, as the commands write it: its instance id, or client id and head of the member id.
 * @param {{member_id: string, client_id?: string, instance_id?: string|null} | null} member
 * @returns {string}
 */
export function memberName(member) {
  if (!member) return "nobody";
  if (member.instance_id) return member.instance_id;
  if (!member.member_id) return member.client_id || "an unknown client";
  const id = shortId(member.member_id);
  return !member.client_id || id.startsWith(member.client_id) ? id : `${member.client_id}/${id}`;
}

/** "MAX_POLL_EXCEEDED" and "waiting_for_join" as words: "max poll exceeded". */
export function plain(code) {
  return String(code).replace(/[_.]/g, " ").toLowerCase();
}

/** What follows "GROUP/" in the id of a rebalance: its place in addresses of this page. */
export function rebalanceKey(rebalance) {
  return rebalance.id.startsWith(`${rebalance.group}/`) ? rebalance.id.slice(rebalance.group.length + 1) : rebalance.id;
}

/** A rebalance in two words: "generation 43", or what it is where none came about. */
export function rebalanceName(rebalance) {
  const thing = rebalance.protocol === "consumer" ? "epoch" : "generation";
  if (rebalance.end === "no_rebalance") return "without a rebalance";
  return rebalance.generation === null ? `after ${thing} ${rebalance.from_generation ?? "?"}` : `${thing} ${rebalance.generation}`;
}

/** Those that are rebalances: what changed without one (options, a static member's return) is told beside them. */
export function rebalancesOf(told) {
  return told.filter((one) => one.end !== "no_rebalance");
}

/** A word for a shell: quoted where it has to be; the invisible is written as bash and zsh read it: $'a\u202eb'. */
export function shellWord(text) {
  if (/^[A-Za-z0-9_./:=@%+-]+$/.test(text)) return text;
  if (visible(text) === text) return `'${text.replace(/'/g, `'\\''`)}'`;
  const escaped = text.replace(/[\\']/g, "\\$&").replace(INVISIBLE, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
  return `$'${escaped}'`;
}

/** A text for a cell of a Markdown table. */
export function markdownCell(value) {
  return visible(value ?? "–").replace(/([\\|`*_<>[\]])/g, "\\$1");
}

/**
 * A Markdown table.
 * @param {string[]} titles
 * @param {unknown[][]} rows
 */
export function markdownTable(titles, rows) {
  const line = (cells) => `| ${cells.map(markdownCell).join(" | ")} |`;
  return [line(titles), line(titles.map(() => "---")).replace(/\\/g, ""), ...rows.map(line)].join("\n");
}
