// Dark and light theme; folded details are opened for printing.
const theme = document.getElementById("theme");
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : prefersDark.matches;
}

function nameTheme() {
  theme.textContent = isDark() ? "Light colors" : "Dark colors";
}

theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  nameTheme();
});
prefersDark.addEventListener("change", nameTheme);
nameTheme();

let unfolded = [];
addEventListener("beforeprint", () => {
  unfolded = [...document.querySelectorAll("details:not([open])")];
  unfolded.forEach((details) => { details.open = true; });
});
addEventListener("afterprint", () => unfolded.forEach((details) => { details.open = false; }));
