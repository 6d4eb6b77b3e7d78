"""Style sheet of the page, and the script that draws its charts in the colours of the screen."""

from __future__ import annotations

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --ink: #1a1d21; --soft: #5d646e; --faint: #959ca6; --rule: #e3e6ea; --strong-rule: #1a1d21;
  --wash: #f6f7f9; --accent: #2563c9; --grid: #eceef1;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --paper: #131518; --ink: #e7e9ec; --soft: #a0a7b1; --faint: #6c737d; --rule: #2b2f35; --strong-rule: #c9ced6;
    --wash: #1b1e22; --accent: #7fb0ff; --grid: #272b30;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
main { max-width: 84rem; margin: 0 auto; padding: 3.5rem 1.5rem 4rem; }
.eyebrow { margin: 0 0 0.3rem; color: var(--accent); font-weight: 600; font-size: 0.9rem; }
h1 { font-size: 2.1rem; line-height: 1.15; letter-spacing: -0.02em; margin: 0 0 0.4rem; overflow-wrap: anywhere; }
h2 { font-size: 1.45rem; line-height: 1.25; letter-spacing: -0.012em; margin: 0 0 0.35rem; overflow-wrap: anywhere; }
h2 + figure { margin-top: 0.9rem; }
h3 { font-size: 1rem; margin: 2.4rem 0 0.6rem; }
a { color: var(--accent); text-decoration: none; }
a:hover { text-decoration: underline; }
.lead { color: var(--soft); margin: 0; }
.contents { margin: 1.6rem 0 0; padding: 0; list-style: none; border-top: 1px solid var(--rule); }
.contents li { padding: 0.6rem 0; border-bottom: 1px solid var(--rule); }
.contents span::first-letter { text-transform: uppercase; }
.contents span { display: block; color: var(--soft); font-size: 0.92rem; }
nav input { font: inherit; padding: 0.35rem 0.6rem; margin-top: 1.6rem; width: min(24rem, 100%); }
section { margin-top: 3.5rem; }
section.alone { margin-top: 0; }
.one main > :not(.alone):not(footer) { display: none; }
.conclusion { font-size: 1.12rem; margin: 0 0 1.4rem; max-width: 52rem; }
.conclusion::first-letter { text-transform: uppercase; }
.smoke { border-left: 3px solid var(--accent); padding-left: 0.8rem; margin: 0.8rem 0 1rem; max-width: 52rem; }
.setting { color: var(--soft); font-size: 0.9rem; margin: -0.9rem 0 1.2rem; }
.scroll { overflow-x: auto; -webkit-overflow-scrolling: touch; }
table { border-collapse: collapse; font-size: 0.875rem; line-height: 1.35; font-variant-numeric: tabular-nums; }
.scores table { width: 100%; }
.many thead th { padding: 0.45rem 0.2rem 0.45rem 0.45rem; }
.many thead span { white-space: nowrap; }
.many thead .domain span { writing-mode: vertical-rl; transform: rotate(180deg); }
.many tbody td { padding: 0.4rem 0.35rem; }
thead th {
  font-weight: 500; color: var(--soft); text-align: right; vertical-align: bottom; padding: 0.45rem 0.55rem;
  border-top: 2px solid var(--strong-rule); border-bottom: 1px solid var(--strong-rule);
}
tbody td { text-align: right; padding: 0.4rem 0.55rem; white-space: nowrap; }
tbody th { text-align: left; font-weight: 500; padding: 0.4rem 0.9rem 0.4rem 0; white-space: nowrap; }
thead th:first-child { text-align: left; padding-left: 0; }
th:first-child { position: sticky; left: 0; background: var(--paper); }
tbody tr:last-child > * { border-bottom: 2px solid var(--strong-rule); }
tbody tr:not(:last-child) > * { border-bottom: 1px solid var(--rule); }
tbody tr:hover > * { background: var(--wash); }
.scores td.protocol { color: var(--soft); white-space: normal; min-width: 8rem; overflow-wrap: anywhere; }
.scores .protocol, .words tr > :not(:first-child) { text-align: left; padding-left: 0.9rem; }
.scores .mean { padding-left: 1rem; padding-right: 0.8rem; }
.groups th { text-align: center; padding-bottom: 0.2rem; border-bottom: 1px solid var(--rule); }
.groups th:empty { border-bottom: none; }
.groups + tr th { border-top: none; }
.grid colgroup + colgroup { border-left: 1px solid var(--rule); }
.grid tbody td, .grid thead th:not(:first-child) { padding-left: 0.2rem; padding-right: 0.2rem; }
.grid table { font-size: 0.79rem; }
.best { font-weight: 700; }
.worse { color: var(--faint); }
.files { font-size: 0.875rem; color: var(--soft); margin: 0.7rem 0 0; }
figure { margin: 0; overflow: hidden; }
figcaption, .note { color: var(--soft); font-size: 0.84rem; line-height: 1.5; margin-top: 0.6rem; max-width: 60rem; }
.chart { width: 100%; }
.pairs { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(34rem, 100%), 1fr)); gap: 0 2.5rem; }
.pairs > * { min-width: 0; }
.strip { display: flex; flex-wrap: wrap; gap: 1rem 1.4rem; }
.strip > div > div { display: flex; gap: 2px; }
.strip .image > div { display: grid; grid-template-columns: repeat(2, auto); }
.strip img { display: block; border-radius: 2px; }
.strip .image img { width: 72px; image-rendering: pixelated; }
.strip .audio img { width: 96px; }
.strip audio { display: block; width: 194px; height: 32px; margin-top: 4px; }
.strip p { margin: 0.3rem 0 0; color: var(--soft); font-size: 0.8rem; max-width: 194px; overflow-wrap: anywhere; }
.strip .image p { max-width: 146px; }
dl {
  display: grid; grid-template-columns: minmax(8rem, max-content) 1fr; gap: 0.3rem 1.4rem; margin: 0; font-size: 0.9rem;
}
dt { color: var(--soft); }
dd { margin: 0; overflow-wrap: anywhere; }
pre { margin: 0; padding: 0.9rem 1rem; background: var(--wash); overflow-x: auto; line-height: 1.5; }
pre code { overflow-wrap: normal; }
code { font: 0.86em ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; overflow-wrap: anywhere; }
details { margin-top: 1.4rem; }
summary { cursor: pointer; font-weight: 600; font-size: 0.95rem; margin-bottom: 0.6rem; }
footer {
  margin-top: 4rem; padding-top: 1rem; border-top: 1px solid var(--rule); color: var(--soft); font-size: 0.84rem;
}
@media (max-width: 40rem) {
  .words table { font-size: 0.75rem; }
  .words tr > * { padding-right: 0.1rem; }
  .words tr > :not(:first-child) { padding-left: 0.45rem; }
  .words tbody th { white-space: normal; padding-right: 0.1rem; }
  main { padding: 2rem 1rem 3rem; }
  h1 { font-size: 1.7rem; }
  h2 { font-size: 1.25rem; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: 0.55rem; }
}
@media print {
  @page { size: A4 landscape; margin: 14mm; }
  body { font-size: 10pt; }
  main { max-width: none; padding: 0; }
  .scroll { overflow: visible; }
  .scores table { font-size: 7pt; }
  .scores tbody tr > *, .scores thead tr > * { padding: 0.2rem 0.15rem; }
  .scores td.protocol { white-space: normal; overflow-wrap: anywhere; }
  th:first-child { position: static; }
  figure, tr { break-inside: avoid; }
  .files, .modebar { display: none; }
}
"""

SCRIPT = """
"use strict";
const unpacked = (text) => {
  const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
};
const screenColours = () => {
  const style = getComputedStyle(document.documentElement);
  return { ink: style.getPropertyValue("--soft").trim(), grid: style.getPropertyValue("--grid").trim(),
           paper: style.getPropertyValue("--paper").trim() };
};
const printColours = () => ({ ink: "#444444", grid: "#e6e6e6", paper: "#ffffff" });
const coloured = (layout, { ink, grid, paper }) => {
  const dressed = structuredClone(layout);
  for (const axis of new Set(["xaxis", "yaxis", ...Object.keys(dressed).filter((key) => /^[xy]axis\\d*$/.test(key))])) {
    dressed[axis] = { gridcolor: grid, zerolinecolor: grid, automargin: true, ...dressed[axis] };
  }
  for (const menu of dressed.updatemenus ?? []) {
    Object.assign(menu, { bgcolor: paper, bordercolor: grid });
  }
  return { paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", dragmode: "zoom",
    font: { color: ink, size: 12, family: getComputedStyle(document.body).fontFamily },
    hoverlabel: { bgcolor: paper, bordercolor: grid, font: { color: ink } },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: ink, activecolor: ink },
    legend: { orientation: "h", x: 0, xanchor: "left", yref: "container", y: 0, yanchor: "bottom" },
    ...dressed, margin: { l: 8, r: 12, b: 8, ...dressed.margin } };
};
const config = { displaylogo: false, responsive: true, showLink: false, plotlyServerURL: "",
  displayModeBar: matchMedia("(hover: hover)").matches ? "hover" : false,
  modeBarButtonsToRemove: ["lasso2d", "select2d", "autoScale2d"] };
