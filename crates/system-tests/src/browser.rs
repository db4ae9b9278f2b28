//! The page of `imbrex serve http` and `imbrex lab` in a browser: headless Chromium, by WebDriver.
//!
//! ```text
//!   imbrex bench --record --> a recording, of which the server gets the first half, then the rest
//!   imbrex serve http     --> the page  <-- Chromium <-- chromedriver <-- this test
//!       updates while the recording grows; a click on the map, on a file; back in time; both themes, two widths;
//!       the server is killed and comes back
//!   imbrex lab            --> three layouts run; the power is cut; another run begins
//! ```
//!
//! The page itself says when a condition holds, so nothing here waits for a time.

use crate::cargo;
use crate::packages::{self, Need};
use crate::program::said;
use crate::scratch::Scratch;
use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const NEEDS: [Need; 2] =
    [("/usr/bin/chromium", "chromium"), ("/usr/bin/chromedriver", "chromium-driver")];

/// Arguments of `cargo xtask browser`.
#[derive(clap::Args, Debug, Default)]
pub struct BrowserArgs {
    /// Also write screenshots to this directory
    #[arg(long, value_name = "DIR")]
    shots: Option<PathBuf>,
}

/// Tests both pages; `may_skip` decides whether a missing browser ends the run.
pub fn run(root: &Path, may_skip: bool, args: &BrowserArgs) -> Result<()> {
    if !packages::provide(&NEEDS, "the page in a browser was not tested", may_skip)? {
        return Ok(());
    }
    cargo::build(root)?;
    let imbrex = cargo::imbrex(root);
    let scratch = Scratch::new(root, "browser")?;
    if let Some(dir) = &args.shots {
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    let browser = Browser::start(args.shots.clone())?;
    watched_recording(&imbrex, scratch.path(), &browser).context("the page of a recording")?;
    laboratory(&imbrex, &browser).context("the laboratory")
}

fn watched_recording(imbrex: &Path, dir: &Path, browser: &Browser) -> Result<()> {
    let whole = dir.join("whole");
    let bench = ["bench", "--benchmarks", "fillrandom,overwrite", "--num", "40000"];
    let shape = ["--value_size", "4080", "--capacity", "512MiB", "--zone-len", "4MiB"];
    let layouts = ["--layout", "imbrex-zones,leveled-zones", "--record"];
    said(Command::new(imbrex).args(bench).args(shape).args(layouts).arg(&whole))?;
    let text = std::fs::read_to_string(&whole)?;
    let lines: Vec<&str> = text.lines().collect();
    let (first, rest) = lines.split_at(lines.len() / 4);
    let grows = dir.join("grows");
    std::fs::write(&grows, first.join("\n") + "\n")?;

    let serve = |listen: &str| {
        Server::start(
            imbrex,
            &["serve", "http"],
            &[&grows.display().to_string(), "--listen", listen],
        )
    };
    let server = serve("127.0.0.1:0")?;
    browser.open(&server.url)?;
    browser.wait(&format!("frames() === {}", first.len() - heads(first)), "the first frames")?;
    // What comes is shown.
    let mut file = std::fs::File::options().append(true).open(&grows)?;
    std::io::Write::write_all(&mut file, (rest.join("\n") + "\n").as_bytes())?;
    browser.wait(&format!("frames() === {}", lines.len() - heads(&lines)), "the other frames")?;
    browser.wait("scenes.size === 2 && panels.size === 2", "a panel for each store")?;
    browser.shot("page-light")?;

    clicks(browser)?;
    back_in_time(browser)?;
    themes_and_widths(browser)?;

    // The server goes, the page says so; it comes back, the page goes on.
    let address = server.url.trim_start_matches("http://").trim_end_matches('/').to_owned();
    drop(server);
    browser.wait("document.getElementById('link').classList.contains('lost')", "the loss")?;
    let _server = serve(&address)?;
    browser.wait("document.getElementById('link').textContent === 'connected'", "the return")?;
    browser.wait(&format!("frames() === {}", lines.len() - heads(&lines)), "all frames again")?;
    browser.check_console()
}

fn clicks(browser: &Browser) -> Result<()> {
    // A click on the map shows files, and a click on a file its cells.
    let spot = browser.run(
        "const scene = scenes.get(0), map = panels.get(0).map;
         const index = map.cells.findIndex((cell) => cell.parts[0].has(1) || cell.parts[0].has(6));
         map.canvas.scrollIntoView({ block: 'center' });
         const box = map.canvas.getBoundingClientRect(), { w, h, columns } = map.grid;
         return [box.left + (index % columns + 0.5) * w, box.top + (Math.floor(index / columns) + 0.5) * h];",
    )?;
    browser.click(&spot)?;
    browser
        .wait("document.querySelectorAll('.chosen tr.file').length > 0", "the files of a cell")?;
    let row = browser.run(
        "const row = document.querySelector('.chosen tr.file');
         row.scrollIntoView({ block: 'center' });
         const box = row.getBoundingClientRect();
         return [box.left + 20, box.top + box.height / 2];",
    )?;
    browser.click(&row)?;
    browser.wait("scenes.get(0).file !== null", "the clicked file")?;
    browser.shot("page-file")
}

fn back_in_time(browser: &Browser) -> Result<()> {
    // Back in time, and to the newest again.
    browser.key("\u{e011}")?;
    browser.wait("!is_live && scenes.get(0).at === 0", "the first frame")?;
    browser.wait("scenes.get(0).files.size < 5", "the files of the first frame")?;
    browser.key("\u{e014}")?;
    browser.wait("shown_ns > oldest_ns()", "the next frame")?;
    browser.key("\u{e010}")?;
    browser
        .wait("is_live && scenes.get(0).at === scenes.get(0).frames.length - 1", "the newest")?;
    let files = "return [...scenes.get(0).files.values()].map((f) => JSON.stringify(f.extents) + f.name).sort().join()";
    let forth = browser.run(files)?;
    browser.run("scenes.get(0).go(0); scenes.get(0).go(1e9)")?;
    let again = browser.run(files)?;
    ensure!(forth == again, "back and forth: {forth} became {again}");
    Ok(())
}

fn themes_and_widths(browser: &Browser) -> Result<()> {
    // Both themes, and a telephone.
    browser.run("set_theme('dark')")?;
    browser
        .wait("getComputedStyle(document.body).backgroundColor === 'rgb(20, 23, 26)'", "dark")?;
    browser.shot("page-dark")?;
    browser.size(400, 900)?;
    browser.wait("document.documentElement.scrollWidth <= 400", "no wider than 400 pixels")?;
    browser.shot("page-narrow")?;
    browser.size(1280, 1500)
}

fn heads(lines: &[&str]) -> usize {
    lines.iter().filter(|line| line.starts_with("{\"head\"")).count()
}

fn laboratory(imbrex: &Path, browser: &Browser) -> Result<()> {
    let options = ["--listen", "127.0.0.1:0", "--capacity", "512MiB", "--live", "40"];
    let server = Server::start(imbrex, &["lab"], &options)?;
    browser.size(1500, 1300)?;
    browser.open(&server.url)?;
    browser.wait("scenes.size === 3 && frames() > 30", "three stores at work")?;
    browser.run("document.getElementById('lab-cut').click()")?;
    let notes = "[...scenes.values()].every((s) => s.frames.some((f) => (f.note || '').includes('without a gap')))";
    browser.wait(notes, "what each store lost")?;
    browser.shot("lab-light")?;
    browser.run("set_theme('dark')")?;
    browser.shot("lab-dark")?;
    browser.size(400, 900)?;
    browser.wait("document.documentElement.scrollWidth <= 400", "no wider than 400 pixels")?;
    browser.shot("lab-narrow")?;
    browser.size(1500, 1300)?;
    // Another run, of one layout on interlaced tracks.
    browser.run(
        "for (const box of document.querySelectorAll('#lab input')) box.checked = box.value === 'imr-m';
         document.querySelector('#lab button[type=submit]').click();",
    )?;
    browser
        .wait("scenes.size === 1 && scenes.get(0)?.head.rule === 'interlaced'", "another run")?;
    browser.wait("frames() > 20", "frames of the other run")?;
    browser.shot("lab-interlaced")?;
    bands(browser)?;
    browser.check_console()
}

/// Bands of chosen length between guards, and fixed bands with a guard after each.
fn bands(browser: &Browser) -> Result<()> {
    browser.run(
        "for (const box of document.querySelectorAll('#lab-layouts input')) {
           box.checked = ['sealdb', 'leveldb-banded'].includes(box.value);
         }
         document.querySelector('#lab button[type=submit]').click();",
    )?;
    let is_banded = "scenes.size === 2 && scenes.get(0)?.head.band_blocks > 0 && scenes.get(1)?.head.rule === 'shingled'";
    browser.wait(is_banded, "stores in bands")?;
    browser.wait("frames() > 60 && scenes.get(1).gaps.size > 2", "free runs between bands")?;
    // Everything is in one of the kinds, and nothing in two: live, dead, free, guard, the catalog.
    browser.wait(
        "[...panels.values()].every(({ map, scene }) => {
           const sum = (of) => map.cells.reduce((all, cell) => all + of(cell), 0);
           const catalog = (scene.head.catalog || []).reduce((all, piece) => all + piece[1], 0);
           const all = sum((cell) => cell.written + cell.free + cell.guard) + catalog;
           return map.is_in_place && all === scene.head.len_blocks && map.cells.every((cell) => cell.live <= cell.written);
         })",
        "cells that add up to the drive",
    )?;
    browser.wait("panels.get(1).map.cells.some((cell) => cell.guard > 0)", "guards")?;
    browser.shot("lab-bands")?;
    browser.run("set_theme('light')")?;
    browser.run("panels.get(1).map.zoom(16, panels.get(1).map.cells[40])")?;
    browser.wait(
        "scenes.get(1).view.to - scenes.get(1).view.from <= scenes.get(1).head.len_blocks / 16 + 1",
        "the zoom",
    )?;
    browser.shot("lab-bands-zoomed")
}

