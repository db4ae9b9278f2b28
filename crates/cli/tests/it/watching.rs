//! `--record`, `watch`, `serve http` and `lab`: what they show, and what they refuse.

use crate::{Drive, command, imbrex};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

/// A short recording of two stores.
fn recording() -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run").to_str().unwrap().to_owned();
    let bench = ["bench", "--benchmarks", "fillrandom", "--num", "4000", "--value_size", "4080"];
    let shape = ["--capacity", "256MiB", "--zone-len", "4MiB", "--layout", "imbrex-zones,gear"];
    imbrex(&[&bench[..], &shape, &["--record", &path]].concat()).ok();
    (dir, path)
}

/// A server of a page; it is killed at the end.
struct Page {
    child: Child,
    address: String,
}

impl Page {
    fn start(args: &[&str]) -> Page {
        let mut child = command().args(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line
            .trim()
            .strip_prefix("the page is at http://")
            .unwrap_or_else(|| panic!("{line:?}"));
        Page { address: address.to_owned(), child }
    }

    /// Sends a request; returns the reply, up to `until` if that comes before its end.
    fn ask(&self, request: &str, until: &str) -> String {
        let host = self.address.split('/').next().unwrap();
        let mut socket = TcpStream::connect(host).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        socket
            .write_all(format!("{request}\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes())
            .unwrap();
        let mut text = Vec::new();
        let mut piece = [0; 1 << 16];
        loop {
            let len = socket.read(&mut piece).unwrap();
            text.extend_from_slice(&piece[..len]);
            let so_far = String::from_utf8_lossy(&text);
            if len == 0 || !until.is_empty() && so_far.contains(until) {
                return so_far.into_owned();
            }
        }
    }

    fn get(&self, path: &str, until: &str) -> String {
        self.ask(&format!("GET {path} HTTP/1.1"), until)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn a_recording_is_watched_and_served() {
    let (_dir, path) = recording();
    let shown = imbrex(&["watch", &path, "--once"]).ok();
    for part in [
        "imbrex-zones: 256 MiB, 64 zones of 4.00 MiB",
        "gear: 256 MiB",
        "amplification",
        "drive busy",
    ] {
        assert!(shown.contains(part), "{part:?} is missing in:\n{shown}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&imbrex(&["watch", &path, "--format", "json"]).ok()).unwrap();
    assert_eq!(json[1]["head"]["layout"], "gear");
    // Each store draws its last frame by the time of its own drive.
    let ops = |store: usize| json[store]["frame"]["store"]["user_ops"].as_u64().unwrap();
    assert!(ops(0) > 0 && ops(0).abs_diff(ops(1)) <= 1024, "{} and {}", ops(0), ops(1));

    let page = Page::start(&["serve", "http", &path, "--listen", "127.0.0.1:0"]);
    let document = page.get("/", "");
    assert!(document.starts_with("HTTP/1.1 200") && document.contains("class Scene"), "{document}");
    let events = page.get("/events", "\"id\":1,");
    assert!(events.contains("event: begin") && events.contains("data: {\"head\""), "{events}");
    let plain = page.get("/metrics", "");
    assert!(plain.contains("text/plain; version=0.0.4") && !plain.contains("# EOF"), "{plain}");
    let asks = "GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text; version=1.0.0";
    let metrics = page.ask(asks, "");
    assert!(metrics.contains("application/openmetrics-text"), "{metrics}");
    assert!(metrics.contains("imbrex_user_operations_total{store=\"gear\"}"), "{metrics}");
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    assert!(page.get("/etc/passwd", "").starts_with("HTTP/1.1 404"));
    assert!(page.ask("POST /lab/start HTTP/1.1\r\nX-Imbrex: 1", "").starts_with("HTTP/1.1 404"));
}

#[test]
fn a_load_is_recorded_and_a_drive_is_watched_and_served() {
    let drive = Drive::new();
    let lines: String = (0..20_000)
        .map(|n| format!("{{\"key\":\"{n:08}\",\"value\":\"{}\"}}\n", "x".repeat(200)))
        .collect();
    let input = drive.dir.path().join("in.json");
    std::fs::write(&input, lines).unwrap();
    let path = drive.dir.path().join("run").to_str().unwrap().to_owned();
    let (disk, input) = (drive.path_str(), input.to_str().unwrap());
    imbrex(&["load", disk, input, "--record", &path]).ok();
    let frames = std::fs::read_to_string(&path).unwrap();
    let last: serde_json::Value = serde_json::from_str(frames.lines().last().unwrap()).unwrap();
    assert_eq!(last["frame"]["store"]["user_ops"], 20_000, "the last frame is of the end");
    let named = last["frame"]["files"].as_array().into_iter().flatten();
    assert!(named.clone().any(|file| file["first_key"] == "00000000"), "{last}");

    let shown = imbrex(&["watch", disk, "--once", "--read-only"]).ok();
    assert!(shown.contains("live") && shown.contains("zones"), "{shown}");
    let page = Page::start(&["serve", "http", disk, "--listen", "127.0.0.1:0"]);
    assert!(page.get("/events", "\"frame\"").contains("00000000"));
    assert!(page.get("/metrics", "").contains("imbrex_live_bytes{"));
    // The page has the drive open, and a command says so.
    imbrex(&["get", disk, "00000000"]).fails(4, &[disk, "in use"]);
}

#[test]
fn what_cannot_be_watched_is_refused() {
    let (dir, path) = recording();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    imbrex(&["watch", &at("absent"), "--once"]).fails(4, &["absent"]);
    std::fs::write(at("text"), "key,value\n").unwrap();
    imbrex(&["watch", &at("text"), "--once"]).fails(4, &["text"]);
    let whole = std::fs::read_to_string(&path).unwrap();
    std::fs::write(at("rotten"), whole.replacen("{\"frame\"", "{\"fraxe\"", 1)).unwrap();
    imbrex(&["watch", &at("rotten"), "--once"]).fails(4, &["rotten", "line 2"]);
    // Cut in the middle of a line, as by kill -9: what is whole is shown.
    std::fs::write(at("cut"), &whole[..whole.len() - 40]).unwrap();
    assert!(imbrex(&["watch", &at("cut"), "--once"]).ok().contains("imbrex-zones"));
    std::fs::write(at("empty"), "").unwrap();
    assert!(imbrex(&["watch", &at("empty"), "--once"]).ok().contains("no frame yet"));
    let again = ["bench", "--benchmarks", "fillseq", "--num", "10", "--record", &path];
    imbrex(&again).fails(4, &["run", "exists"]);
    imbrex(&["serve", "http", &path, "--listen", "0.0.0.0:0"]).fails(2, &["--allow-remote"]);
    imbrex(&["serve", "http", &path, "--listen", "nowhere"]).fails(2, &["nowhere"]);
    imbrex(&["serve", "http", &path, "--token", ""]).fails(2, &["--token"]);
    let weak = ["--listen", "0.0.0.0:0", "--allow-remote", "--token", "abc"];
    imbrex(&[&["serve", "http", &path], &weak[..]].concat()).fails(2, &["--token", "16"]);
    imbrex(&["watch", "/dev/null", "--once"]).fails(2, &["/dev/null", "recording"]);
    rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RWXU).unwrap();
    imbrex(&["watch", &at("pipe"), "--once"]).fails(2, &["pipe", "recording"]);
    let head = whole.lines().next().unwrap();
    std::fs::write(at("head"), format!("{head}\n")).unwrap();
    assert!(imbrex(&["watch", &at("head"), "--once"]).ok().contains("no frame yet"));
    imbrex(&["lab", "--layouts", "nonsense"]).fails(2, &["nonsense"]);
    imbrex(&["lab", "--layouts", "gear", "--live", "100"]).fails(2, &["percent"]);
    imbrex(&["lab", "--value", "2MiB"]).fails(2, &["a value"]);
}

/// With --allow-remote a token is made up, and nobody gets anything without it.
#[test]
fn other_machines_need_the_token() {
    let (_dir, path) = recording();
    let page = Page::start(&["serve", "http", &path, "--listen", "0.0.0.0:0", "--allow-remote"]);
    let (host, token) = page.address.split_once("/?token=").unwrap();
    let local = Page {
        address: host.replace("0.0.0.0", "127.0.0.1"),
        child: command().arg("--version").stdout(Stdio::null()).spawn().unwrap(),
    };
    assert!(token.len() == 32, "{token}");
    for path in ["/", "/events", "/metrics", "/?token=0"] {
        assert!(local.get(path, "").starts_with("HTTP/1.1 401"), "{path}");
    }
    assert!(local.get(&format!("/metrics?token={token}"), "").starts_with("HTTP/1.1 200"));
}

#[test]
fn the_laboratory_takes_orders() {
    let options =
        ["--layouts", "imbrex-zones", "--capacity", "256MiB", "--live", "30", "--speed", "5"];
    let page = Page::start(&[&["lab", "--listen", "127.0.0.1:0"], &options[..]].concat());
    let begin = page.get("/events", "\"frame\"");
    assert!(begin.contains("\"lab\":{") && begin.contains("leveled-zones"), "{begin}");
    let order = |path: &str, form: &str| {
        let len = form.len();
        let head = format!("POST /lab/{path} HTTP/1.1\r\nX-Imbrex: 1\r\nContent-Length: {len}");
        let host = page.address.trim_end_matches('/').to_owned();
        let mut socket = TcpStream::connect(&host).unwrap();
        let text = format!("{head}\r\nHost: {host}\r\nConnection: close\r\n\r\n{form}");
        socket.write_all(text.as_bytes()).unwrap();
        let mut reply = String::new();
        socket.read_to_string(&mut reply).unwrap();
        reply
    };
    assert!(order("cut", "").starts_with("HTTP/1.1 202"));
    assert!(page.get("/events", "without a gap").contains("power cut"));
    assert!(order("pause", "").contains("paused"));
    assert!(order("pause", "").contains("going on"));
    assert!(order("start", "layout=gear").contains("is missing"));
    let flash = "layout=imbrex-flash&capacity=256MiB&live=20&value=1KiB&work=mixed&arrivals=closed&speed=max";
    let refused = order("start", flash);
    assert!(refused.starts_with("HTTP/1.1 400") && refused.contains("flash"), "{refused}");
    let misspelt = order("start", &flash.replace("speed", "speeed"));
    assert!(misspelt.contains("\"speeed\" is no field"), "{misspelt}");
    assert!(order("explode", "").starts_with("HTTP/1.1 400"));
    let form =
        "layout=gear&capacity=256MiB&live=20&value=1KiB&work=mixed&arrivals=bursts:100&speed=max";
    assert!(order("start", form).starts_with("HTTP/1.1 202"));
    page.get("/events", "\"layout\":\"gear\"");
}
