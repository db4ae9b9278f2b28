// The page: events from the server, the time that is shown, and keys.

const scenes = new Map();
const panels = new Map();
const token = new URLSearchParams(location.search).get("token");
let is_live = true;
let is_playing = false;
let shown_ns = 0;
let is_due = false;
let lab = null;
const $ = (id) => document.getElementById(id);

function address(path) {
  return token ? `${path}?token=${encodeURIComponent(token)}` : path;
}

function newest_ns() {
  return Math.max(0, ...[...scenes.values()].filter((s) => s.frames.length).map((s) => s.frames[s.frames.length - 1].at_ns));
}

function oldest_ns() {
  const firsts = [...scenes.values()].filter((scene) => scene.frames.length).map((scene) => scene.frames[0].at_ns);
  return firsts.length ? Math.min(...firsts) : 0;
}

// Draws at most once a screen refresh, however many events come.
function draw_soon() {
  if (is_due) return;
  is_due = true;
  requestAnimationFrame(() => { is_due = false; draw(); });
}

function draw() {
  if (is_live) shown_ns = newest_ns();
  const colour = $("colour").value;
  let has_frame = false;
  for (const [id, scene] of scenes) {
    if (scene.frames.length === 0) continue;
    has_frame = true;
    if (!panels.has(id)) {
      const panel = new Panel(scene, draw_soon);
      panels.set(id, panel);
      $("stores").append(panel.node);
    }
  }
  for (const [id, panel] of panels) {
    const scene = scenes.get(id);
    scene.go(Math.max(0, scene.index_at(shown_ns)));
    panel.draw(colour);
  }
  $("empty").hidden = has_frame;
  const time = $("time");
  time.min = Math.floor(oldest_ns() / 1e6);
  time.max = Math.ceil(newest_ns() / 1e6);
  time.value = Math.round(shown_ns / 1e6);
  $("clock").textContent = span(shown_ns);
  $("live").setAttribute("aria-pressed", is_live);
  $("play").textContent = is_playing ? "stop" : "play";
}

function reset() {
  scenes.clear();
  panels.clear();
  $("stores").replaceChildren();
  is_live = true;
}

function take(line) {
  if (line.head) {
    panels.get(line.head.id)?.node.remove();
    panels.delete(line.head.id);
    scenes.set(line.head.id, new Scene(line.head));
  } else if (line.frame) {
    scenes.get(line.frame.id)?.add(line.frame);
  }
  draw_soon();
}

function connect() {
  const events = new EventSource(address("/events"));
  events.onopen = () => link("connected");
  events.onmessage = (event) => take(JSON.parse(event.data));
  events.addEventListener("begin", (event) => { reset(); begun(JSON.parse(event.data)); });
  events.onerror = () => {
    link("the server is gone; trying again", true);
    // A browser that has given up for good is helped.
    if (events.readyState === EventSource.CLOSED) setTimeout(connect, 2000);
  };
}

function link(text, is_lost) {
  $("link").textContent = text;
  $("link").classList.toggle("lost", !!is_lost);
}

function begun(told) {
  document.title = `${told.title} - Imbrex`;
  // Another run leaves the choices as they are.
  if (told.lab && lab === null) show_lab(told.lab);
}

// The times of all frames of all stores, in order.
function moments() {
  return [...new Set([...scenes.values()].flatMap((scene) => scene.frames.map((frame) => frame.at_ns)))].sort((a, b) => a - b);
}

function step(by) {
  is_live = false;
  const all = moments();
  let index = all.findIndex((at) => at >= shown_ns);
  if (index < 0) index = all.length - 1;
  shown_ns = all[Math.max(0, Math.min(all.length - 1, index + by))] || 0;
  draw_soon();
}

function play() {
  is_playing = !is_playing;
  if (is_playing && shown_ns >= newest_ns()) shown_ns = oldest_ns();
  if (is_playing) is_live = false;
  let last = performance.now();
  // The whole of what was recorded in about half a minute, or as it was if that is shorter.
  const speed = Math.max(1, (newest_ns() - oldest_ns()) / 30e9);
  const tick = (now) => {
    if (!is_playing) return;
    shown_ns = Math.min(newest_ns(), shown_ns + (now - last) * 1e6 * speed);
    last = now;
    if (shown_ns >= newest_ns()) is_playing = false;
    draw();
    requestAnimationFrame(tick);
  };
  requestAnimationFrame(tick);
  draw_soon();
}

function go_live() {
  is_live = true;
  is_playing = false;
  draw_soon();
}

function first() {
  is_live = false;
  is_playing = false;
  shown_ns = oldest_ns();
  draw_soon();
}

function set_theme(theme) {
  document.documentElement.dataset.theme = theme;
  draw_soon();
}

function show_lab(options) {
  lab = options;
  $("lab").hidden = false;
  const boxes = options.layouts.map(({ name, says, is_chosen }) => {
    const box = element("input", { type: "checkbox", name: "layout", value: name });
    box.checked = !!is_chosen;
    return element("label", { title: says }, box, ` ${name}`);
  });
  $("lab-layouts").replaceChildren(element("legend", {}, "layouts (one to four)"), ...boxes);
  const choices = options.choices.map(({ name, says, values, value }) => {
    const select = element("select", { name }, ...values.map((v) => element("option", { value: v }, v)));
    select.value = value;
    return element("label", { title: says }, `${name} `, select);
  });
  $("lab-choices").replaceChildren(...choices);
}

async function ask_lab(path, form) {
  try {
    const reply = await fetch(address(path), { method: "POST", headers: { "X-Imbrex": "1" }, body: new URLSearchParams(form) });
    $("lab-told").textContent = (await reply.text()).trim();
  } catch (error) {
    $("lab-told").textContent = `the server did not answer: ${error.message}`;
  }
}

$("lab-form").addEventListener("submit", (event) => {
  event.preventDefault();
  ask_lab("/lab/start", [...new FormData(event.target)]);
});
$("lab-pause").addEventListener("click", () => ask_lab("/lab/pause", []));
$("lab-cut").addEventListener("click", () => ask_lab("/lab/cut", []));
$("theme").addEventListener("click", () => set_theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
$("colour").addEventListener("change", draw_soon);
$("first").addEventListener("click", first);
$("back").addEventListener("click", () => step(-1));
$("next").addEventListener("click", () => step(1));
$("play").addEventListener("click", play);
$("live").addEventListener("click", go_live);
$("time").addEventListener("input", (event) => { is_live = false; is_playing = false; shown_ns = Number(event.target.value) * 1e6; draw_soon(); });
window.addEventListener("resize", draw_soon);
document.addEventListener("keydown", (event) => {
  if (/INPUT|SELECT|TEXTAREA/.test(event.target.tagName) && event.target.type !== "checkbox") return;
  const keys = { ArrowLeft: () => step(-1), ArrowRight: () => step(1), Home: first, End: go_live, " ": play,
    t: () => $("theme").click() };
  if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
  if (event.key === " " && event.target.tagName === "BUTTON") return;
  keys[event.key]();
  event.preventDefault();
});
set_theme(window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
connect();
