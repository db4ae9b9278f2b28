// The panel of one store: figures, map, where the time goes, jobs, waits, charts, and what was clicked.

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// What a drive's requests serve, with colours.
const ACTIVITIES = [["user", "var(--accent)"], ["log", "var(--log)"], ["flush", "var(--l0)"], ["compaction", "var(--l3)"],
  ["cleaning", "var(--l6)"], ["catalog", "var(--l2)"], ["other", "var(--other)"]];

class Panel {
  constructor(scene, changed) {
    this.scene = scene;
    const { head } = scene;
    const what = { conventional: "conventional", zoned: `${count(head.zone_count)} zones of ${size(head.zone_len_blocks * BLOCK)}`,
      shingled: `raw shingled tracks, a write destroys ${size(head.guard_blocks * BLOCK)} behind it`,
      interlaced: `interlaced tracks of ${size(head.bottom_track_blocks * BLOCK)} and ${size(head.top_track_blocks * BLOCK)}` };
    this.served_title = element("h3", {}, "what that time served");
    this.figures = element("div", { class: "figures" });
    this.canvas = element("canvas", { class: "map" });
    this.legend = element("div", { class: "legend" });
    this.note = element("p", { class: "note", hidden: "" });
    this.time_bar = element("div", { class: "bar", role: "img" });
    this.time_legend = element("div", { class: "legend" });
    this.served_bar = element("div", { class: "bar", role: "img" });
    this.served_legend = element("div", { class: "legend" });
    this.bytes_bar = element("div", { class: "bar", role: "img" });
    this.bytes_legend = element("div", { class: "legend" });
    this.jobs = element("ul", { class: "jobs" });
    this.waits = element("ul", { class: "jobs" });
    this.chart = element("canvas", { class: "chart", role: "img" });
    this.chosen = element("div", { class: "chosen" });
    this.node = element("section", { class: "store", "aria-label": head.name },
      element("div", { class: "row" }, element("h2", {}, head.name),
        element("span", { class: "muted" }, `${size(head.len_blocks * BLOCK)}, ${what[head.rule] || head.rule}${head.below ? `, over ${head.below} tracks` : ""}${head.band_blocks ? ` in ${count(head.len_blocks / head.band_blocks)} bands of ${size(head.band_blocks * BLOCK)}` : ""}`)),
      this.note, this.figures, this.canvas, this.legend,
      element("h3", {}, "the drive's time, last second"), this.time_bar, this.time_legend,
      this.served_title, this.served_bar, this.served_legend,
      element("h3", {}, "bytes to and from the drive, since opening"), this.bytes_bar, this.bytes_legend,
      element("h3", {}, "compaction"), this.jobs,
      element("h3", {}, "writers that waited"), this.waits,
      element("h3", {}, "writes per second, and drive bytes per user byte"), this.chart, this.chosen);
    this.map = new DriveMap(this.canvas, scene, changed);
    // A canvas is drawn for the width that it has.
    new ResizeObserver(changed).observe(this.node);
    this.changed = changed;
  }

  draw(colour) {
    const { scene } = this;
    const frame = scene.frame;
    if (!frame) return;
    const earlier = scene.earlier;
    const seconds = Math.max(1e-9, (frame.at_ns - (earlier ? earlier.at_ns : 0)) / 1e9);
    const drive = difference(frame, earlier, "drive");
    const store = difference(frame, earlier, "store");
    this.draw_figures(frame, drive, store, seconds);
    this.map.draw(colour);
    this.draw_legend(colour);
    this.draw_time(frame, drive, seconds);
    this.draw_served(frame, earlier, drive, seconds);
    this.draw_bytes(frame);
    this.draw_jobs(frame);
    this.draw_waits(frame);
    this.draw_chart();
    this.draw_chosen();
    const note = this.newest_note(frame);
    this.note.hidden = !note;
    this.note.textContent = note;
  }

  // What happened is shown for five seconds.
  newest_note(frame) {
    for (let index = this.scene.at; index >= 0; index -= 1) {
      const { note, at_ns } = this.scene.frames[index];
      if (frame.at_ns - at_ns > 5e9) break;
      if (note) return note;
    }
    return "";
  }

