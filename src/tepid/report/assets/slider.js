// The slider, and the numbers and charts at its temperature.
const slider = document.getElementById("slider");
const lossFigure = document.getElementById("chart-loss");

function excess(losses) {
  const known = losses.filter((loss) => loss !== null);
  const least = Math.min(...known);
  return known.length === losses.length ? losses.map((loss) => loss - least) : null;
}

// The maximum of the curves within a factor of two of their minima, and at T = 1.
function lossReach(curves) {
  let most = 0;
  for (const { values } of curves) {
    const best = data.stops.t[values.indexOf(0)];
    data.stops.t.forEach((t, i) => {
      const near = Math.abs(Math.log2(t / best)) <= 1.001 || Math.abs(t - 1) < 1e-6;
      if (near) most = Math.max(most, values[i]);
    });
  }
  return 1.1 * most || 1;
}

function drawLoss() {
  const t = data.stops.t, first = t[0], last = t[t.length - 1];
  const curves = [
    { kind: "uts", title: "UTS, per pair", values: excess(data.stops.uts) },
    { kind: "nll", title: "NLL of the labels, per row", values: excess(data.stops.nll) },
  ].filter((curve) => curve.values);
  const lowest = curves.map((c) =>
    `${c.title}: lowest near T = ${temperatureText(t[c.values.indexOf(0)])}`);
  const svg = canvas(lossFigure, 360, 330, `Loss against temperature. ${lowest.join("; ")}.`);
  const box = { left: 40, right: 350, top: 34 + 13 * data.marks.length, bottom: 290 };
  const x = scale(first, last, box.left, box.right, Math.log);
  const reach = lossReach(curves), y = scale(0, reach, box.bottom, box.top);
  yAxis(svg, y, rounds(reach), { ...box, top: 22 }, "loss above its minimum, nats");
  const powers = [];
  for (let p = Math.ceil(Math.log2(first) - 1e-9); p <= Math.log2(last) + 1e-9; p++) powers.push(2 ** p);
  const skip = Math.ceil(powers.length / 8);
  xAxis(svg, x, powers.filter((_, i) => i % skip === 0), box, "temperature T", temperatureText);
  const clip = shape(shape(svg, "defs"), "clipPath", { id: "loss-clip" });
  shape(clip, "rect", {
    x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top,
  });
  for (const { kind, values } of curves) {
    const points = values.map((v, i) => `${x(t[i])},${y(v)}`).join(" ");
    shape(svg, "polyline", { class: `curve ${kind}`, points, "clip-path": "url(#loss-clip)" });
  }
  drawMarks(svg, x, box);
  legend(lossFigure, curves);
  return { svg, x, box };
}

function drawMarks(svg, x, box) {
  const at = data.marks.map((mark) => x(data.stops.t[mark.stop]));
  const levels = data.marks.map((_, i) => 36 + 13 * i);
  at.forEach((here, i) => {
    shape(svg, "path", { class: "mark", d: `M${here},${box.bottom}V${levels[i] - 4}` });
  });
  data.marks.forEach((mark, i) => {
    const here = at[i], level = levels[i];
    const late = here > (box.left + box.right) / 2;
    shape(svg, "text", {
      x: here + (late ? -4 : 4), y: level, "text-anchor": late ? "end" : "start",
    }, mark.name.length > 24 ? mark.name.slice(0, 23) + "…" : mark.name);
  });
}

function legend(figure, curves) {
  const caption = element(figure, "figcaption");
  for (const { kind, title } of curves) {
    const item = element(caption, "span");
    const line = shape(item, "svg", { viewBox: "0 0 30 10", class: "key", "aria-hidden": "true" });
    shape(line, "path", { class: `curve ${kind}`, d: "M0,5H30" });
    item.append(` ${title}`);
  }
}

const loss = drawLoss();
// Called with the stop after each move of the slider.
const followers = [];
const cursor = shape(loss.svg, "path", { class: "cursor" });

function read(name, text) {
  const cell = document.getElementById("read-" + name);
  if (cell) cell.textContent = text;
}

function show(stop) {
  const s = data.stops, t = temperatureText(s.t[stop]);
  slider.value = stop;
  document.getElementById("temperature").textContent = t;
  read("confidence", percent(s.confidence[stop]));
  read("uts", s.uts[stop] === null ? "no pairs" : s.uts[stop].toFixed(4));
  let said = `T = ${t}, implied accuracy ${percent(s.confidence[stop])}`;
  if (data.labeled) {
    read("accuracy", percent(data.accuracy));
    read("nll", s.nll[stop].toFixed(4));
    read("ece", percent(expectedError(stop)));
    drawReliability(document.getElementById("chart-reliability"), stop);
    said += `, NLL ${s.nll[stop].toFixed(4)}, ECE ${percent(expectedError(stop))}`;
  }
  slider.setAttribute("aria-valuetext", said);
  drawHistogram(document.getElementById("chart-histogram"), stop);
  const here = loss.x(s.t[stop]);
  cursor.setAttribute("d", `M${here},${loss.box.bottom}V${loss.box.top}`);
  document.querySelectorAll("#jumps button").forEach((button) => {
    button.setAttribute("aria-pressed", String(Number(button.dataset.stop) === stop));
  });
  followers.forEach((follow) => follow(stop));
}

for (const mark of data.marks) {
  const text = `${mark.name}: ${temperatureText(data.stops.t[mark.stop])}`;
  const button = element(document.getElementById("jumps"), "button",
    { type: "button", "data-stop": mark.stop }, text);
  button.addEventListener("click", () => show(mark.stop));
}
slider.max = data.stops.t.length - 1;
slider.addEventListener("input", () => show(Number(slider.value)));
show(data.start);
