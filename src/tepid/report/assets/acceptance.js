// The slider of the threshold: which rows are accepted, and how often they should be right.
const accept = data.acceptance;
const thresholdSlider = document.getElementById("threshold");
const beside = document.getElementById("slider-beside");
const acceptFigure = document.getElementById("chart-accepted");
const thresholdText = (at) => String(Number(accept.edges[at].toFixed(4)));

// For each threshold, the sums over the rows above it.
function tails(values) {
  const out = new Array(values.length);
  let total = 0;
  for (let at = values.length - 1; at >= 0; at--) out[at] = total += values[at];
  return out;
}

function acceptedCurves(stop) {
  const count = tails(accept.count[stop]);
  const ratio = (part) => count.map((n, at) => (n > 0 ? part[at] / n : null));
  const curves = [{
    name: "share", kind: "nll", title: "accepted share", values: count.map((n) => n / data.weight),
  }];
  if (accept.promise) {
    curves.push({
      name: "expected", kind: "uts", title: "expected precision",
      values: ratio(tails(accept.sure[stop])),
    });
  }
  if (data.labeled) {
    curves.push({
      name: "realized", kind: "realized", title: "precision by the labels",
      values: ratio(tails(accept.correct[stop])),
    });
  }
  return curves;
}

const shareText = (value) => (value === null ? "–" : percent(value));

function drawAccepted(curves, at) {
  const said = curves.map((c) => `${c.title} ${shareText(c.values[at])}`).join(", ");
  const svg = canvas(acceptFigure, 360, 330,
    `Accepted share and precision against the threshold. At ${thresholdText(at)}: ${said}.`);
  const box = { left: 40, right: 350, top: 22, bottom: 290 };
  const x = scale(0, 1, box.left, box.right), y = scale(0, 1, box.bottom, box.top);
  yAxis(svg, y, [0, 0.2, 0.4, 0.6, 0.8, 1], box, "share");
  xAxis(svg, x, [0, 0.2, 0.4, 0.6, 0.8, 1], box, "confidence threshold");
  for (const { kind, values } of curves) {
    const points = values.map((v, i) => (v === null ? "" : `${x(accept.edges[i])},${y(v)}`));
    shape(svg, "polyline", { class: `curve ${kind}`, points: points.filter(Boolean).join(" ") });
  }
  const here = x(accept.edges[at]);
  shape(svg, "path", { class: "cursor", d: `M${here},${box.bottom}V${box.top}` });
}

function showAccepted(stop, at) {
  const t = temperatureText(data.stops.t[stop]);
  const curves = acceptedCurves(stop);
  beside.value = stop;
  thresholdSlider.value = at;
  document.getElementById("temperature-beside").textContent = t;
  document.getElementById("threshold-value").textContent = thresholdText(at);
  curves.forEach((curve) => read(curve.name, shareText(curve.values[at])));
  const said = curves.map((c) => `${c.title} ${shareText(c.values[at])}`).join(", ");
  thresholdSlider.setAttribute("aria-valuetext", `threshold ${thresholdText(at)}, ${said}`);
  beside.setAttribute("aria-valuetext", `T = ${t}, ${said}`);
  drawAccepted(curves, at);
  document.querySelectorAll("#promises button").forEach((button) => {
    const there = Number(button.dataset.at) === at && accept.stop === stop;
    button.setAttribute("aria-pressed", String(there));
  });
}

for (const { text, at } of accept.promises) {
  const button = element(document.getElementById("promises"), "button",
    { type: "button", "data-at": at }, `${text}: ${thresholdText(at)}`);
  // A threshold belongs to its temperature.
  button.addEventListener("click", () => {
    thresholdSlider.value = at;
    show(accept.stop);
  });
}
beside.max = data.stops.t.length - 1;
thresholdSlider.max = accept.edges.length - 1;
thresholdSlider.value = accept.start;
legend(acceptFigure, acceptedCurves(data.start));
followers.push((stop) => showAccepted(stop, Number(thresholdSlider.value)));
beside.addEventListener("input", () => show(Number(beside.value)));
thresholdSlider.addEventListener("input", () =>
  showAccepted(Number(slider.value), Number(thresholdSlider.value)));
showAccepted(Number(slider.value), accept.start);