  draw_figures(frame, drive, store, seconds) {
    const { user_bytes, log_bytes } = frame.store;
    const ratio = (bytes) => (user_bytes > 0 ? (bytes / user_bytes).toFixed(2) : "-");
    const occupied = frame.now.live_bytes + frame.now.dead_bytes;
    const written = frame.drive.written_bytes;
    const rows = [
      [`${count(store.user_ops / seconds)}/s`, "writes"],
      [`${size(store.user_bytes / seconds)}/s`, "of the user"],
      [ratio(written - log_bytes), "amplification without log"],
      [ratio(written), "with log"],
      [frame.drive.busy_ns > 0 ? `${Math.min(100, (drive.busy_ns / seconds / 1e7)).toFixed(0)} %` : "-", "drive busy"],
      [size(frame.now.live_bytes), "live"],
      [occupied > 0 ? `${((100 * frame.now.live_bytes) / occupied).toFixed(0)} %` : "-", "live of occupied"],
      [`${frame.now.levels.reduce((sum, level) => sum + level.tables, 0)}`, "tables"],
    ];
    if (frame.ops && frame.ops.count > 0) rows.push([span(frame.ops.p99_ns), "p99 latency"], [span(frame.ops.max_ns), "longest"]);
    this.figures.replaceChildren(...rows.map(([figure, name]) =>
      element("div", {}, element("b", {}, figure), element("span", {}, name))));
  }

  draw_legend(colour) {
    const { scene } = this;
    const swatch = (fill, text) => {
      const mark = element("i");
      mark.style.background = fill;
      return element("span", {}, mark, text);
    };
    const palette = new Palette();
    const marks = [];
    if (colour === "age") {
      marks.push(swatch(palette.age(0), "just written"), swatch(palette.age(0.5), "16 s old"), swatch(palette.age(1), "over 200 s old"));
    } else {
      const levels = new Set([...scene.files.values()].map((file) => file.level || 0));
      for (const level of [...levels].sort((a, b) => a - b)) marks.push(swatch(palette.level(level), part_name(level, scene)));
    }
    marks.push(swatch(palette.dead, "dead"), swatch(palette.unwritten, this.map.is_in_place ? "free" : "not written"));
    const guards = [...scene.gaps.values()].filter((gap) => gap.guard_blocks).length;
    if (scene.head.band_blocks) marks.push(swatch(palette.guard, `guard of ${size(scene.head.band_guard_blocks * BLOCK)} after each band`));
    else if (guards > 0) marks.push(swatch(palette.guard, `${count(guards)} ${guards === 1 ? "guard" : "guards"}`));
    if (this.map.is_in_place && (scene.head.catalog || []).length > 0) marks.push(swatch(palette.catalog, "catalog"));
    const open = scene.zones.filter((zone) => zone && zone.state === "open").length;
    if (scene.head.zone_count) {
      const limit = scene.head.open_zone_count_max;
      marks.push(swatch(palette.live, `${open} open${limit ? ` of ${limit}` : ""}`));
    }
    if (scene.frame.drive.head_block !== undefined) marks.push(swatch(palette.ink, "head"));
    const { view, head } = scene;
    if (view.from > 0 || view.to < head.len_blocks) {
      marks.push(element("b", {}, `zoomed to ${size(view.from * BLOCK)} .. ${size(view.to * BLOCK)}; 0 shows all`));
    } else {
      marks.push(element("span", {}, `a cell is ${size(this.map.blocks_per_cell * BLOCK)}; + and - zoom`));
    }
    this.legend.replaceChildren(...marks);
  }

  bar(bar, legend, parts, total, words) {
    const shown = parts.filter(([, value]) => value > 0);
    bar.replaceChildren(...shown.map(([name, value, fill, more]) => {
      const piece = element("i", { title: `${name}: ${words(value)}${more ? ` (${more})` : ""}` });
      piece.style.width = `${(100 * value) / Math.max(1, total)}%`;
      piece.style.background = fill;
      return piece;
    }));
    bar.setAttribute("aria-label", shown.map(([name, value]) => `${name} ${words(value)}`).join(", ") || "nothing");
    legend.replaceChildren(...shown.map(([name, value, fill]) => {
      const mark = element("i");
      mark.style.background = fill;
      return element("span", {}, mark, `${name} ${words(value)}`);
    }));
  }

  draw_time(frame, drive, seconds) {
    if (!frame.drive.busy_ns) {
      this.time_legend.replaceChildren("the drive has no model of its mechanics, so nobody counts this");
      this.time_bar.hidden = true;
      return;
    }
    this.time_bar.hidden = false;
    const all = Math.max(seconds * 1e9, drive.busy_ns);
    const other = Math.max(0, drive.busy_ns - drive.seek_ns - drive.turn_ns - drive.transfer_ns);
    this.bar(this.time_bar, this.time_legend, [
      ["seek", drive.seek_ns, "var(--seek)"], ["turn", drive.turn_ns, "var(--turn)"],
      ["transfer", drive.transfer_ns, "var(--transfer)"], ["electronics", other, "var(--other)"],
      ["idle", Math.max(0, all - drive.busy_ns), "var(--idle)"],
    ], all, (ns) => `${((100 * ns) / all).toFixed(0)} %`);
  }

