"use strict";
// Makes the headings of each table buttons that sort its rows, and adds a filter to long tables. Without this script, the
// rows are in the order of the file. A cell's attribute data-v has its sort value; cells without it are last.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const headings = [...table.tHead.rows[0].cells];
  const values = (column) => rows.map((row) => {
    const value = row.cells[column].dataset.v;
    return value === undefined ? null : Number(value);
  });
  const sort = (column, ascending) => {
    const keys = values(column);
    const order = rows.map((_, index) => index);
    order.sort((a, b) => {
      if (keys[a] === null || keys[b] === null) return (keys[a] === null) - (keys[b] === null) || a - b;
      return (ascending ? keys[a] - keys[b] : keys[b] - keys[a]) || a - b;
    });
    body.append(...order.map((index) => rows[index]));
    headings.forEach((heading, index) => {
      if (index === column) heading.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      else heading.removeAttribute("aria-sort");
    });
  };
  headings.forEach((heading, column) => {
    if (heading.dataset.fixed !== undefined) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const current = heading.getAttribute("aria-sort");
      sort(column, current ? current === "descending" : heading.dataset.first === "ascending");
    });
  });
  const filter = document.getElementById(table.dataset.filter);
  if (!filter) continue;
  const input = filter.querySelector("input");
  const shown = filter.querySelector("output");
  const texts = rows.map((row) => row.textContent.toLowerCase());
  filter.hidden = false;
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    let number = 0;
    rows.forEach((row, index) => {
      row.hidden = !texts[index].includes(wanted);
      number += !row.hidden;
    });
    shown.textContent = wanted ? `${number} of ${rows.length} rows` : "";
  });
}
