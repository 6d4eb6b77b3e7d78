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
  for (const axis of new Set(["xaxis", "yaxis", ...Object.keys(dressed).filter((key) => /^[xy]axis\d*$/.test(key))])) {
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
