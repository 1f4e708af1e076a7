// Tables as CSV files. A spreadsheet takes a text that begins with =, +, -, @ or a tab for a formula
// and runs it, so such a text gets a ' before it, as by --safe-cells; numbers stay numbers.

const FORMULA = /^[=+\-@\t\r]/;
const PLAIN_NUMBER = /^[+-]?[0-9]+(\.[0-9]+)?$/;

function csvCell(value) {
  if (value == null) return "";
  if (typeof value === "number") return String(Number.isInteger(value) ? value : Number(value.toPrecision(5)));
  const safe = FORMULA.test(value) && !PLAIN_NUMBER.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

const csvText = (head, rows) => [head, ...rows].map((row) => `${row.map(csvCell).join(",")}\r\n`).join("");

// The mark at the beginning tells spreadsheets that the letters are UTF-8.
function download(name, head, rows) {
  const address = URL.createObjectURL(new Blob(["\ufeff", csvText(head, rows)], { type: "text/csv;charset=utf-8" }));
  const file = name.replace(/[^\p{L}\p{N}._-]+/gu, "-").slice(0, 80);
  element("a", { href: address, download: `${file}.csv` }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
  say(`${name}: a CSV file of ${plural("row", rows.length)}.`);
}

// rows() gives texts and plain numbers
const csvButton = (name, head, rows) =>
  button({ class: "quiet csv", "aria-label": `Download as CSV: ${name}`, onclick: () => download(name, head, rows()) }, "CSV");
