// Turns the formulas that Markdown marked, \(…\) and \[…\], into MathML, which the browser draws.
document.addEventListener("DOMContentLoaded", () => {
  for (const element of document.querySelectorAll(".arithmatex")) {
    const text = element.textContent.trim();
    temml.render(text.slice(2, -2), element, { displayMode: text.startsWith("\\[") });
  }
});
