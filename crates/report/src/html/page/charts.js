// Values over time: the working set with its 90 % interval, and actions with their refaults.

class BandChart extends Plot {
  constructor(parent, bands) {
    super(parent, "Working set over time", 220);
    this.bands = bands;
    this.band = bands[0];
  }

  choose(band) {
    this.band = band;
    view.changed();
  }

  draw() {
    this.start();
    const { t, lo, mid, hi } = this.band;
    const top = Math.max(...hi, 1) * 1.05;
    const y = (kib) => 4 + this.plotHeight * (1 - kib / top);
    this.clipped(() => {
      for (const [first, behind] of this.runs()) {
        const path = new Path2D();
        for (let i = first; i < behind; i += 1) path.lineTo(this.x(t[i]), y(hi[i]));
        for (let i = behind - 1; i >= first; i -= 1) path.lineTo(this.x(t[i]), y(lo[i]));
        this.pen.fillStyle = color("band");
        this.pen.fill(path);
        const line = new Path2D();
        for (let i = first; i < behind; i += 1) line.lineTo(this.x(t[i]), y(mid[i]));
        this.pen.strokeStyle = color("accent");
        this.pen.lineWidth = 1.5;
        this.pen.stroke(line);
        this.pen.lineWidth = 1;
        // A point alone has no line.
        if (behind - first === 1) {
          this.pen.fillStyle = color("accent");
          this.pen.fillRect(this.x(t[first]) - 1, y(mid[first]) - 1, 3, 3);
        }
      }
    });
    this.leftAxis(top, (kib) => size(kib * 1024), y);
    this.finish();
    this.tell();
  }

  // Runs of points without a gap between them: first, and behind last.
  runs() {
    const { t } = this.band;
    const runs = [];
    let first = 0;
    for (let i = 1; i <= t.length; i += 1) {
      const torn = i < t.length && data.gaps.some(([from, to]) => from < t[i] && to > t[i - 1]);
      if (i === t.length || torn) {
        runs.push([first, i]);
        first = i;
      }
    }
    return runs;
  }

  tell() {
    const { t, lo, mid, hi } = this.band;
    if (view.cursor === null || t.length === 0) {
      this.readout.textContent = "";
      return;
    }
    let i = t.findIndex((end) => end >= view.cursor);
    if (i < 0) i = t.length - 1;
    const [a, b, c] = [lo[i], mid[i], hi[i]].map((kib) => size(kib * 1024));
    this.readout.textContent = `${clock(t[i])}  ${b} (90 %: ${a} .. ${c})`;
  }
}

// Bars: done above the line, refaulted below it, as sums over all schemes.
class ActionChart extends Plot {
  constructor(parent, actions) {
    super(parent, "Actions and refaults over time", 160);
    this.actions = actions;
    const sum = (key) => actions.schemes[0]?.[key].map((_, i) =>
      actions.schemes.reduce((all, scheme) => all + scheme[key][i], 0)) ?? [];
    this.done = sum("done");
    this.refaulted = sum("refaulted");
  }

  draw() {
    this.start();
    const { slice } = this.actions;
    const top = Math.max(...this.done, 1);
    const under = Math.max(...this.refaulted, top / 10);
    const zero = 4 + (this.plotHeight * top) / (top + under);
    const y = (kib) => zero - (kib / (top + under)) * this.plotHeight;
    this.clipped(() => {
      this.done.forEach((kib, i) => {
        const x = this.x(data.start + i * slice);
        const w = Math.max(this.x(data.start + (i + 1) * slice) - x - 0.5, 1);
        this.pen.fillStyle = color("second");
        this.pen.fillRect(x, y(kib), w, zero - y(kib));
        this.pen.fillStyle = color("accent");
        this.pen.fillRect(x, zero, w, y(-this.refaulted[i]) - zero);
      });
      this.pen.fillStyle = color("line");
      this.pen.fillRect(this.left, zero, this.plotWidth, 1);
    });
    this.leftAxis(top, (kib) => size(kib * 1024), y);
    this.finish();
    const i = Math.floor((view.cursor - data.start) / slice);
    this.readout.textContent = view.cursor === null || this.done[i] === undefined
      ? "Blue: done. Red, below the line: of what was done, touched again."
      : `${clock(data.start + i * slice)}  done ${size(this.done[i] * 1024)}, refaulted ${size(this.refaulted[i] * 1024)}`;
  }
}
