// Puts the page together.

function byId(id) {
  return document.getElementById(id);
}

function head() {
  byId("title").textContent = data.title;
  const length = clock(data.end - data.start);
  const date = data.unix_ms === undefined ? "" : ` from ${new Date(data.unix_ms).toISOString().replace("T", " ").slice(0, 19)} UTC`;
  byId("about").textContent = `Record${date}: ${length} of it are shown`;
  if (data.warnings.length > 0) {
    byId("warnings").hidden = false;
    list(byId("warnings").firstElementChild, data.warnings);
  }
}

async function heatmaps() {
  const parent = byId("heatmaps");
  const { panels, targets, legend } = data.heatmap;
  for (const panel of panels) {
    const part = element("div", { children: [element("h3", { text: panel.title })] });
    parent.append(part);
    const heatmap = new Heatmap(part, panel, await unpacked(panel.cells));
    if (panel.pages) new PageMap(part, heatmap, panel.pages);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => heatmap.paint());
  }
  if (targets > panels.length) {
    parent.append(element("p", { cls: "hint", text: `${targets - panels.length} more targets have fewer accesses and no heatmap` }));
  }
  const ramp = element("span", { cls: "ramp" });
  ramp.style.background = `linear-gradient(to right, ${STOPS.map((rgb) => `rgb(${rgb})`).join(", ")})`;
  const grey = element("span", { cls: "swatch unresolved" });
  byId("legend").append("accessed in 0 % ", ramp, ` ${legend}  `, grey, " unresolved; blank: not mapped");
}

function workingSet() {
  const bands = [...data.working_set.spans, data.working_set.regions];
  const chart = new BandChart(byId("wss"), bands);
  const first = Math.min(2, Math.max(data.working_set.spans.length - 1, 0));
  bands.forEach((band, nr) => {
    const input = element("input", { type: "radio", name: "band" });
    input.checked = nr === first;
    input.addEventListener("change", () => chart.choose(band));
    byId("wss-choice").append(element("label", { children: [input, ` ${band.name}`] }));
  });
  chart.choose(bands[first]);
  workingSets(byId("wss-table"), data.working_set);
}

function texts() {
  tree(byId("mappings"), data.mappings);
  if (data.more_mappings > 0) {
    byId("mappings").append(element("p", { cls: "hint", text: `and ${data.more_mappings} colder mappings` }));
  }
  ages(byId("ages"), byId("ages-note"), data.ages);
  fill(byId("facts"), ["", ""], data.facts);
  byId("notes-part").hidden = data.notes.length === 0;
  list(byId("notes"), data.notes.map(([t, text]) => `${clock(t)}  ${text}`));
  list(byId("targets"), data.targets.map((t) =>
    `${t.pid ? `${t.name} (pid ${t.pid})` : t.name}${t.exited === undefined ? "" : `, ended at ${clock(t.exited)}`}`));
  if (data.more_targets > 0) list(byId("targets"), [`and ${data.more_targets} more`]);
  if (data.actions) {
    byId("actions-part").hidden = false;
    new ActionChart(byId("actions"), data.actions);
    actionTable(byId("actions-table"), byId("messages"), data.actions);
  }
}

async function main() {
  head();
  texts();
  workingSet();
  await heatmaps();
  window.addEventListener("resize", () => view.changed());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => view.changed());
  view.changed();
  // For tests and printers: everything is drawn.
  document.documentElement.dataset.ready = "yes";
}

main();
