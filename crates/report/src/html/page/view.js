// What is shown of the time axis. All charts share it: zooming into one zooms all.

const view = {
  from: data.start,
  to: Math.max(data.end, data.start + 1e-3),
  // Where the cursor is, in seconds; null if nowhere.
  cursor: null,
  drawers: [],
  waiting: false,

  // Calls `draw` whenever something changes.
  watch(draw) {
    this.drawers.push(draw);
  },

  // Draws all charts before the next frame, however often it is called.
  changed() {
    if (this.waiting) return;
    this.waiting = true;
    const draw = () => {
      if (!this.waiting) return;
      this.waiting = false;
      for (const one of this.drawers) one();
    };
    requestAnimationFrame(draw);
    // A page that nobody sees gets no frames, also while it is printed.
    setTimeout(draw, 100);
  },

  all() {
    this.set(data.start, data.end);
  },

  // Shows a span of time, kept within the record and at least 10 ms.
  set(from, to) {
    const whole = Math.max(data.end - data.start, 1e-3);
    const length = Math.min(Math.max(to - from, Math.min(0.01, whole)), whole);
    this.from = Math.min(Math.max(from, data.start), data.start + whole - length);
    this.to = this.from + length;
    this.changed();
  },

  // Shows `factor` times as much around a time.
  zoom(factor, around) {
    this.set(around - (around - this.from) * factor, around + (this.to - around) * factor);
  },

  pan(seconds) {
    this.set(this.from + seconds, this.to + seconds);
  },

  // Moves the cursor to a time; what is shown follows it.
  point(seconds) {
    this.cursor = Math.min(Math.max(seconds, data.start), data.end);
    if (this.cursor < this.from) this.pan(this.cursor - this.from);
    if (this.cursor > this.to) this.pan(this.cursor - this.to);
    this.changed();
  },
};

// Round distances between marks, at least `least` apart.
function step(least, steps = [1, 2, 5]) {
  const unit = 10 ** Math.floor(Math.log10(least));
  return [...steps, 10].map((s) => s * unit).find((s) => s >= least * 0.999) ?? 10 * unit;
}

function timeStep(least) {
  if (least <= 0.5) return step(least);
  const round = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400];
  return round.find((s) => s >= least) ?? step(least);
}

// A canvas with sharp pixels, a plot area in it, and a time axis below. Subclasses draw the rest.
class Plot {
  constructor(parent, label, height) {
    this.canvas = element("canvas", { tabindex: "0", role: "img", "aria-label": label });
    this.canvas.style.height = `${height}px`;
    this.height = height;
    // The same for all charts, so that their time axes are below each other.
    this.left = 124;
    this.right = 150;
    this.bottom = 22;
    this.readout = element("p", { cls: "readout", "aria-live": "polite" });
    parent.append(this.canvas, this.readout);
    this.pen = this.canvas.getContext("2d");
    this.listen();
    view.watch(() => this.draw());
  }

  get plotWidth() {
    return Math.max(this.width - this.left - this.right, 10);
  }

  get plotHeight() {
    return this.height - this.bottom - 4;
  }

  x(seconds) {
    return this.left + ((seconds - view.from) / (view.to - view.from)) * this.plotWidth;
  }

  time(x) {
    return view.from + ((x - this.left) / this.plotWidth) * (view.to - view.from);
  }

  // Fits the canvas to the page and clears it.
  start() {
    const scale = window.devicePixelRatio || 1;
    this.width = this.canvas.clientWidth || 800;
    const [w, h] = [Math.round(this.width * scale), Math.round(this.height * scale)];
    if (this.canvas.width !== w || this.canvas.height !== h) {
      this.canvas.width = w;
      this.canvas.height = h;
    }
    this.pen.setTransform(scale, 0, 0, scale, 0, 0);
    this.pen.clearRect(0, 0, this.width, this.height);
    this.pen.fillStyle = color("panel");
    this.pen.fillRect(this.left, 4, this.plotWidth, this.plotHeight);
    this.pen.font = "12px system-ui, sans-serif";
    this.canvas.dataset.from = view.from.toFixed(3);
    this.canvas.dataset.to = view.to.toFixed(3);
  }

