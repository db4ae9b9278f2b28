"use strict";
// Scenes: every frame of every store, and the files and zones at one of them.

const BLOCK = 4096;
const COPY_EVERY = 64;
const LOG_LEVEL = 255;

class Scene {
  constructor(head) {
    this.head = head;
    this.frames = [];
    this.copies = [];
    this.at = -1;
    this.files = new Map();
    this.zones = [];
    // On a drive without zones: runs without data, by their first block.
    this.gaps = new Map();
    this.selected = null;
    this.file = null;
    this.view = { from: 0, to: head.len_blocks };
  }

  add(frame) {
    this.frames.push(frame);
  }

  apply(index) {
    if (index % COPY_EVERY === 0 && this.copies[index / COPY_EVERY] === undefined) {
      this.copies[index / COPY_EVERY] = {
        files: new Map(this.files), zones: this.zones.slice(), gaps: new Map(this.gaps),
      };
    }
    const frame = this.frames[index];
    for (const file of frame.files || []) {
      if (file.is_gone) {
        this.files.delete(file.name);
      } else {
        const known = this.files.get(file.name);
        file.since_ns = known ? known.since_ns : frame.at_ns;
        this.files.set(file.name, file);
      }
    }
    for (const zone of frame.zones || []) this.zones[zone.zone] = zone;
    for (const gap of frame.gaps || []) {
      if (gap.len_blocks) this.gaps.set(gap.start_block, gap); else this.gaps.delete(gap.start_block);
    }
    this.at = index;
  }

  // Goes to the frame `index`, from the nearest copy if that lies behind.
  go(index) {
    index = Math.max(-1, Math.min(index, this.frames.length - 1));
    if (index < this.at) {
      const copy = Math.floor(index / COPY_EVERY);
      const { files, zones, gaps } = this.copies[Math.max(0, copy)];
      this.files = new Map(files);
      this.gaps = new Map(gaps);
      this.zones = zones.slice();
      this.at = Math.max(0, copy) * COPY_EVERY - 1;
    }
    while (this.at < index) this.apply(this.at + 1);
  }

  // The last frame that is not after `at_ns`.
  index_at(at_ns) {
    let low = 0, high = this.frames.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.frames[middle].at_ns <= at_ns) low = middle + 1; else high = middle;
    }
    return low - 1;
  }

  get frame() {
    return this.frames[this.at];
  }

  // The frame that rates are counted from: about a second before, or the one before.
  get earlier() {
    const frame = this.frame;
    let index = this.at - 1;
    while (index > 0 && frame.at_ns - this.frames[index].at_ns < 1e9) index -= 1;
    return index >= 0 ? this.frames[index] : null;
  }
}

// The difference of the totals `part` between two frames. A store that was opened anew begins at zero.
function difference(frame, earlier, part) {
  const result = {};
  for (const [name, value] of Object.entries(frame[part])) {
    if (typeof value !== "number") continue;
    const before = earlier && typeof earlier[part][name] === "number" ? earlier[part][name] : 0;
    result[name] = value >= before ? value - before : value;
  }
  return result;
}

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) { bytes /= 1024; unit += 1; }
  return `${bytes >= 100 || unit === 0 ? Math.round(bytes) : bytes.toPrecision(3)} ${units[unit]}`;
}

function count(number) {
  return Math.round(number).toString().replace(/\B(?=(\d{3})+$)/g, " ");
}

function span(ns) {
  const s = ns / 1e9;
  if (s >= 600) return `${count(s / 60)} min`;
  if (s >= 10) return `${s.toFixed(1)} s`;
  return s >= 0.1 ? `${s.toFixed(2)} s` : `${(s * 1e3).toPrecision(2)} ms`;
}

function part_name(level, scene) {
  if (level === LOG_LEVEL) return "log";
  const base = scene && [...scene.files.values()].some((file) => file.level === level && file.part === "base");
  return base ? "base" : `level ${level}`;
}
