// The map of a drive: blocks from the outer edge on, row by row. Each cell is a zone or a band, several of them, or a
// piece. Where what is free is known, a cell shows its content in place: data, what is dead, what is free, guards.

const AGE_STEPS = 8;

function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

class Palette {
  constructor() {
    this.levels = [0, 1, 2, 3, 4, 5, 6].map((level) => css(`--l${level}`));
    for (const name of ["log", "dead", "unwritten", "ink", "muted", "live", "card", "accent", "danger", "line", "guard", "catalog"]) {
      this[name] = css(`--${name}`);
    }
  }

  level(level) {
    return level === LOG_LEVEL ? this.log : this.levels[Math.min(level, 6)];
  }

  // Young files are warm, old ones cold.
  age(share) {
    return this.levels[Math.min(6, Math.floor(share * 7))];
  }
}

class DriveMap {
  constructor(canvas, scene, changed) {
    Object.assign(this, { canvas, scene, changed, cells: [], trail: [] });
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "img");
    canvas.addEventListener("mousemove", (event) => this.hover(event));
    canvas.addEventListener("mouseleave", () => show_tip(null));
    canvas.addEventListener("click", (event) => this.select(this.cell_at(event)));
    canvas.addEventListener("dblclick", () => this.zoom(0));
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 2 : 0.5, this.cell_at(event));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  // Lays out the cells for the canvas as wide as it is now.
  layout() {
    const { head, view } = this.scene;
    const width = Math.max(200, this.canvas.clientWidth);
    // Interlaced tracks come in pairs, one lane each.
    const pair = head.bottom_track_blocks + head.top_track_blocks;
    this.lanes = head.bottom_track_blocks ? 2 : 1;
    this.is_in_place = !head.zone_len_blocks && this.lanes === 1 && this.scene.gaps.size > 0;
    this.gap = 1;
    if (this.is_in_place && !head.band_blocks) {
      this.lay_strips(width);
      return;
    }
    const unit = head.zone_len_blocks || head.band_blocks || pair || Math.max(1, Math.ceil(head.len_blocks / 4096));
    const units = Math.ceil((view.to - view.from) / unit);
    // As many cells as fit at a readable size into a map of at most 320 pixels.
    let best = null;
    const large = head.band_blocks ? [[150, 44]] : [];
    for (const [w, h] of [...large, [64, 26], [40, 22], [26, 18], [17, 15], [12, 12], [9, 9], [6, 8]]) {
      const columns = Math.floor(width / w);
      const rows = Math.ceil(units / columns);
      best = { w: width / columns, h: this.lanes === 2 ? h * 1.4 : h, columns, per_cell: 1, rows };
      if (rows * best.h <= 320) break;
    }
    const rows_max = Math.floor(320 / best.h);
    if (best.rows > rows_max) {
      best.per_cell = Math.ceil(units / (rows_max * best.columns));
      best.rows = Math.ceil(units / best.per_cell / best.columns);
    }
    this.grid = best;
    this.gap = best.w > 14 ? 2 : 1;
    this.blocks_per_cell = best.per_cell * unit;
    this.size_canvas(width);
  }

  // Bands of any length: the drive is one strip, in rows without gaps.
  lay_strips(width) {
    const { view } = this.scene;
    const columns = Math.floor(width / 12), rows_max = 14;
    this.blocks_per_cell = Math.max(1, Math.ceil((view.to - view.from) / (columns * rows_max)));
    const cells = Math.ceil((view.to - view.from) / this.blocks_per_cell);
    this.grid = { w: width / columns, h: 22, columns, per_cell: 1, rows: Math.ceil(cells / columns) };
    this.gap = 0;
    this.size_canvas(width);
  }

  size_canvas(width) {
    this.height = Math.max(24, this.grid.rows * this.grid.h + 8);
    const ratio = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(this.height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(this.height * ratio);
      this.canvas.style.height = `${this.height}px`;
    }
  }

  // Counts live and written blocks by cell.
  fill(colour) {
    const { scene, blocks_per_cell: per } = this;
    const { from, to } = scene.view;
    const cells = [];
    for (let start = from; start < to; start += per) {
      cells.push({ start, len: Math.min(per, to - start), parts: [new Map(), new Map()], live: 0, written: 0, free: 0, guard: 0, open: 0, worst: "" });
    }
    const now = scene.frame ? scene.frame.at_ns : 0;
    for (const file of scene.files.values()) {
      if (file.is_on_flash) continue;
      const age = this.age(file, now);
      const key = colour === "age" && file.level !== LOG_LEVEL ? `age ${age.toFixed(1)}` : file.level || 0;
      for (const [start, len] of file.extents || []) this.add_extent(cells, key, start, start + len);
    }
    const zone_len = scene.head.zone_len_blocks;
    if (zone_len) {
      for (const zone of scene.zones) {
        if (!zone) continue;
        const cell = cells[Math.floor((zone.zone * zone_len - from) / per)];
        if (!cell || zone.zone * zone_len < from) continue;
        cell.written += zone.written_blocks || 0;
        if (zone.state === "open") cell.open += 1;
        if (zone.state === "read_only" || zone.state === "offline") cell.worst = zone.state;
        if (zone.state === "conventional") cell.is_conventional = true;
      }
    }
    this.cells = cells;
    if (this.is_in_place) this.fill_gaps();
    for (const cell of cells) cell.written = Math.max(cell.written, cell.live);
  }

  // What is neither free nor the catalog's is written.
  fill_gaps() {
    for (const cell of this.cells) cell.written = cell.len;
    for (const [start, len] of this.scene.head.catalog || []) {
      this.each_part(start, start + len, (cell, from, to) => { cell.written -= to - from; cell.catalog = true; });
    }
    for (const gap of this.scene.gaps.values()) {
      const end = gap.start_block + gap.len_blocks, guard = end - (gap.guard_blocks || 0);
      this.each_part(gap.start_block, end, (cell, from, to) => {
        cell.written -= to - from;
        cell.free += Math.max(0, Math.min(to, guard) - from);
        cell.guard += Math.max(0, to - Math.max(from, guard));
      });
    }
  }

  // Calls `part(cell, start, end, index)` for the part of a range in each cell.
  each_part(start, end, part) {
    const { view } = this.scene;
    const per = this.blocks_per_cell;
    let at = Math.max(start, view.from);
    const last = Math.min(end, view.to);
    while (at < last) {
      const index = Math.floor((at - view.from) / per);
      const stop = Math.min(last, view.from + (index + 1) * per);
      if (this.cells[index]) part(this.cells[index], at, stop, index);
      at = stop;
    }
  }

  add_extent(cells, key, start, end) {
    const { view, head } = this.scene;
    const per = this.blocks_per_cell;
    let at = Math.max(start, view.from);
    const last = Math.min(end, view.to);
    while (at < last) {
      const index = Math.floor((at - view.from) / per);
      let stop = Math.min(last, view.from + (index + 1) * per);
      let lane = 0;
      if (this.lanes === 2) {
        const pair = head.bottom_track_blocks + head.top_track_blocks;
        const into = at % pair;
        lane = into < head.bottom_track_blocks ? 0 : 1;
        stop = Math.min(stop, at - into + (lane === 0 ? head.bottom_track_blocks : pair));
      }
      const cell = cells[index];
      if (cell) {
        cell.parts[lane].set(key, (cell.parts[lane].get(key) || 0) + stop - at);
        cell.live += stop - at;
      }
      at = stop;
    }
  }

  draw(colour) {
    this.layout();
    this.fill(colour);
    const ratio = window.devicePixelRatio || 1;
    const g = this.canvas.getContext("2d");
    const palette = new Palette();
    const { w, h, columns } = this.grid;
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, this.canvas.width, this.canvas.height);
    const gap = this.gap;
    if (this.is_in_place) {
      this.draw_in_place(g, palette, colour);
    } else {
      this.cells.forEach((cell, index) => {
        const x = (index % columns) * w, y = Math.floor(index / columns) * h;
        this.draw_cell(g, palette, cell, x, y, w - gap, h - gap);
      });
    }
    this.draw_file(g, palette);
    this.draw_head(g, palette);
    if (this.scene.selected !== null) {
      const index = this.index_of(this.scene.selected);
      if (this.cells[index]) {
        g.strokeStyle = palette.ink;
        g.lineWidth = 2;
        g.strokeRect((index % columns) * w, Math.floor(index / columns) * h, w - gap, h - Math.max(gap, 2));
      }
    }
    const live = this.cells.reduce((sum, cell) => sum + cell.live, 0);
    this.canvas.setAttribute("aria-label",
      `map of the drive: ${this.cells.length} cells of ${size(this.blocks_per_cell * BLOCK)}, ${size(live * BLOCK)} live`);
  }

  // Everything at its place: dead first, then what is free, guards, the catalog, and files.
  draw_in_place(g, palette, colour) {
    const { w, h, columns } = this.grid;
    const { scene } = this;
    const bands = this.bands_per_cell();
    const box = (index) => [(index % columns) * w, Math.floor(index / columns) * h, w - this.gap, h - (bands ? this.gap : 4)];
    const paint = (start, end, fill, least, inset = 0) => this.each_part(start, end, (cell, from, to, index) => {
      const [x, y, cw, ch] = box(index);
      const left = this.place(cell, from) * cw, right = this.place(cell, to, true) * cw;
      g.fillStyle = fill;
      g.fillRect(x + left, y + inset, Math.min(Math.max(least, right - left), cw - left), ch - inset);
    });
    paint(scene.view.from, scene.view.to, palette.dead, 0);
    for (const gap of scene.gaps.values()) {
      const end = gap.start_block + gap.len_blocks;
      paint(gap.start_block, end, palette.unwritten, 0);
      if (gap.guard_blocks) paint(end - gap.guard_blocks, end, palette.guard, 0.7);
    }
    for (const [start, len] of scene.head.catalog || []) paint(start, start + len, palette.catalog, 0);
    const now = scene.frame ? scene.frame.at_ns : 0;
    for (const file of scene.files.values()) {
      if (file.is_on_flash) continue;
      const fill = colour === "age" && file.level !== LOG_LEVEL ? palette.age(this.age(file, now)) : palette.level(file.level || 0);
      for (const [start, len] of file.extents || []) paint(start, start + len, fill, 0.4, bands ? 0 : 3);
    }
    if (bands) {
      this.draw_band_guards(g, palette, box, bands);
    } else {
      // A line over each band: data without a guard in between.
      for (const [start, end] of this.runs_of_data()) {
        this.each_part(start, end, (cell, from, to, index) => {
          const [x, y, cw] = box(index);
          const left = this.place(cell, from) * cw, right = this.place(cell, to, true) * cw;
          g.fillStyle = palette.muted;
          g.fillRect(x + left + (from === start ? 1 : 0), y, Math.max(0.4, right - left - (to === end ? 1 : 0)), 2);
        });
      }
    }
  }

  // The runs between gaps, which are the bands on raw shingled tracks.
  runs_of_data() {
    const { scene } = this;
    const runs = [];
    let at = 0;
    for (const gap of [...scene.gaps.values()].sort((a, b) => a.start_block - b.start_block)) {
      if (gap.start_block > at) runs.push([at, gap.start_block]);
      at = gap.start_block + gap.len_blocks;
    }
    if (at < scene.head.len_blocks) runs.push([at, scene.head.len_blocks]);
    return runs;
  }

  // How many fixed bands a cell shows with their guards; 0 if they are too many or there are none.
  bands_per_cell() {
    const { band_blocks: band } = this.scene.head;
    const count = band ? Math.round(this.blocks_per_cell / band) : 0;
    return count > 0 && this.grid.w / count >= 5 ? count : 0;
  }

  // Where a block is in its cell, from 0 to 1. Between fixed bands there are guards, which have no blocks of the layer.
  place(cell, block, is_end) {
    const { band_blocks: band, band_guard_blocks: guard } = this.scene.head;
    const into = block - cell.start;
    const bands = this.bands_per_cell();
    if (!bands) return into / this.blocks_per_cell;
    const before = Math.floor((is_end ? Math.max(0, into - 1) : into) / band);
    return (into + before * guard) / (bands * (band + guard));
  }

  draw_band_guards(g, palette, box, bands) {
    const { band_blocks: band, band_guard_blocks: guard } = this.scene.head;
    const share = guard / (bands * (band + guard));
    this.cells.forEach((cell, index) => {
      const [x, y, cw, ch] = box(index);
      for (let at = 1; at <= Math.ceil(cell.len / band); at += 1) {
        g.fillStyle = palette.guard;
        const width = Math.max(1, share * cw);
        g.fillRect(x + (at / bands) * cw - width, y, width, ch);
      }
    });
  }

  age(file, now) {
    return Math.min(0.999, Math.log2(1 + (now - file.since_ns) / 1e9) / AGE_STEPS);
  }

  draw_cell(g, palette, cell, x, y, w, h) {
    const lanes = this.lanes;
    for (let lane = 0; lane < lanes; lane += 1) {
      // Top tracks are drawn above the bottom tracks that they overlap, and narrower.
      const top = lanes === 2 && lane === 1;
      const lx = top ? x + w * 0.1 : x, lw = top ? w * 0.8 : w;
      const lh = lanes === 2 ? h / 2 - 1 : h, ly = lanes === 2 ? (top ? y : y + h / 2) : y;
      g.fillStyle = palette.unwritten;
      g.fillRect(lx, ly, lw, lh);
      const capacity = this.lane_len(cell, lane);
      const scale = lw / Math.max(1, capacity);
      let at = lx;
      const parts = [...cell.parts[lane]].sort((a, b) => (`${a[0]}` < `${b[0]}` ? -1 : 1));
      for (const [key, blocks] of parts) {
        const width = Math.max(0.5, blocks * scale);
        g.fillStyle = typeof key === "string" ? palette.age(Number(key.slice(4))) : palette.level(key);
        g.fillRect(at, ly, Math.min(width, lx + lw - at), lh);
        at += width;
      }
      if (lanes === 1 && cell.written > cell.live) {
        g.fillStyle = palette.dead;
        g.fillRect(at, ly, Math.max(0, Math.min((cell.written - cell.live) * scale, lx + lw - at)), lh);
      }
    }
    if (cell.open > 0) {
      g.strokeStyle = palette.live;
      g.lineWidth = 1.5;
      g.strokeRect(x + 0.75, y + 0.75, w - 1.5, h - 1.5);
    } else if (cell.worst) {
      g.strokeStyle = palette.danger;
      g.lineWidth = 2;
      g.strokeRect(x + 1, y + 1, w - 2, h - 2);
    }
  }

  lane_len(cell, lane) {
    const { bottom_track_blocks: bottom, top_track_blocks: top } = this.scene.head;
    if (this.lanes === 1) return cell.len;
    return (cell.len * (lane === 0 ? bottom : top)) / (bottom + top);
  }

  // The cells of the chosen file have a line below.
  draw_file(g, palette) {
    const file = this.scene.file && this.scene.files.get(this.scene.file);
    if (!file) return;
    const { w, h, columns } = this.grid;
    g.fillStyle = palette.ink;
    for (const [start, len] of file.extents || []) {
      for (let at = start; at < start + len; at += this.blocks_per_cell) {
        const index = this.index_of(at);
        if (this.cells[index]) g.fillRect((index % columns) * w, Math.floor(index / columns) * h + h - 4, w - this.gap, 3);
      }
    }
  }

  draw_head(g, palette) {
    const { scene } = this;
    const { w, h, columns } = this.grid;
    for (let back = 12; back >= 0; back -= 1) {
      const frame = scene.frames[scene.at - back];
      const block = frame && frame.drive.head_block;
      if (block === undefined || block === null) continue;
      const index = this.index_of(block);
      if (!this.cells[index]) continue;
      const x = (index % columns) * w + w / 2, y = Math.floor(index / columns) * h + h / 2;
      g.globalAlpha = back === 0 ? 1 : 0.35 * (1 - back / 13);
      g.fillStyle = palette.ink;
      g.beginPath();
      g.arc(x, y, back === 0 ? 4 : 2.5, 0, 7);
      g.fill();
      if (back === 0) {
        g.fillStyle = palette.card;
        g.beginPath();
        g.arc(x, y, 1.8, 0, 7);
        g.fill();
      }
    }
    g.globalAlpha = 1;
  }

  index_of(block) {
    return Math.floor((block - this.scene.view.from) / this.blocks_per_cell);
  }

  cell_at(event) {
    const box = this.canvas.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / this.grid.w);
    const row = Math.floor((event.clientY - box.top) / this.grid.h);
    return column < this.grid.columns ? this.cells[row * this.grid.columns + column] : undefined;
  }

  words(cell) {
    const { head } = this.scene;
    const zone_len = head.zone_len_blocks;
    const first = zone_len ? Math.floor(cell.start / zone_len) : 0;
    const zones = zone_len ? Math.ceil(cell.len / zone_len) : 0;
    const name = zone_len
      ? zones === 1 ? `zone ${first}` : `zones ${first} to ${first + zones - 1}`
      : this.piece_name(cell);
    const place = `${((100 * cell.start) / head.len_blocks).toFixed(1)} % of the way inward`;
    const lines = [name, place, `${size(cell.written * BLOCK)} written, ${size(cell.live * BLOCK)} live`];
    if (this.is_in_place) {
      const rest = [[cell.written - cell.live, "dead"], [cell.free, "free"], [cell.guard, "guard"]].filter(([blocks]) => blocks > 0);
      if (rest.length > 0) lines.push(rest.map(([blocks, what]) => `${size(blocks * BLOCK)} ${what}`).join(", "));
      if (cell.catalog) lines.push("the catalog");
    }
    const zone = zones === 1 && this.scene.zones[first];
    if (zone) lines.push(zone.state.replace("_", "-"));
    cell.parts.forEach((parts, lane) => {
      for (const [key, blocks] of parts) {
        const where = this.lanes === 2 ? (lane === 0 ? " on bottom tracks" : " on top tracks") : "";
        const part = typeof key === "string" ? key : part_name(key, this.scene);
        lines.push(`${part}: ${size(blocks * BLOCK)}${where}`);
      }
    });
    return lines.join("\n");
  }

  piece_name(cell) {
    const { band_blocks: band } = this.scene.head;
    if (!band) return `${size(cell.start * BLOCK)} to ${size((cell.start + cell.len) * BLOCK)}`;
    const first = Math.floor(cell.start / band), count = Math.ceil(cell.len / band);
    return count === 1 ? `band ${first}` : `bands ${first} to ${first + count - 1}`;
  }

  hover(event) {
    const cell = this.cell_at(event);
    show_tip(cell ? this.words(cell) : null, event);
  }

  select(cell) {
    if (!cell) return;
    this.scene.selected = cell.start;
    this.scene.selected_len = cell.len;
    this.changed();
  }

  zoom(factor, cell) {
    const { scene } = this;
    const { head, view } = scene;
    const unit = head.zone_len_blocks || head.band_blocks || 1;
    if (factor === 0) {
      scene.view = { from: 0, to: head.len_blocks };
    } else {
      const middle = cell ? cell.start : (view.from + view.to) / 2;
      const len = Math.min(head.len_blocks, Math.max(unit * 4, (view.to - view.from) / factor));
      let from = Math.max(0, Math.min(middle - len / 2, head.len_blocks - len));
      from = Math.floor(from / unit) * unit;
      scene.view = { from, to: Math.min(head.len_blocks, from + Math.ceil(len / unit) * unit) };
    }
    this.changed();
  }

  key(event) {
    const step = { ArrowUp: -this.grid.columns, ArrowDown: this.grid.columns, ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "+" || event.key === "-") {
      this.zoom(event.key === "+" ? 2 : 0.5, this.cells[this.index_of(this.scene.selected || 0)]);
    } else if (event.key === "0") {
      this.zoom(0);
    } else if (step !== undefined) {
      const index = this.scene.selected === null ? 0 : this.index_of(this.scene.selected) + step;
      this.select(this.cells[index]);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }
}

function show_tip(text, event) {
  const tip = document.getElementById("tip");
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const x = Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8);
  const y = Math.min(event.clientY + 14, window.innerHeight - tip.offsetHeight - 8);
  tip.style.left = `${Math.max(4, x)}px`;
  tip.style.top = `${Math.max(4, y)}px`;
}
