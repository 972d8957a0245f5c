"""What a report looks like and how its gallery is searched: style and script of the page."""

REPORT_STYLE = """
:root {
  --told: #0067a5; --said: #b34d00; --mark: #fbe3cf; --line: #e4e1d9; --card: #fff;
  --ramp-1: #7fb3d5; --ramp-2: #4590c0; --ramp-3: #1f6ea3; --ramp-4: #0b4571;
}
@media (prefers-color-scheme: dark) {
  :root {
    --told: #5bb4e8; --said: #f0a24a; --mark: #5a3a17; --line: #2c2d31; --card: #1d1e22;
    --ramp-1: #3d7ba3; --ramp-2: #5b9cc6; --ramp-3: #86bde0; --ramp-4: #bfe0f5;
  }
}
html { scroll-behavior: smooth; scroll-padding-top: 4rem }
header { max-width: none; margin-bottom: 1.5rem }
h1 { overflow-wrap: anywhere }
main { display: block }
.kicker { margin-bottom: .25rem; font-size: .9rem }
.about, .tiles { display: grid; gap: 1rem 2rem; margin: 1.5rem 0 0 }
.about { grid-template-columns: repeat(auto-fill, minmax(min(100%, 13rem), 1fr)) }
dt { color: var(--muted); font-size: .8rem }
dd { margin: 0; overflow-wrap: anywhere }
nav {
  position: sticky; top: 0; z-index: 1; margin: 0 -1rem; padding: .6rem 1rem;
  background: var(--paper); border-bottom: 1px solid var(--line); overflow-x: auto;
}
nav ul { display: flex; gap: 1.4rem; margin: 0; padding: 0; list-style: none; white-space: nowrap }
nav a { color: inherit; font-size: .9rem; text-decoration: none }
nav a:hover { text-decoration: underline; text-underline-offset: .3em }
:is(a, summary, input, select, .wide):focus-visible {
  outline: 2px solid var(--accent); outline-offset: 2px;
}
section { padding: 3rem 0 1rem }
section > h2 {
  margin: 0 0 .5rem; color: var(--ink); font: 500 1.5rem/1.25 ui-serif, Georgia, serif;
}
h3 { margin: 0 0 .25rem; font-size: 1rem; font-weight: 600 }
section > h3 { margin: 2rem 0 .75rem; font: 500 1.2rem/1.3 ui-serif, Georgia, serif }
h4 {
  margin: 0 0 .5rem; color: var(--muted); font-size: .85rem; font-weight: 400;
  overflow-wrap: anywhere;
}
.sub { max-width: 46rem; margin-bottom: 1rem; color: var(--muted); font-size: .92rem }
.tiles {
  grid-template-columns: repeat(auto-fit, minmax(7rem, 1fr)); gap: 1rem; margin: 1.25rem 0 2rem;
}
.tiles div { padding: .9rem 1rem; background: var(--card); border: 1px solid var(--line);
  border-radius: .6rem }
.tiles dd { font: 500 1.9rem/1.2 ui-serif, Georgia, serif }
.tiles .interval { font: .82rem/1.4 system-ui, sans-serif }
.interval { display: block; color: var(--muted); font-size: .78rem; white-space: nowrap }
.panels {
  display: grid; align-items: start; gap: 2.5rem 3rem; margin: 1.25rem 0 2rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 19rem), 1fr));
}
.panel { min-width: 0; max-width: 30rem }
.panel h3:nth-of-type(n + 2) { margin-top: 1.5rem }
.wide { overflow-x: auto }
table {
  border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums;
}
th, td { padding: .35rem .8rem .35rem 0; text-align: right; vertical-align: top }
th:first-child { text-align: left }
th { font-weight: 400 }
thead th { color: var(--muted); font-size: .8rem; border-bottom: 1px solid var(--line) }
tbody tr + tr > * { border-top: 1px solid var(--line) }
#scores th:nth-child(2), #scores td:nth-child(2) { text-align: left }
details { margin-top: 1.25rem; font-size: .92rem }
summary { cursor: pointer; color: var(--muted) }
.signatures { padding-left: 1.1rem }
code { font-size: .82rem; overflow-wrap: anywhere }
svg.chart { display: block; width: 100%; height: auto; font: 12px system-ui, sans-serif }
svg.chart text { fill: var(--muted) }
svg.chart .inside { font-size: 11px }
svg.chart .on-dark { fill: #fff } svg.chart .on-light { fill: #000 }
.grid { stroke: var(--line) }
.mark { stroke: var(--accent); stroke-dasharray: 4 3 }
svg.chart .marked { fill: var(--accent) }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round }
.dot { fill: none; stroke-width: 7; stroke-linecap: round }
.ideal { stroke: var(--muted); stroke-dasharray: 2 4; fill: none }
path.told { stroke: var(--told) } path.said { stroke: var(--said) }
path.faint { stroke: var(--muted); stroke-dasharray: 2 4 }
path.quiet { stroke: var(--muted); stroke-width: 1.2 }
path.ramp-1 { stroke: var(--ramp-1) } path.ramp-2 { stroke: var(--ramp-2) }
path.ramp-3 { stroke: var(--ramp-3) } path.ramp-4 { stroke: var(--ramp-4) }
rect.told, circle.told { fill: var(--told) } rect.said, circle.said { fill: var(--said) }
svg.chart circle.told { fill-opacity: .85 }
svg.chart text.name { fill: var(--ink) }
.told-text { color: var(--told) } .said-text { color: var(--said) }
svg.dumbbell { display: inline-block; width: 7.5rem; height: .875rem; vertical-align: middle }
.bar { stroke: var(--muted); stroke-width: 2 }
.track, .filled { stroke-width: 6 } .track { stroke: var(--track) } .filled { stroke: var(--told) }
.figures, .gallery { display: grid; gap: 2rem 2.5rem; align-items: start }
.figures { grid-template-columns: repeat(auto-fill, minmax(min(100%, 18rem), 1fr)) }
.card { min-width: 0 }
.card .words { font-size: 1.15rem }
.card .note { font-size: .82rem; min-height: 3.1em }
td:last-child:has(svg) { padding-right: 0 }
.worth { margin-top: .3rem; color: var(--muted); font-size: .82rem }
.people { margin: .4rem 0 0; padding-left: 1rem; color: var(--muted); font-size: .85rem }
.gone { color: var(--muted); font-style: italic; font-size: .85rem }
.controls { display: flex; flex-wrap: wrap; gap: .75rem 1.5rem; align-items: center;
  margin-bottom: 1.75rem; font-size: .92rem }
.controls input, .controls select {
  margin-left: .35rem; padding: .35rem .6rem; color: inherit; font: inherit; max-width: 100%;
  background: var(--card); border: 1px solid var(--muted); border-radius: .4rem;
}
#found { color: var(--muted) }
.gallery {
  margin: 0; padding: 0; list-style: none;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr));
}
.gallery > li {
  display: grid; grid-template-columns: 7rem minmax(0, 1fr); gap: 1rem;
  content-visibility: auto; contain-intrinsic-size: auto 15rem;
}
.gallery > li[hidden] { display: none }
.thumb img { display: block; width: 100%; height: auto; border-radius: .4rem }
.gallery p.told-text { color: inherit; font: 1.05rem/1.35 ui-serif, Georgia, serif }
.id { margin-top: .35rem; color: var(--muted); font-size: .75rem; overflow-wrap: anywhere }
mark { padding: 0 .1em; color: var(--ink); background: var(--mark); border-radius: .2em;
  border-bottom: 2px solid var(--said) }
@media (prefers-reduced-motion: reduce) { html { scroll-behavior: auto } }
@media print { nav, .controls { display: none } .gallery > li { content-visibility: visible } }
"""

REPORT_SCRIPT = """
const gallery = document.getElementById("gallery");
const items = [...gallery.children];
const wanted = document.getElementById("wanted");
const order = document.getElementById("order");
const texts = items.map((item) => [...item.querySelectorAll(".told-text, .people li")]
  .map((part) => part.textContent.toLowerCase()).join(" "));
wanted.form.addEventListener("submit", (event) => event.preventDefault());
wanted.addEventListener("input", () => {
  const word = wanted.value.trim().toLowerCase();
  items.forEach((item, i) => { item.hidden = !texts[i].includes(word); });
  const found = items.filter((item) => !item.hidden).length;
  document.getElementById("found").textContent = `${found.toLocaleString("en")} captions`;
});
order.addEventListener("change", () => {
  const key = order.value.replace("-", "");
  const sign = order.value.startsWith("-") ? -1 : 1;
  const value = (item) => sign * Number(item.dataset[key]);
  gallery.append(...[...items].sort((a, b) => value(a) - value(b)));
});
"""
