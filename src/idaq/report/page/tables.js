/* Tables that sort by any column, by mouse or keyboard. */

/** columns: [{label, key: row => value, cell: row => node, left}]; totals stay below. */
function sortableTable({ columns, rows, caption, totals = [] }) {
  const body = h("tbody");
  const heads = columns.map((column, index) => {
    const button = h("button", { type: "button", onclick: () => sort(index) }, column.label);
    return h("th", { scope: "col", class: column.left ? "text" : "", "aria-sort": "none" }, button);
  });
  let order = { index: -1, up: true };

  function draw() {
    const shown = [...rows];
    if (order.index >= 0) {
      const key = columns[order.index].key;
      shown.sort((a, b) => compare(key(a), key(b), order.up));
    }
    const line = (row) => h("tr", { class: row.isTotal ? "total" : "" },
      columns.map((c) => h("td", { class: c.left ? "text" : "" }, c.cell ? c.cell(row) : plain(c.key(row)))));
    body.replaceChildren(...shown.map(line), ...totals.map(line));
  }

  function sort(index) {
    order = { index, up: order.index === index ? !order.up : !!columns[index].left };
    heads.forEach((head, i) => head.setAttribute("aria-sort", i !== index ? "none" : order.up ? "ascending" : "descending"));
    draw();
  }

  draw();
  const table = h("table", {}, h("caption", { class: "skip" }, caption), h("thead", {}, h("tr", {}, heads)), body);
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, table);
}

/** Missing values come last in either order. */
function compare(a, b, up) {
  const missing = (v) => v === null || v === undefined || Number.isNaN(v);
  if (missing(a) || missing(b)) return missing(a) - missing(b);
  const result = typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b;
  return up ? result : -result;
}

function plain(value) {
  return typeof value === "string" ? value : text(value);
}

/** Ours with its interval. */
function ours(entry) {
  if (entry.value === null || entry.value === undefined) return h("small", { title: entry.note || "" }, entry.note ? "n/a" : "–");
  return h("span", {}, text(entry.value), " ", h("small", {}, interval(entry.interval)));
}

/** Ours above, the paper's and the difference below. */
function beside(entry) {
  return h("div", { class: "beside" }, h("div", {}, ours(entry)), h("div", {}, h("small", {}, "paper ", paper(entry)), " ", gap(entry) === null ? "" : difference(entry)));
}

function paper(entry) {
  if (entry.paper === null || entry.paper === undefined) return h("small", {}, "–");
  const width = entry.paperWidth ? ` ± ${text(entry.paperWidth)}` : "";
  return h("span", {}, text(entry.paper), h("small", {}, width));
}

function gap(entry) {
  const missing = entry.value === null || entry.value === undefined || entry.paper === null || entry.paper === undefined;
  return missing ? null : entry.value - entry.paper;
}

/** Ours minus the paper's; coloured where it is beyond the paper's own interval. */
function difference(entry) {
  const value = gap(entry);
  if (value === null) return h("small", {}, "–");
  const width = entry.paperWidth || 0;
  const kind = value > width ? "better" : value < -width ? "worse" : "same";
  const mark = { better: "▲ ", worse: "▼ ", same: "≈ " }[kind];
  const words = { better: "above the paper", worse: "below the paper", same: "within the paper's interval" }[kind];
  return h("span", { class: `diff ${kind}`, title: words }, mark + (value > 0 ? "+" : "") + text(value));
}
