"use strict";
// The data of the page, and how numbers are written for people. The Rust side (html/document.rs)
// defines the data. All of it is foreign text: it comes into the page by textContent only.

const data = JSON.parse(document.getElementById("data").textContent);

// Bytes that Rust has packed: base64 of a zlib stream.
async function unpacked(text) {
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Three digits, as the text reports have them.
function digits(x) {
  if (x === 0) return "0";
  return x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2);
}

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let nr = 0;
  while (bytes >= 1024 && nr < units.length - 1) {
    bytes /= 1024;
    nr += 1;
  }
  return `${nr === 0 ? bytes : digits(bytes)} ${units[nr]}`;
}

function percent(share) {
  return `${(share * 100).toFixed(1)} %`;
}

// A time since the start. `step`: the distance of the marks, which says how fine it has to be.
function clock(seconds, step = 0.01) {
  const places = step >= 1 ? 0 : step >= 0.1 ? 1 : 2;
  if (seconds < 60) return `${seconds.toFixed(places)} s`;
  const h = Math.floor(seconds / 3600);
  const m = Math.floor((seconds % 3600) / 60);
  const s = (seconds % 60).toFixed(places).padStart(places ? places + 3 : 2, "0");
  return h > 0 ? `${h}:${String(m).padStart(2, "0")}:${s}` : `${m}:${s}`;
}

// An address from a number of pages; numbers above 2^53 bytes would not be exact.
function address(page) {
  return `0x${(BigInt(Math.floor(page)) * 4096n).toString(16)}`;
}

function shortened(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}\u2026` : text;
}

// An element with a class, a text and children.
function element(name, { text, cls, children = [], ...rest } = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (cls) made.className = cls;
  for (const [key, value] of Object.entries(rest)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// A colour of the present theme.
function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
