// The class table with search and sorting, twenty rows at a time, and the histogram of M_k.
const names = data.classes.names, columns = data.classes.columns;
const table = document.getElementById("classes");
const chooser = document.getElementById("class");
const PAGE = 20;
const view = { column: 0, down: true, wanted: "", rows: PAGE };

const forms = {
  count: countText,
  percent: (value) => percent(value),
  small: (value) => (value === 0 ? "0" : value.toPrecision(3)),
};

function sorted() {
  const wanted = view.wanted.toLowerCase();
  const chosen = names.map((_, k) => k).filter((k) => names[k].toLowerCase().includes(wanted));
  const sign = view.down ? -1 : 1;
  const key = view.column < 0 ? null : columns[view.column].values;
  return chosen.sort((a, b) => {
    if (key === null) return -sign * (b - a);
    if (key[a] === null || key[b] === null) return (key[a] === null) - (key[b] === null) || a - b;
    return sign * (key[a] - key[b]) || a - b;
  });
}

function fillTable() {
  const body = table.tBodies[0], order = sorted(), shown = order.slice(0, view.rows);
  body.replaceChildren();
  for (const k of shown) {
    const row = element(body, "tr");
    const cell = element(row, "th", { scope: "row" });
    if (divisions.has(k)) {
      const button = element(cell, "button", { type: "button" }, names[k]);
      button.addEventListener("click", () => chooseClass(k));
    } else cell.textContent = names[k];
    for (const { kind, values, low, high } of columns) {
      const cell = element(row, "td", {}, values[k] === null ? "–" : forms[kind](values[k]));
      if (low && low[k] !== null) {
        element(cell, "small", {}, `${(100 * low[k]).toFixed(1)}–${percent(high[k], 1)}`);
      }
    }
  }
  document.getElementById("found").textContent =
    `${shown.length} of ${order.length === names.length ? "" : countText(order.length) + " found of "}` +
    `${countText(names.length)} classes shown`;
  document.getElementById("more").hidden = shown.length === order.length;
}

function fillHead() {
  const row = element(table.tHead, "tr");
  [{ title: "class", meaning: "" }, ...columns].forEach((column, i) => {
    const head = element(row, "th", { scope: "col" });
    const button = element(head, "button", { type: "button", title: column.meaning }, column.title);
    button.addEventListener("click", () => {
      view.down = view.column === i - 1 ? !view.down : i > 0;
      view.column = i - 1;
      markSort();
      fillTable();
    });
  });
  markSort();
}

function markSort() {
  [...table.tHead.rows[0].cells].forEach((head, i) => {
    if (i - 1 === view.column) {
      head.setAttribute("aria-sort", view.down ? "descending" : "ascending");
    } else head.removeAttribute("aria-sort");
  });
}

// The position of a class among those that have a histogram.
const divisions = new Map(data.division.classes.map((k, i) => [k, i]));
const logOdds = (s) => Math.log(s / (1 - s));

function drawDivision(k) {
  const figure = document.getElementById("chart-division");
  const place = divisions.get(k), theta = data.division.theta[place];
  const [predicted, drawn, rest] = data.division.counts[place];
  const width = Math.max(330, Math.min(640, figure.clientWidth));
  const svg = canvas(figure, width, 330,
    `Rows by their softmax for ${names[k]}: ${countText(sum(predicted))} predicted so, ` +
    `${countText(sum(drawn))} added by the threshold ${theta.toPrecision(3)}, ` +
    `${countText(sum(rest))} left out.`);
  const edges = data.division.edges.map(logOdds), step = edges[1] - edges[0];
  const from = edges[0] - step, to = edges[edges.length - 1] + step;
  const box = { left: 50, right: width - 10, top: 22, bottom: 290 };
  const x = scale(from, to, box.left, box.right);
  const totals = predicted.map((n, b) => n + drawn[b] + rest[b]);
  // A logarithmic scale, since most rows belong to neither of the first two kinds.
  const most = Math.max(...totals, 1), y = scale(0, most, box.bottom, box.top, (n) => Math.log10(1 + n));
  const ticks = [0];
  for (let n = 1; n <= most; n *= 10) ticks.push(n);
  yAxis(svg, y, ticks, box, "rows, on a logarithmic scale", countText);
  totals.forEach((_, b) => drawPile(svg, x(from + b * step) + 0.75, x(from + step) - x(from) - 1.5,
    [["pale", rest[b]], ["drawn", drawn[b]], ["bar", predicted[b]]], y));
  const few = [1e-4, 0.01, 0.5, 0.99, 0.9999];
  const marks = width < 500 ? few : [...few, 1e-3, 0.1, 0.9, 0.999];
  xAxis(svg, (s) => x(logOdds(s)), marks, box, "softmax S_k at T = 1, evenly in log-odds");
  if (theta > 0 && theta < 1) {
    const here = x(Math.min(Math.max(logOdds(theta), from), to));
    shape(svg, "path", { class: "threshold", d: `M${here},${box.bottom}V${box.top}` });
    const late = here > width - 150;
    shape(svg, "text", {
      class: "strong", x: here + (late ? -5 : 5), y: box.top + 10, "text-anchor": late ? "end" : "start",
    }, `θ_k = ${theta.toPrecision(3)}`);
  }
  divisionKey(figure, predicted, drawn, rest);
}

// Bars side by side in one bin: stacked bars are misleading on a logarithmic scale.
function drawPile(svg, left, width, kinds, y) {
  const there = kinds.filter(([, count]) => count > 0), each = width / there.length;
  there.forEach(([kind, count], i) => {
    shape(svg, "rect", { class: kind, x: left + i * each, width: each, y: y(count), height: y(0) - y(count) });
  });
}

function divisionKey(figure, predicted, drawn, rest) {
  figure.querySelectorAll("figcaption").forEach((old) => old.remove());
  const caption = element(figure, "figcaption");
  for (const [kind, title, counts] of [
    ["bar", "predicted k", predicted], ["drawn", "drawn in by θ_k", drawn], ["pale", "the rest", rest],
  ]) {
    const item = element(caption, "span");
    const box = shape(item, "svg", { viewBox: "0 0 12 12", class: "key", "aria-hidden": "true" });
    shape(box, "rect", { class: kind, width: 12, height: 12 });
    item.append(` ${title}: ${countText(sum(counts))}`);
  }
}

function chooseClass(k) {
  chooser.value = k;
  drawDivision(k);
  document.getElementById("chart-division").scrollIntoView({ block: "nearest" });
}

fillHead();
fillTable();
for (const k of divisions.keys()) element(chooser, "option", { value: k }, names[k]);
chooser.addEventListener("change", () => drawDivision(Number(chooser.value)));
document.getElementById("find").addEventListener("input", (event) => {
  view.wanted = event.target.value;
  view.rows = PAGE;
  fillTable();
});
document.getElementById("more").addEventListener("click", () => {
  view.rows += 5 * PAGE;
  fillTable();
});
const busiest = sorted().find((k) => divisions.has(k));
chooser.value = busiest;
drawDivision(busiest);
addEventListener("resize", () => drawDivision(Number(chooser.value)));
