// The parts of the page that are text: warnings, tables, lists, and the tree of mappings.

function cell(value, isNumber, name = "td") {
  const content = value instanceof Node ? { children: [value] } : { text: value };
  return element(name, { ...content, cls: isNumber ? "number" : undefined });
}

// Fills a table. Columns whose head begins with `#` hold numbers.
function fill(table, heads, rows) {
  const isNumber = heads.map((head) => head.startsWith("#"));
  const names = heads.map((head, i) => cell(head.replace("#", ""), isNumber[i], "th"));
  if (heads.some((head) => head)) table.append(element("thead", { children: [element("tr", { children: names })] }));
  const body = rows.map((row) => element("tr", { children: row.map((value, i) => cell(value, isNumber[i])) }));
  table.append(element("tbody", { children: body }));
}

function list(node, texts) {
  node.append(...texts.map((text) => element("li", { text })));
}

// Hot, warm, cold and unresolved bytes as a bar; `most` fills it.
function bar(heat, most) {
  const kinds = ["hot", "warm", "cold", "unresolved"];
  const parts = kinds.map((kind, i) => {
    const part = element("span", { cls: kind, title: `${kind} ${size(heat[i])}` });
    part.style.width = `${(heat[i] / Math.max(most, 1)) * 100}%`;
    return part;
  });
  return element("div", { cls: "bar", children: parts });
}

function sum(lines) {
  return lines.reduce((all, line) => all.map((bytes, i) => bytes + line.heat[i]), [0, 0, 0, 0]);
}

function total(heat) {
  return heat.reduce((all, bytes) => all + bytes, 0);
}

// Groups in the order in which they first come, which is by heat.
function grouped(lines, key) {
  const groups = new Map();
  for (const line of lines) {
    const name = key(line);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(line);
  }
  return [...groups];
}

// Processes, kinds and mappings, each with its bytes by heat.
function tree(node, lines) {
  const processes = grouped(lines, (l) => (l.pid ? `${l.target} (pid ${l.pid})` : l.target));
  processes.forEach(([process, ofProcess], nr) => {
    const kinds = grouped(ofProcess, (l) => l.kind).map(([kind, ofKind]) => {
      const table = element("table");
      const most = Math.max(...ofProcess.map((l) => total(l.heat)));
      fill(table, ["", "#hot", "#warm", "#cold", "#rate", "mapping"], ofKind.map((l) => [
        bar(l.heat, most), ...l.heat.slice(0, 3).map(size), percent(l.rate), l.name,
      ]));
      return folded("kind", kind, sum(ofKind), table);
    });
    const made = folded("process", process, sum(ofProcess), ...kinds);
    made.open = nr < 3;
    node.append(made);
  });
}

// A part of the tree that can be opened.
function folded(cls, name, heat, ...children) {
  const [hot, warm, cold, unresolved] = heat.map(size);
  const rest = heat[3] > 0 ? `, unresolved ${unresolved}` : "";
  const text = `${name}: hot ${hot}, warm ${warm}, cold ${cold}${rest}`;
  const made = element("details", { cls, children: [element("summary", { text }), ...children] });
  made.open = true;
  return made;
}

function idleName({ idle_ms: from, below_ms: to }) {
  const ms = (x) => (x < 1000 ? `${x} ms` : x < 120000 ? `${x / 1000} s` : x < 3600000 ? `${x / 60000} min` : `${x / 3600000} h`);
  if (from === 0) return "accessed now";
  if (to === null) return `${ms(from)} and more`;
  return from === 1 ? `less than ${ms(to)}` : `${ms(from)} to ${ms(to)}`;
}

function ages(table, note, report) {
  const used = report.classes.findLastIndex((c) => c.bytes + c.mean_bytes > 0);
  const most = Math.max(...report.classes.map((c) => c.bytes), 1);
  fill(table, ["idle for", "", "#at the end", "#mean"], report.classes.slice(0, used + 1).map((c, nr) => [
    idleName(c), bar(nr === 0 ? [c.bytes, 0, 0, 0] : [0, 0, c.bytes, 0], most), size(c.bytes), size(c.mean_bytes),
  ]));
  const parts = [];
  if (report.unresolved > 0) parts.push(`${size(report.unresolved)} unresolved.`);
  if (report.sum_over_processes) {
    parts.push(`Memory that processes share is counted once, ${size(report.bytes)} in all at the end; ` +
      `the sum over processes is ${size(report.sum_over_processes.bytes)}.`);
  }
  note.textContent = parts.join(" ");
}

function workingSets(table, sets) {
  const rows = [sets.regions, ...sets.spans].map((band) => [
    band.name, size(band.mean[1]), `${size(band.mean[0])} .. ${size(band.mean[2])}`, percent(band.measured),
  ]);
  fill(table, ["mean over time", "#working set", "#90 % interval", "#measured"], rows);
  const more = sets.sum_over_processes === undefined ? ""
    : ` Memory that processes share is counted once; the sum over processes is ${size(sets.sum_over_processes)}.`;
  table.after(element("p", {
    cls: "hint", text: `Mapped ${size(sets.mapped)} on average, unresolved ${size(sets.unresolved)}.${more}`,
  }));
}

function actionTable(table, messages, actions) {
  fill(table, ["scheme", "action", "#done", "#refaulted", "#share"], actions.schemes.map((s) => [
    s.name, s.dry_run ? `${s.action} (dry run)` : s.action, size(s.done_bytes), size(s.refaulted_bytes),
    s.done_bytes > 0 ? percent(s.refaulted_bytes / s.done_bytes) : "-",
  ]));
  list(messages, actions.messages.map(([t, text]) => `${clock(t)}  ${text}`));
  if (actions.more > 0) list(messages, [`and ${actions.more} more`]);
}
