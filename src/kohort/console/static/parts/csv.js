/** Tables as CSV: lines for spreadsheets, and for commands that read them. */

/** How a cell begins that a spreadsheet would take for a formula. */
const FORMULA = /^[=+\-@\t\r]/;

/**
 * @param {unknown[][]} rows
 * @param {{forSpreadsheets?: boolean}} [options] `forSpreadsheets`: text that looks like a formula gets a "'" before it,
 *   since names may be chosen by anybody
 * @returns {string}
 */
export function csv(rows, { forSpreadsheets = true } = {}) {
  const cell = (value) => {
    if (typeof value === "number") return String(value);
    const text = String(value ?? "");
    return quoted(forSpreadsheets && FORMULA.test(text) ? `'${text}` : text);
  };
  return rows.map((row) => `${row.map(cell).join(",")}\n`).join("");
}

function quoted(text) {
  return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

/** A name for a file, of names that may be anything. */
export function fileName(...parts) {
  return parts.map((part) => String(part).replace(/[^A-Za-z0-9_.-]+/g, "_").slice(0, 60)).join("-");
}
