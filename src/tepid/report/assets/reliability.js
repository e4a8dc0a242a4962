// The reliability diagram of one stop, and the histogram of its confidence.
function expectedError(stop) {
  const s = data.stops;
  const gaps = s.sure[stop].map((sure, b) => Math.abs(sure - s.correct[stop][b]));
  return sum(gaps) / sum(s.count[stop]);
}

// Each diagram defines its own hatch pattern, which is removed when it is redrawn.
let hatchings = 0;

function hatching(svg) {
  const name = `hatching-${hatchings++}`;
  const pattern = shape(shape(svg, "defs"), "pattern", {
    id: name, width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)",
  });
  shape(pattern, "path", { class: "hatching", d: "M0,0V5" });
  return `url(#${name})`;
}

function drawReliability(figure, stop) {
  const s = data.stops, bins = s.count[stop].length;
  const t = temperatureText(s.t[stop]);
  const svg = canvas(figure, 360, 330,
    `Reliability diagram at T = ${t}: accuracy against confidence in ${bins} bins, ` +
    `ECE ${percent(expectedError(stop))}, mean confidence ${percent(s.confidence[stop])}, ` +
    `accuracy ${percent(data.accuracy)}.`);
  const hatch = hatching(svg);
  const box = { left: 40, right: 350, top: 22, bottom: 222 };
  const x = scale(0, 1, box.left, box.right), y = scale(0, 1, box.bottom, box.top);
  yAxis(svg, y, [0, 0.2, 0.4, 0.6, 0.8, 1], box, "accuracy");
  for (let b = 0; b < bins; b++) {
    if (s.count[stop][b] > 0) drawBin(svg, stop, b, bins, x, y, hatch);
  }
  shape(svg, "path", { class: "diagonal", d: `M${x(0)},${y(0)}L${x(1)},${y(1)}` });
  shape(svg, "path", { class: "axis", d: `M${box.left},${box.bottom}H${box.right}` });
  const under = { left: 40, right: 350, top: 236, bottom: 290 };
  drawCounts(svg, stop, under);
  xAxis(svg, x, [0, 0.2, 0.4, 0.6, 0.8, 1], under, "confidence");
}

function drawBin(svg, stop, b, bins, x, y, hatch) {
  const s = data.stops, n = s.count[stop][b];
  const accuracy = s.correct[stop][b] / n, sure = s.sure[stop][b] / n;
  const left = x(b / bins) + 1, width = x(1 / bins) - x(0) - 2, middle = left + width / 2;
  shape(svg, "rect", {
    class: "bar", x: left, width, y: y(accuracy), height: y(0) - y(accuracy),
  });
  const high = Math.max(accuracy, sure), low = Math.min(accuracy, sure);
  shape(svg, "rect", {
    class: "gap", x: left, width, y: y(high), height: y(low) - y(high), fill: hatch,
  });
  const from = y(s.low[stop][b]), to = y(s.high[stop][b]);
  shape(svg, "path", {
    class: "whisker", d: `M${middle},${from}V${to}M${middle - 3},${from}h6M${middle - 3},${to}h6`,
  });
}

function drawCounts(svg, stop, box) {
  const counts = data.stops.count[stop], bins = counts.length;
  const x = scale(0, 1, box.left, box.right), y = scale(0, Math.max(...counts), box.bottom, box.top);
  counts.forEach((count, b) => {
    const left = x(b / bins) + 1, width = x(1 / bins) - x(0) - 2;
    shape(svg, "rect", { class: "pale", x: left, width, y: y(count), height: box.bottom - y(count) });
  });
  shape(svg, "text", { x: box.left - 6, y: box.bottom, "text-anchor": "end" }, "rows");
}

function drawHistogram(figure, stop) {
  const s = data.stops, counts = s.count[stop], bins = counts.length;
  const shares = counts.map((count) => count / data.weight);
  const svg = canvas(figure, 360, 330,
    `Histogram of confidence at T = ${temperatureText(s.t[stop])}: mean ` +
    `${percent(s.confidence[stop])}; ${percent(shares[bins - 1])} of the rows in the last bin.`);
  const box = { left: 40, right: 350, top: 22, bottom: 290 };
  const x = scale(0, 1, box.left, box.right), y = scale(0, 1, box.bottom, box.top);
  yAxis(svg, y, [0, 0.2, 0.4, 0.6, 0.8, 1], box, "share of the rows");
  shares.forEach((share, b) => {
    const left = x(b / bins) + 1, width = x(1 / bins) - x(0) - 2;
    shape(svg, "rect", { class: "pale", x: left, width, y: y(share), height: y(0) - y(share) });
  });
  xAxis(svg, x, [0, 0.2, 0.4, 0.6, 0.8, 1], box, "confidence");
  const mean = x(s.confidence[stop]);
  shape(svg, "path", { class: "cursor", d: `M${mean},${box.bottom}V${box.top}` });
  const side = s.confidence[stop] > 0.5 ? ["end", -5] : ["start", 5];
  shape(svg, "text", { class: "strong", x: mean + side[1], y: box.top + 10, "text-anchor": side[0] },
    "mean " + percent(s.confidence[stop]));
  if (data.accuracy === null) return;
  const right = x(data.accuracy);
  shape(svg, "path", { class: "threshold", d: `M${right},${box.bottom}V${box.top}` });
  const other = data.accuracy > 0.5 ? ["end", -5] : ["start", 5];
  shape(svg, "text", { class: "strong", x: right + other[1], y: box.top + 26, "text-anchor": other[0] },
    "accuracy " + percent(data.accuracy));
}

document.querySelectorAll(".diagram").forEach((figure) => {
  drawReliability(figure, Number(figure.dataset.stop));
});