  // Draws what only the plot area may show.
  clipped(draw) {
    this.pen.save();
    this.pen.beginPath();
    this.pen.rect(this.left, 4, this.plotWidth, this.plotHeight);
    this.pen.clip();
    draw();
    this.pen.restore();
  }

  // The time axis, gaps that nobody watched, and the cursor.
  finish() {
    const pen = this.pen;
    const base = 4 + this.plotHeight;
    this.clipped(() => {
      pen.fillStyle = color("unresolved");
      pen.globalAlpha = 0.35;
      for (const [from, to] of data.gaps) {
        pen.fillRect(this.x(from), 4, Math.max(this.x(to) - this.x(from), 1), this.plotHeight);
      }
      pen.globalAlpha = 1;
    });
    pen.strokeStyle = color("line");
    pen.strokeRect(this.left + 0.5, 4.5, this.plotWidth - 1, this.plotHeight - 1);
    pen.fillStyle = color("soft");
    pen.textAlign = "center";
    pen.textBaseline = "top";
    const distance = timeStep(((view.to - view.from) * 90) / this.plotWidth);
    for (let t = Math.ceil(view.from / distance) * distance; t <= view.to; t += distance) {
      pen.fillRect(this.x(t), base, 1, 4);
      pen.fillText(clock(t, distance), this.x(t), base + 6);
    }
    if (view.cursor !== null && view.cursor >= view.from && view.cursor <= view.to) {
      pen.fillStyle = color("text");
      pen.fillRect(this.x(view.cursor), 4, 1, this.plotHeight);
    }
  }

  // Marks and numbers on the left; `y` maps a value to a place.
  leftAxis(top, text, y) {
    const pen = this.pen;
    pen.fillStyle = color("soft");
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    const distance = 2 ** Math.ceil(Math.log2(Math.max(top, 1) / 5));
    for (let value = 0; value <= top; value += distance) {
      pen.fillText(text(value), this.left - 6, y(value));
      pen.fillRect(this.left - 3, y(value), 3, 1);
    }
  }

  // Zooms around a place on the canvas; only a heatmap has something to zoom in its height.
  zoom(factor, x) {
    view.zoom(factor, this.time(x));
  }

  drag(dx) {
    view.pan((-dx / this.plotWidth) * (view.to - view.from));
  }

  move(right) {
    const at = view.cursor ?? (view.from + view.to) / 2;
    view.point(at + (right * (view.to - view.from)) / 20);
  }

  // What a key does; false for a key that does nothing here.
  key(name) {
    const at = this.x(Math.min(Math.max(view.cursor ?? (view.from + view.to) / 2, view.from), view.to));
    const keys = {
      "+": () => this.zoom(0.5, at),
      "=": () => this.zoom(0.5, at),
      "-": () => this.zoom(2, at),
      0: () => this.reset(),
      ArrowLeft: () => this.move(-1, 0),
      ArrowRight: () => this.move(1, 0),
      ArrowUp: () => this.move(0, 1),
      ArrowDown: () => this.move(0, -1),
      Home: () => view.point(data.start),
      End: () => view.point(data.end),
    };
    keys[name]?.();
    return name in keys;
  }

  reset() {
    view.all();
  }

  listen() {
    const canvas = this.canvas;
    let last = null;
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      if (this.key(event.key)) event.preventDefault();
    });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(event.deltaY + event.deltaX > 0 ? 1.25 : 0.8, event.offsetX, event.offsetY, event.shiftKey);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      last = [event.offsetX, event.offsetY];
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointerup", () => {
      last = null;
    });
    canvas.addEventListener("pointermove", (event) => {
      if (last) {
        this.drag(event.offsetX - last[0], event.offsetY - last[1]);
        last = [event.offsetX, event.offsetY];
      }
      this.hover(event.offsetX, event.offsetY);
    });
    canvas.addEventListener("dblclick", () => this.reset());
  }

  hover(x) {
    view.cursor = Math.min(Math.max(this.time(x), view.from), view.to);
    view.changed();
  }
}