/// A server of a page; dropping it kills it.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(imbrex: &Path, command: &[&str], args: &[&str]) -> Result<Server> {
        let mut child = Command::new(imbrex)
            .args(command)
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", imbrex.display()))?;
        let line = child.stdout.take().and_then(|out| BufReader::new(out).lines().next());
        let server = |url: &str| Server { child, url: url.to_owned() };
        match line.transpose()?.as_deref().and_then(|line| line.strip_prefix("the page is at ")) {
            Some(url) => Ok(server(url)),
            None => bail!("`imbrex {}` printed no address", command.join(" ")),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A browser; dropping it ends it.
struct Browser {
    driver: Child,
    /// The address of the session.
    session: String,
    agent: ureq::Agent,
    shots: Option<PathBuf>,
}

impl Browser {
    fn start(shots: Option<PathBuf>) -> Result<Browser> {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start chromedriver")?;
        let lines = driver.stdout.take().map(|out| BufReader::new(out).lines());
        let told = |line: std::io::Result<String>| {
            let line = line.ok()?;
            line.split_once("successfully on port ")?.1.trim_end_matches('.').parse::<u16>().ok()
        };
        let port = lines.into_iter().flatten().find_map(told);
        let agent = ureq::Agent::new_with_defaults();
        let mut browser = Browser { driver, session: String::new(), agent, shots };
        let port = port.context("chromedriver printed no port")?;
        browser.session = format!("http://127.0.0.1:{port}/session");
        let arguments = [
            "--headless=new",
            // A container's root has no sandbox, and this browser sees pages of this test alone.
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--window-size=1280,1500",
        ];
        let options = json!({ "args": arguments });
        let logs = json!({ "browser": "ALL" });
        let wanted = json!({ "goog:chromeOptions": options, "goog:loggingPrefs": logs });
        let made = browser.post("", &json!({ "capabilities": { "alwaysMatch": wanted } }))?;
        let id = made["sessionId"].as_str().context("chromedriver made no session")?;
        browser.session.push_str(&format!("/{id}"));
        browser.size(1280, 1500)?;
        browser.post("/timeouts", &json!({ "script": 60_000 }))?;
        Ok(browser)
    }

    /// A command of WebDriver; its value.
    fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let url = format!("{}{path}", self.session);
        let sent = self
            .agent
            .post(&url)
            .config()
            .http_status_as_error(false)
            .build()
            .send(body.to_string());
        let text = sent.with_context(|| url.clone())?.body_mut().read_to_string()?;
        let reply: Value = serde_json::from_str(&text).with_context(|| format!("{url}: {text}"))?;
        let value = reply["value"].clone();
        if let Some(error) = value["error"].as_str() {
            bail!("{error}: {}", value["message"].as_str().unwrap_or_default());
        }
        Ok(value)
    }

    fn open(&self, url: &str) -> Result<()> {
        self.post("/url", &json!({ "url": url }))?;
        self.run("window.frames = () => [...scenes.values()].reduce((sum, s) => sum + s.frames.length, 0)")?;
        Ok(())
    }

    /// Runs a script in the page.
    fn run(&self, script: &str) -> Result<Value> {
        self.post("/execute/sync", &json!({ "script": script, "args": [] }))
    }

    /// Waits until `condition` holds in the page, which looks at each of its frames.
    fn wait(&self, condition: &str, what: &str) -> Result<()> {
        let script = format!(
            "const done = arguments[0];
             const look = () => {{ if ({condition}) done(true); else setTimeout(look, 30); }};
             look();"
        );
        let waited = self.post("/execute/async", &json!({ "script": script, "args": [] }));
        waited.map(drop).with_context(|| format!("waiting for {what}: {condition}"))
    }

    /// A click of the mouse at a point of the window.
    fn click(&self, point: &Value) -> Result<()> {
        let at = |index: usize| point[index].as_f64().unwrap_or_default().round();
        let moved = json!({ "type": "pointerMove", "duration": 0, "x": at(0), "y": at(1) });
        let press = json!({ "type": "pointerDown", "button": 0 });
        let release = json!({ "type": "pointerUp", "button": 0 });
        let actions = json!([moved, press, release]);
        let mouse = json!({ "type": "pointer", "id": "mouse", "actions": actions });
        self.post("/actions", &json!({ "actions": [mouse] })).map(drop)
    }

    /// A key, by its number in WebDriver.
    fn key(&self, key: &str) -> Result<()> {
        let actions =
            json!([{ "type": "keyDown", "value": key }, { "type": "keyUp", "value": key }]);
        let keys = json!({ "type": "key", "id": "keys", "actions": actions });
        self.post("/actions", &json!({ "actions": [keys] })).map(drop)
    }

    fn size(&self, width: u32, height: u32) -> Result<()> {
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        let command = json!({ "cmd": "Emulation.setDeviceMetricsOverride", "params": size });
        self.post("/goog/cdp/execute", &command).map(drop)
    }

    /// Writes a screenshot, if they are asked for.
    fn shot(&self, name: &str) -> Result<()> {
        let Some(dir) = &self.shots else { return Ok(()) };
        // Two screen refreshes, so that what was asked for is drawn.
        self.post(
            "/execute/async",
            &json!({ "script": "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()));", "args": [] }),
        )?;
        let command = json!({ "cmd": "Page.captureScreenshot", "params": { "format": "png" } });
        let shot = self.post("/goog/cdp/execute", &command)?;
        let text = shot["data"].as_str().context("no picture")?;
        let path = dir.join(format!("{name}.png"));
        std::fs::write(&path, data_encoding::BASE64.decode(text.as_bytes())?)
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Fails if a script of the page has failed. That a server is gone is no failure of the page.
    fn check_console(&self) -> Result<()> {
        let lines = self.post("/se/log", &json!({ "type": "browser" }))?;
        let lines: Vec<Value> = lines.as_array().cloned().unwrap_or_default();
        let is_failure = |line: &&Value| {
            let message = line["message"].as_str().unwrap_or_default();
            line["level"] == "SEVERE"
                && !message.contains("net::ERR")
                && !message.contains("favicon")
        };
        let failures: Vec<&Value> = lines.iter().filter(is_failure).collect();
        ensure!(failures.is_empty(), "the page's console: {failures:?}");
        Ok(())
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.agent.delete(&self.session).call();
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
