/**
 * Text from the cluster, made safe to read: invisible characters and changes of direction are written as codes.
 * Preact inserts it as text, never as markup.
 */

/** Control characters, line separators, zero-width and bidirectional characters, and lone surrogates. */
const INVISIBLE =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/**
 * Write every invisible character as its code: "a⟨U+202E⟩b".
 * @param {unknown} value
 * @returns {string}
 */
export function visible(value) {
  return String(value).replace(INVISIBLE, (char) => {
    const code = char.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
    return `⟨U+${code}⟩`;
  });
}

/** Cut text to `limit` characters; "…" marks the cut. */
export function cut(text, limit) {
  return text.length > limit ? `${text.slice(0, limit - 1)}…` : text;
}

const UUID_TAIL = /(^|-)([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Member id, with only the first part of its UUID. */
export function shortId(memberId) {
  return memberId.replace(UUID_TAIL, "$1$2");
}

/**
 * Name of a member, as in the commands: instance id, or client id with the first part of the member id.
 * @param {{member_id: string, client_id?: string, instance_id?: string|null} | null} member
 * @returns {string}
 */
export function memberName(member) {
  if (!member) return "no member";
  if (member.instance_id) return member.instance_id;
  if (!member.member_id) return member.client_id || "an unknown client";
  const id = shortId(member.member_id);
  return !member.client_id || id.startsWith(member.client_id) ? id : `${member.client_id}/${id}`;
}

/** "MAX_POLL_EXCEEDED" and "waiting_for_join" as words: "max poll exceeded". */
export function plain(code) {
  return String(code).replace(/[_.]/g, " ").toLowerCase();
}

/** Part of a rebalance id after "GROUP/", which addresses of this page use. */
export function rebalanceKey(rebalance) {
  return rebalance.id.startsWith(`${rebalance.group}/`) ? rebalance.id.slice(rebalance.group.length + 1) : rebalance.id;
}

/** Short title of a rebalance, such as "generation 43"; other findings: "without a rebalance". */
export function rebalanceName(rebalance) {
  const thing = rebalance.protocol === "consumer" ? "epoch" : "generation";
  if (rebalance.end === "no_rebalance") return "without a rebalance";
  return rebalance.generation === null ? `after ${thing} ${rebalance.from_generation ?? "?"}` : `${thing} ${rebalance.generation}`;
}

/** Findings that are rebalances; changes of options and returns of static members are shown separately. */
export function rebalancesOf(told) {
  return told.filter((one) => one.end !== "no_rebalance");
}

/** Quote a word for a shell; invisible characters in the notation of bash and zsh: $'a\u202eb'. */
export function shellWord(text) {
  if (/^[A-Za-z0-9_./:=@%+-]+$/.test(text)) return text;
  if (visible(text) === text) return `'${text.replace(/'/g, `'\\''`)}'`;
  const escaped = text.replace(/[\\']/g, "\\$&").replace(INVISIBLE, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`);
  return `$'${escaped}'`;
}

/** Escape text for a cell of a Markdown table. */
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
