// Maps of single pages: what a heatmap shows at the moment, page by page. Each line is a unit of
// 2 MiB, each dot a page. The map is the one nearest to the cursor's time.

// What is known of a page; html/page_frames.rs writes it. From TOUCHED on: touched within the
// longest span, then the next shorter one, and so on.
const PAGE = { NONE: 0, UNRESOLVED: 1, NOT_MEASURED: 2, NOT_TOUCHED: 3, TOUCHED: 4 };
// Most lines that are drawn; more are skipped evenly.
const MOST_LINES = 256;

class PageMap {
  constructor(parent, heatmap, pages) {
    this.heatmap = heatmap;
    this.frames = pages.frames;
    this.spans = pages.spans;
    this.title = element("p", { cls: "readout" });
    this.canvas = element("canvas", { role: "img", "aria-label": "Page map" });
    this.readout = element("p", { cls: "readout", "aria-live": "polite" });
    parent.append(this.title, this.canvas, this.readout, this.legend());
    this.ready = new Map();
    this.lines = [];
    this.canvas.addEventListener("pointermove", (event) => {
      this.tell(event.offsetX / this.canvas.clientWidth, event.offsetY / this.canvas.clientHeight);
    });
    heatmap.onDraw = () => this.draw();
  }

  legend() {
    const legend = element("p", { cls: "legend" });
    const entry = (rgb, text) => {
      const swatch = element("span", { cls: "swatch" });
      swatch.style.background = `rgb(${rgb})`;
      legend.append(swatch, ` ${text}  `);
    };
    this.spans.forEach((span, nr) => entry(this.rgb(PAGE.TOUCHED + this.spans.length - 1 - nr), `touched within ${span}`));
    entry(this.rgb(PAGE.NOT_TOUCHED), "not touched");
    entry(this.rgb(PAGE.NOT_MEASURED), "not measured");
    entry(this.rgb(PAGE.UNRESOLVED), "unresolved");
    return legend;
  }

  rgb(value) {
    if (value === PAGE.UNRESOLVED) return [176, 190, 200];
    if (value === PAGE.NOT_MEASURED) return [120, 130, 140];
    return shade((value - PAGE.NOT_TOUCHED) / this.spans.length);
  }

  word(value) {
    const words = ["not there", "unresolved", "not measured", "not touched"];
    return words[value] ?? `touched within ${this.spans[this.spans.length - 1 - (value - PAGE.TOUCHED)]}`;
  }

  // The map nearest to a time.
  nearest(seconds) {
    const distance = (frame) => Math.abs(frame.t - seconds);
    return this.frames.reduce((best, frame) => (distance(frame) < distance(best) ? frame : best));
  }

  async draw() {
    const frame = this.nearest(view.cursor ?? view.to);
    const { heatmap } = this;
    const key = `${frame.t} ${heatmap.low} ${heatmap.high}`;
    if (key === this.drawn) return;
    this.drawn = key;
    if (!this.ready.has(frame)) this.ready.set(frame, await unpacked(frame.cells));
    if (this.drawn === key) this.paint(frame, this.ready.get(frame));
  }

  // The units of a map that the heatmap's rows show, with where their cells begin.
  visible(frame) {
    const rows = this.heatmap.panel.rows.slice(Math.floor(this.heatmap.low), Math.ceil(this.heatmap.high));
    const areas = [];
    for (const [from, to] of rows) {
      const last = areas.at(-1);
      if (last && last[1] === from) last[1] = to;
      else areas.push([from, to]);
    }
    const units = [];
    let at = 0;
    for (const [first, count] of frame.runs) {
      for (let nr = first; nr < first + count; nr += 1) {
        const inside = areas.some(([from, to]) => nr * 512 < to && (nr + 1) * 512 > from);
        if (inside) units.push({ nr, at });
        at += 512 / frame.grain;
      }
    }
    return units;
  }

  paint(frame, cells) {
    const units = this.visible(frame);
    const skip = Math.max(1, Math.ceil(units.length / MOST_LINES));
    this.lines = units.filter((_, nr) => nr % skip === 0);
    this.frame = frame;
    this.values = cells;
    const width = 512 / frame.grain;
    const height = Math.max(this.lines.length, 1);
    this.canvas.width = width;
    this.canvas.height = height;
    this.canvas.style.height = `${Math.min(Math.max(height * 4, 24), 512)}px`;
    this.canvas.style.imageRendering = "pixelated";
    const pen = this.canvas.getContext("2d");
    const picture = pen.createImageData(width, height);
    this.lines.forEach((unit, line) => {
      // As in the heatmap, the lowest address is at the bottom.
      const row = height - 1 - line;
      for (let x = 0; x < width; x += 1) {
        const value = cells[unit.at + x];
        if (value !== PAGE.NONE) picture.data.set([...this.rgb(value), 255], (row * width + x) * 4);
      }
    });
    pen.putImageData(picture, 0, 0);
    const grain = frame.grain > 1 ? `, a dot is ${frame.grain} pages` : "";
    const skipped = skip > 1 ? `, one line of ${skip} is shown: zoom in for all` : "";
    const nr = this.frames.indexOf(frame) + 1;
    this.title.textContent =
      `Pages at ${clock(frame.t)} (map ${nr} of ${this.frames.length}): ${units.length} units of 2 MiB${grain}${skipped}`;
    this.canvas.dataset.units = units.length;
    this.canvas.dataset.at = frame.t;
  }

  tell(x, y) {
    const unit = this.lines[this.lines.length - 1 - Math.floor(y * this.lines.length)];
    if (!unit) return;
    const cell = Math.min(Math.floor(x * this.canvas.width), this.canvas.width - 1);
    const page = unit.nr * 512 + cell * this.frame.grain;
    this.readout.textContent = `${address(page)}: ${this.word(this.values[unit.at + cell])}`;
  }
}
