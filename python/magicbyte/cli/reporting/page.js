"use strict";
// Tables sort by a click on a column's head; a cell's data-v is what it sorts by.
for (const table of document.querySelectorAll("table")) {
  const body = table.tBodies[0];
  const value = (row, at) => row.cells[at].dataset.v ?? row.cells[at].textContent;
  table.querySelectorAll("th").forEach((head, at) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const numbers = head.classList.contains("n");
      // First the largest number, or the first name; then the other way round.
      const sorted = head.getAttribute("aria-sort");
      const down = sorted ? sorted === "ascending" : numbers;
      table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const order = (a, b) => numbers ? Number(value(a, at)) - Number(value(b, at)) : value(a, at).localeCompare(value(b, at));
      const rows = [...body.rows].sort((a, b) => down ? order(b, a) : order(a, b));
      body.append(...rows);
    });
  });
}
