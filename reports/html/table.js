"use strict";
// Adds sorting and filtering to every table. Without scripts the page shows everything, in the
// order in which it was written.
for (const box of document.querySelectorAll(".table")) {
  const table = box.querySelector("table");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  if (rows.length > 24) box.querySelector(".scroll").classList.add("tall");
  if (rows.length < 2) continue;
  const status = document.getElementById("status");
  const name = table.caption.textContent;

  const value = (row, column) => {
    const text = row.cells[column].textContent.trim();
    const number = parseFloat(text);
    return { text, number, numeric: text !== "" && !Number.isNaN(number) && /^[-+]?[\d.]+(e[-+]?\d+)?$/.test(text) };
  };
  // Numbers come first, by size; then words. Cells without a value ("-") come last in both
  // orders.
  const compare = (a, b, sign) => {
    if ((a.text === "-") !== (b.text === "-")) return a.text === "-" ? 1 : -1;
    if (a.numeric && b.numeric) return sign * (a.number - b.number);
    if (a.numeric !== b.numeric) return a.numeric ? -1 : 1;
    return sign * a.text.localeCompare(b.text);
  };

  Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const keyed = rows.map((row, at) => ({ row, at, key: value(row, column) }));
      keyed.sort((a, b) => compare(a.key, b.key, down ? -1 : 1) || a.at - b.at);
      body.append(...keyed.map((k) => k.row));
      status.textContent = `${name}: sorted by ${button.textContent}, ${down ? "descending" : "ascending"}`;
    });
  });

  if (rows.length < 6) continue;
  const filter = document.createElement("div");
  filter.className = "filter";
  const label = document.createElement("label");
  const input = document.createElement("input");
  const count = document.createElement("span");
  input.type = "search";
  input.placeholder = "all words must match";
  label.append("Filter ", input);
  count.className = "count";
  filter.append(label, count);
  box.prepend(filter);
  const show = () => { count.textContent = `${rows.filter((r) => !r.hidden).length} of ${rows.length} rows`; };
  const texts = rows.map(() => null);
  let pending = 0;
  input.addEventListener("input", () => {
    clearTimeout(pending);
    pending = setTimeout(() => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      rows.forEach((row, i) => {
        if (texts[i] === null) texts[i] = Array.from(row.cells, (c) => c.textContent).join(" ").toLowerCase();
        row.hidden = !words.every((w) => texts[i].includes(w));
      });
      show();
      status.textContent = `${name}: ${count.textContent}`;
    }, 80);
  });
  show();
}
