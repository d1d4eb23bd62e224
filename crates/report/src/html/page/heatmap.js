// The heatmap of one target. Rows are stacked as in the record: what lies between two areas is
// folded, and a line is drawn there.

// Values of a cell; html/grid.rs writes them.
const ABSENT = 0;
const UNRESOLVED = 1;
const NEVER = 2;
const BRIGHTEST = 63;

// The shades of all of Isotherm's pictures, from never to always. People who cannot tell red from
// green can read them.
const STOPS = [
  [22, 11, 57], [66, 10, 104], [125, 30, 109], [186, 54, 85], [229, 92, 48], [249, 158, 20], [252, 244, 150],
];

// The shade at a place on the scale, from 0 to 1.
function shade(share) {
  const at = Math.min(Math.max(share, 0), 1) * (STOPS.length - 1);
  const below = Math.min(Math.floor(at), STOPS.length - 2);
  return STOPS[below].map((c, i) => Math.round(c + (STOPS[below + 1][i] - c) * (at - below)));
}

// The rate that a cell's value stands for.
function rateOf(value) {
  const share = (value - NEVER) / (BRIGHTEST - NEVER);
  const { max, doubling } = data.heatmap;
  if (share <= 0) return 0;
  return doubling ? 2 ** ((share - 1) * 8) * max : share * max;
}

class Heatmap extends Plot {
  constructor(parent, panel, cells) {
    super(parent, `Heatmap of ${panel.title}`, 380);
    this.panel = panel;
    this.cells = cells;
    this.columns = data.heatmap.columns;
    // Which rows are shown: 0 is the lower end of the first.
    this.low = 0;
    this.high = panel.rows.length;
    // The cursor, as a row with a fraction.
    this.row = null;
    this.names = panel.names.flatMap(([rows, name]) => Array(rows).fill(name));
    this.image = document.createElement("canvas");
    this.paint();
  }

  // Fills the picture of all cells; the canvas shows a part of it.
  paint() {
    const { columns, cells } = this;
    const rows = this.panel.rows.length;
    this.image.width = columns;
    this.image.height = Math.max(rows, 1);
    const pen = this.image.getContext("2d");
    const picture = pen.createImageData(columns, Math.max(rows, 1));
    const grey = matchMedia("(prefers-color-scheme: dark)").matches ? [89, 101, 111] : [176, 190, 200];
    for (let row = 0; row < rows; row += 1) {
      for (let column = 0; column < columns; column += 1) {
        const value = cells[row * columns + column];
        if (value === ABSENT) continue;
        const rgb = value === UNRESOLVED ? grey : shade((value - NEVER) / (BRIGHTEST - NEVER));
        // The first row is at the bottom.
        picture.data.set([...rgb, 255], ((rows - 1 - row) * columns + column) * 4);
      }
    }
    pen.putImageData(picture, 0, 0);
  }

  y(row) {
    return 4 + ((this.high - row) / (this.high - this.low)) * this.plotHeight;
  }

  draw() {
    this.start();
    const rows = this.panel.rows.length;
    const whole = Math.max(data.end - data.start, 1e-3);
    const column = (t) => ((t - data.start) / whole) * this.columns;
    const [x, w] = [column(view.from), column(view.to) - column(view.from)];
    this.clipped(() => {
      // Shrunk pictures are smoothed, enlarged ones show their cells.
      this.pen.imageSmoothingEnabled = w > this.plotWidth * 2;
      this.pen.drawImage(
        this.image, x, rows - this.high, w, this.high - this.low,
        this.left, 4, this.plotWidth, this.plotHeight,
      );
      this.folds();
      if (this.row !== null) {
        this.pen.fillStyle = color("text");
        this.pen.fillRect(this.left, this.y(this.row), this.plotWidth, 1);
      }
    });
    this.finish();
    this.addresses();
    this.mappings();
    this.canvas.dataset.low = this.low.toFixed(2);
    this.canvas.dataset.high = this.high.toFixed(2);
    this.tell();
    this.onDraw?.();
  }

  folds() {
    this.pen.fillStyle = color("back");
    for (const [row] of this.panel.folds) this.pen.fillRect(this.left, this.y(row) - 1, this.plotWidth, 2);
  }