const draw = (colours, part = document) => part.querySelectorAll(".chart").forEach((chart) => {
  const figure = JSON.parse(chart.nextElementSibling.textContent);
  Plotly.react(chart, figure.data, coloured(figure.layout, colours), config);
});
const show = async () => {
  const chosen = document.getElementById(location.hash.slice(1));
  const alone = chosen?.matches(".alone") ? chosen : null;
  document.querySelectorAll(".alone").forEach((section) => { section.hidden = section !== alone; });
  document.body.classList.toggle("one", alone !== null);
  const waiting = alone?.querySelector("script[type='text/plain']");
  if (waiting) {
    waiting.outerHTML = await unpacked(waiting.textContent);
    draw(screenColours(), alone);
  }
  if (alone) { scrollTo(0, 0); }
};
const filter = document.querySelector("nav input");
filter?.addEventListener("input", () => document.querySelectorAll(".contents li").forEach((item) => {
  item.hidden = !item.textContent.toLowerCase().includes(filter.value.toLowerCase());
}));
unpacked(document.getElementById("plotly").textContent).then(async (code) => {
  const script = document.createElement("script");
  script.textContent = code;
  document.head.append(script);
  draw(screenColours());
  await show();
  addEventListener("hashchange", show);
  document.documentElement.dataset.drawn = document.querySelectorAll(".chart").length;
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw(screenColours()));
addEventListener("beforeprint", () => {
  document.querySelectorAll("details").forEach((fold) => { fold.open = true; });
  draw(printColours());
});
addEventListener("afterprint", () => draw(screenColours()));
"""
