"use strict";
// Shared by all charts: the data, elements, scales and axes.
const data = JSON.parse(document.getElementById("data").textContent);

function element(parent, name, attributes = {}, text = null) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  parent.append(made);
  return made;
}

function shape(parent, name, attributes = {}, text = null) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== null) made.textContent = text;
  parent.append(made);
  return made;
}

const percent = (share, digits = 2) => (100 * share).toFixed(digits) + " %";
const temperatureText = (t) => String(Number(t.toPrecision(4)));
const sum = (values) => values.reduce((a, b) => a + b, 0);

function countText(count) {
  return Number.isInteger(count) ? count.toLocaleString("en") : String(Number(count.toPrecision(4)));
}

// A scale maps a value to a position between two ends.
function scale(from, to, start, end, bend = (v) => v) {
  const low = bend(from), wide = bend(to) - low || 1;
  return (value) => start + ((bend(value) - low) / wide) * (end - start);
}

// An empty chart in a figure; screen readers read its label.
function canvas(figure, width, height, label) {
  figure.querySelectorAll(":scope > svg").forEach((old) => old.remove());
  const svg = shape(figure, "svg", {
    viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label,
  });
  figure.prepend(svg);
  return svg;
}

function xAxis(svg, x, ticks, box, title, text = String) {
  shape(svg, "path", { class: "axis", d: `M${box.left},${box.bottom}H${box.right}` });
  for (const tick of ticks) {
    shape(svg, "path", { class: "axis", d: `M${x(tick)},${box.bottom}v4` });
    shape(svg, "text", { x: x(tick), y: box.bottom + 15, "text-anchor": "middle" }, text(tick));
  }
  const middle = (box.left + box.right) / 2;
  shape(svg, "text", { x: middle, y: box.bottom + 30, "text-anchor": "middle" }, title);
}

function yAxis(svg, y, ticks, box, title, text = String) {
  for (const tick of ticks) {
    shape(svg, "path", { class: "grid", d: `M${box.left},${y(tick)}H${box.right}` });
    shape(svg, "text", { x: box.left - 6, y: y(tick) + 4, "text-anchor": "end" }, text(tick));
  }
  shape(svg, "text", { x: 4, y: box.top - 8 }, title);
}

// About five round numbers from zero to the maximum.
function rounds(most) {
  if (!(most > 0)) return [0];
  const rough = most / 4, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
  const ticks = [];
  for (let i = 0; i * step <= most * 1.0001; i++) ticks.push(Number((i * step).toPrecision(12)));
  return ticks;
}