  // The same time by what the requests served. A modelled drive whose requests name nothing has one piece.
  draw_served(frame, earlier, drive, seconds) {
    const is_known = frame.drive.busy_ns > 0 && frame.drive.activities !== undefined;
    for (const part of [this.served_title, this.served_bar, this.served_legend]) part.hidden = !is_known;
    if (!is_known) return;
    const all = Math.max(seconds * 1e9, drive.busy_ns);
    const percent = (ns) => `${((100 * ns) / all).toFixed(0)} %`;
    const parts = ACTIVITIES.map(([name, fill]) => {
      const now = frame.drive.activities[name] || {}, old = (earlier && (earlier.drive.activities || {})[name]) || {};
      const spent = (what) => Math.max(0, (now[what] || 0) - (old[what] || 0));
      const head = ["seek", "turn", "transfer"].map((what) => `${what} ${percent(spent(`${what}_ns`))}`).join(", ");
      return [name === "user" ? "user reads" : name, spent("busy_ns"), fill, head];
    });
    parts.push(["idle", Math.max(0, all - drive.busy_ns), "var(--idle)"]);
    this.bar(this.served_bar, this.served_legend, parts, all, percent);
  }

  draw_bytes(frame) {
    const parts = ACTIVITIES.flatMap(([name, fill]) => {
      const own = (frame.drive.activities || {})[name] || {};
      const [read, written] = [own.read_bytes || 0, own.written_bytes || 0];
      if (name === "compaction") return [["compaction reads", read, "var(--l4)"], ["compaction writes", written, fill]];
      return [[name === "user" ? "user reads" : name, read + written, fill]];
    });
    this.bar(this.bytes_bar, this.bytes_legend, parts, parts.reduce((sum, part) => sum + part[1], 0), size);
  }

  draw_jobs(frame) {
    const lines = frame.now.running.map((job) =>
      element("li", {}, element("progress", { max: Math.max(1, job.len_bytes), value: job.done_bytes }),
        `${size(job.done_bytes)} of ${size(job.len_bytes)}: ${short_plan(job.plan)}`));
    if (lines.length === 0) lines.push(element("li", { class: "muted" }, "none runs"));
    if (frame.now.next) lines.push(element("li", {}, `next: ${short_plan(frame.now.next)}`));
    if (frame.now.base_merge_waits) lines.push(element("li", {}, `the base merge waits for ${frame.now.base_merge_waits}`));
    const ended = [];
    for (let index = this.scene.at; index >= 0 && ended.length < 3; index -= 1) {
      for (const line of (this.scene.frames[index].ended || []).slice().reverse()) ended.push(line);
    }
    for (const line of ended.slice(0, 3)) {
      lines.push(element("li", { class: "muted" }, `ended after ${span(line.end_ns - line.start_ns)}: ${short_plan(line.plan)}, ${size(line.read_bytes)} read, ${size(line.written_bytes)} written`));
    }
    this.jobs.replaceChildren(...lines);
  }

  draw_waits(frame) {
    const causes = [["stopped", "for a flush, a compaction or space"], ["slowed", "at the pace of compaction"], ["offload", "for the flash drive"]];
    const lines = causes.filter(([name]) => frame.store[name].count > 0)
      .map(([name, why]) => element("li", {}, `${frame.store[name].count === 1 ? "once" : `${count(frame.store[name].count)} times`} ${why}, ${span(frame.store[name].total_ns)} together`));
    if (lines.length === 0) lines.push(element("li", { class: "muted" }, "none"));
    this.waits.replaceChildren(...lines);
  }

