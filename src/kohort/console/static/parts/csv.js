/** Tables as CSV, for spreadsheets and commands. */

/** First characters of cells that a spreadsheet would run as a formula. */
const FORMULA = /^[=+\-@\t\r]/;

/**
 * @param {unknown[][]} rows
 * @param {{forSpreadsheets?: boolean}} [options] `forSpreadsheets`: put "'" before text that looks like a formula,
 *   since clients choose names
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

/** File name from names with any characters. */
export function fileName(...parts) {
  return parts.map((part) => String(part).replace(/[^A-Za-z0-9_.-]+/g, "_").slice(0, 60)).join("-");
}