  // Addresses on the left, the lower end of every area in any case.
  addresses() {
    const pen = this.pen;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    pen.fillStyle = color("soft");
    const starts = [0, ...this.panel.folds.map(([row]) => row)];
    const distance = Math.max(1, Math.ceil(((this.high - this.low) * 40) / this.plotHeight));
    const first = Math.max(0, Math.ceil(this.low / distance) * distance);
    const between = [];
    for (let row = first; row < this.high; row += distance) between.push(row);
    const taken = [];
    for (const row of [...starts, ...between]) {
      const y = Math.min(this.y(row), 4 + this.plotHeight - 6);
      const inside = row >= Math.floor(this.low) && row < this.high && this.panel.rows[row];
      if (!inside || y < 4 || taken.some((other) => Math.abs(other - y) < 15)) continue;
      taken.push(y);
      pen.fillText(address(this.panel.rows[row][0]), this.left - 6, y);
    }
  }

  // Names of mappings on the right, as far as there is room.
  mappings() {
    const pen = this.pen;
    pen.textAlign = "left";
    pen.textBaseline = "middle";
    pen.fillStyle = color("soft");
    let [first, free] = [0, Infinity];
    for (const [rows, name] of this.panel.names) {
      const [low, high] = [Math.max(first, this.low), Math.min(first + rows, this.high)];
      first += rows;
      const y = this.y((low + high) / 2);
      if (low >= high || !name || y > free - 14) continue;
      pen.fillText(shortened(name, 22), this.width - this.right + 6, y, this.right - 8);
      free = y;
    }
  }

  // The row and the address at a place in rows.
  at(place) {
    const row = Math.min(Math.max(Math.floor(place), 0), this.panel.rows.length - 1);
    const [from, to] = this.panel.rows[row] ?? [0, 0];
    return { row, page: from + Math.floor((place - row) * (to - from)), from, to };
  }

  // Says in words what the cursor points at.
  tell() {
    if (this.row === null || view.cursor === null || this.panel.rows.length === 0) {
      this.readout.textContent = this.panel.summary;
      return;
    }
    const { row, from, to } = this.at(this.row);
    const share = (view.cursor - data.start) / Math.max(data.end - data.start, 1e-3);
    const column = Math.min(Math.floor(share * this.columns), this.columns - 1);
    const value = this.cells[row * this.columns + column];
    const heat = value === ABSENT ? "not mapped" : value === UNRESOLVED ? "unresolved"
      : `accessed in ${percent(rateOf(value))} of samples`;
    const name = this.names[row] ? ` ${this.names[row]}` : "";
    this.readout.textContent =
      `${clock(view.cursor)}  ${address(from)}-${address(to)}${name}: ${heat}`;
  }

  // Shows some rows, kept within what there is and at least one.
  show(low, high) {
    const rows = this.panel.rows.length;
    const length = Math.min(Math.max(high - low, Math.min(1, rows)), rows);
    this.low = Math.min(Math.max(low, 0), rows - length);
    this.high = this.low + length;
    view.changed();
  }

  zoom(factor, x, y, onlyTime = false) {
    super.zoom(factor, x);
    if (onlyTime) return;
    const around = y === undefined ? this.row ?? (this.low + this.high) / 2 : this.place(y);
    this.show(around - (around - this.low) * factor, around + (this.high - around) * factor);
  }

  place(y) {
    const at = this.high - ((y - 4) / this.plotHeight) * (this.high - this.low);
    return Math.min(Math.max(at, 0), this.panel.rows.length - 1e-6);
  }

  drag(dx, dy) {
    super.drag(dx);
    const rows = (dy / this.plotHeight) * (this.high - this.low);
    this.show(this.low + rows, this.high + rows);
  }

  move(right, up) {
    const length = this.high - this.low;
    const at = (this.row ?? (this.low + this.high) / 2) + (up * length) / 20;
    this.row = Math.min(Math.max(at, 0), this.panel.rows.length - 1e-6);
    if (this.row < this.low) this.show(this.row, this.row + length);
    if (this.row > this.high) this.show(this.row - length, this.row);
    super.move(right);
  }

  reset() {
    this.show(0, this.panel.rows.length);
    super.reset();
  }

  hover(x, y) {
    this.row = this.place(y);
    super.hover(x);
  }
}