  draw_chart() {
    const { scene, chart } = this;
    const width = Math.max(200, chart.clientWidth), height = 96;
    const ratio = window.devicePixelRatio || 1;
    chart.width = width * ratio;
    chart.height = height * ratio;
    chart.style.height = `${height}px`;
    const g = chart.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    const palette = new Palette();
    const frames = scene.frames;
    const first = frames[0].at_ns, last = Math.max(first + 1, frames[frames.length - 1].at_ns);
    const step = Math.max(1, Math.floor(frames.length / 300));
    const rates = [], ratios = [];
    for (let index = step; index < frames.length; index += step) {
      const [a, b] = [frames[index - step], frames[index]];
      const ops = difference(b, a, "store").user_ops, s = (b.at_ns - a.at_ns) / 1e9;
      if (s > 0) rates.push([b.at_ns, ops / s]);
      if (b.store.user_bytes > 0) ratios.push([b.at_ns, b.drive.written_bytes / b.store.user_bytes]);
    }
    g.font = "11px system-ui, sans-serif";
    const line = (points, colour, words, right) => {
      const top = Math.max(1e-9, ...points.map((point) => point[1]));
      g.strokeStyle = colour;
      g.lineWidth = 1.5;
      g.beginPath();
      points.forEach(([at, value], index) => {
        const x = ((at - first) / (last - first)) * width, y = height - 4 - (value / top) * (height - 22);
        if (index === 0) g.moveTo(x, y); else g.lineTo(x, y);
      });
      g.stroke();
      g.fillStyle = colour;
      g.textAlign = right ? "right" : "left";
      if (points.length > 0) g.fillText(words(top), right ? width - 2 : 2, 11);
    };
    line(rates, palette.accent, (top) => `writes/s, up to ${count(top)}`, false);
    line(ratios, palette.levels[1], (top) => `bytes per byte, up to ${top.toFixed(1)}`, true);
    g.strokeStyle = palette.ink;
    g.globalAlpha = 0.5;
    const x = ((scene.frame.at_ns - first) / (last - first)) * width;
    g.beginPath();
    g.moveTo(x, 14);
    g.lineTo(x, height);
    g.stroke();
    g.globalAlpha = 1;
    g.fillStyle = palette.danger;
    for (const frame of frames) {
      if (frame.note) g.fillRect(((frame.at_ns - first) / (last - first)) * width - 1, 14, 2, height - 14);
    }
    chart.setAttribute("aria-label", `${rates.length} points over ${span(last - first)}`);
  }

  draw_chosen() {
    const { scene } = this;
    if (scene.selected === null) {
      this.chosen.replaceChildren(element("p", { class: "muted" }, "Click a cell of the map to see its files."));
      return;
    }
    const [from, to] = [scene.selected, scene.selected + scene.selected_len];
    const files = [...scene.files.values()].filter((file) => !file.is_on_flash &&
      (file.extents || []).some(([start, len]) => start < to && from < start + len));
    const cell = this.map.cells[this.map.index_of(from)];
    const title = element("h3", {}, cell ? this.map.words(cell).split("\n").join(", ") : "outside the zoomed part");
    if (files.length === 0) {
      this.chosen.replaceChildren(title, element("p", { class: "muted" }, "No live file lies here."));
      return;
    }
    const rows = files.slice(0, 200).map((file) => {
      const row = element("tr", { class: file.name === scene.file ? "file on" : "file", tabindex: "0" },
        ...[file.name, file.part, size(file.len_bytes || 0), file.entries ? count(file.entries) : "",
          file.first_key !== undefined ? `${file.first_key} .. ${file.last_key}` : ""].map((text) => element("td", {}, text)));
      const choose = () => { scene.file = scene.file === file.name ? null : file.name; this.changed(); };
      row.addEventListener("click", choose);
      row.addEventListener("keydown", (event) => { if (event.key === "Enter") choose(); });
      return row;
    });
    const header = element("tr", {}, ...["file", "part", "length", "entries", "keys"].map((text) => element("th", {}, text)));
    const more = files.length > 200 ? element("p", { class: "muted" }, `and ${files.length - 200} more`) : null;
    this.chosen.replaceChildren(...[title, element("div", { class: "wide" }, element("table", {}, header, ...rows)), more].filter(Boolean));
  }
}

// A plan with its tables counted by level, and its reason: `merge 14 runs of L0, 20 tables of L1 -> L1: too long`.
function short_plan(plan) {
  const levels = new Map();
  const rest = plan.replace(/ (L\d+)\[([^\]]*)\]/g, (all, level, tables) => {
    const known = levels.get(level) || { runs: 0, tables: 0 };
    levels.set(level, { runs: known.runs + 1, tables: known.tables + tables.split(" ").length });
    return "";
  });
  const inputs = [...levels].map(([level, { runs, tables }]) =>
    `${tables} ${tables === 1 ? "table" : "tables"} of ${level}${runs > 1 ? ` in ${runs} runs` : ""}`).join(", ");
  return rest.replace(/^(\w+)/, `$1 ${inputs}`).replace(/ until \S+/, "")
    .replace(/(\d{5,}) bytes/, (all, bytes) => size(Number(bytes)));
}
