//! `watch`: a recording or a drive in the terminal, now and back in time.
//!
//! ```text
//!   Watched --> Feed --> lines so far --> Scene at the shown frame --> screen, drawn anew four times a second
//!                                            ^ keys: back, on, first, newest, play
//! ```

use crate::error::{CliError, Context};
use crate::interrupt::pause;
use crate::session::Session;
use crate::watched::Watched;
use imbrex_watch::screen::{Terminal, draw};
use imbrex_watch::{FeedItem, FeedReader, Line, Scene};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Arguments of `imbrex watch`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Keys: left and right a frame back and on, Home and End the first and the newest, \
                        space play or stop, n the next store, q end."
)]
pub(crate) struct WatchArgs {
    /// A recording (`--record`), also while it grows, or a drive with a store that nobody else has open
    what: PathBuf,
    /// Write nothing to the drive, not even to repair what a crash left
    #[arg(long)]
    read_only: bool,
    /// Print the newest frame once, and end; so does output that is no terminal
    #[arg(long)]
    once: bool,
}

/// The screen is drawn this often.
const DRAW_EVERY_NS: i64 = 250_000_000;

/// Without a terminal, a screen of this size.
const COLUMNS: usize = 100;
const LINES: usize = 40;

impl WatchArgs {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        let is_json = session.out.is_json()?;
        let watched = Watched::open(&self.what, self.read_only)?;
        let mut player = Player::new(&watched);
        player.read();
        let outcome = if is_json {
            player.json(session)
        } else if self.once || !session.out.is_terminal() {
            player.once(session)
        } else {
            let mut watched = watched;
            let outcome = player.live(session, &mut watched);
            return outcome.and(watched.close());
        };
        outcome.and(watched.close())
    }
}

/// All frames so far, and the one that is shown.
struct Player {
    reader: FeedReader,
    lines: Vec<Line>,
    /// The last scene, with its store, its number of frames and of lines: the next one goes on from it.
    newest: Option<(u32, usize, usize, Scene)>,
    /// The store that is shown, among those that the lines name.
    store: usize,
    /// The shown frame among those of the store; `None` follows the newest.
    at: Option<usize>,
    is_playing: bool,
    /// The terminal's size when it was last drawn: another one is drawn from scratch.
    size: (usize, usize),
}

impl Player {
    fn new(watched: &Watched) -> Player {
        let reader = watched.feed.reader(None);
        Player {
            reader,
            lines: Vec::new(),
            newest: None,
            store: 0,
            at: None,
            is_playing: false,
            size: (0, 0),
        }
    }

    /// Takes what is new; says whether there was something.
    fn read(&mut self) -> bool {
        let before = self.lines.len();
        while let Some((_, item)) = self.reader.next_item() {
            match item {
                FeedItem::Begin => (self.newest, self.lines) = (None, Vec::new()),
                FeedItem::Line(text) => self.lines.extend(serde_json::from_str::<Line>(&text)),
            }
        }
        self.lines.len() != before
    }

    fn ids(&self) -> Vec<u32> {
        let head = |line: &Line| match line {
            Line::Head(head) => Some(head.id),
            Line::Frame(_) => None,
        };
        let mut ids: Vec<u32> = self.lines.iter().filter_map(head).collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// The number of frames of the store `id`.
    fn frame_count(&self, id: u32) -> usize {
        let is_of = |line: &&Line| matches!(line, Line::Frame(frame) if frame.id == id);
        self.lines.iter().filter(is_of).count()
    }

    /// The scene of the store `id` after `count` frames.
    fn scene(&mut self, id: u32, count: usize) -> Option<Scene> {
        let known = self.newest.take().filter(|(of, frames, ..)| *of == id && *frames <= count);
        let (mut frames, mut at, mut scenes) = (0, 0, BTreeMap::new());
        if let Some((_, known_frames, known_at, scene)) = known {
            (frames, at) = (known_frames, known_at);
            scenes.insert(id, scene);
        }
        while let Some(line) = self.lines.get(at).filter(|_| frames < count) {
            match line {
                Line::Head(head) if head.id == id => Scene::apply_to(&mut scenes, line),
                Line::Frame(frame) if frame.id == id => {
                    Scene::apply_to(&mut scenes, line);
                    frames += 1;
                }
                _ => {}
            }
            at += 1;
        }
        let scene = scenes.remove(&id).filter(|scene| scene.frame_count > 0)?;
        self.newest = Some((id, frames, at, scene.clone()));
        Some(scene)
    }

    fn json(&mut self, session: &mut Session) -> Result<(), CliError> {
        let ids = self.ids();
        let scenes = ids.into_iter().filter_map(|id| self.scene(id, usize::MAX));
        let all: Vec<_> = scenes
            .map(|scene| serde_json::json!({ "head": scene.head, "frame": scene.last }))
            .collect();
        session.out.json(&serde_json::json!(all))
    }

    fn once(&mut self, session: &mut Session) -> Result<(), CliError> {
        let terminal = Terminal { columns: COLUMNS, lines: LINES, has_colours: false };
        let mut has_frame = false;
        for id in self.ids() {
            if let Some(scene) = self.scene(id, usize::MAX) {
                has_frame = true;
                for line in draw(&scene, terminal) {
                    session.out.line(line)?;
                }
                session.out.line("")?;
            }
        }
        match has_frame {
            true => Ok(()),
            false => session.out.line("the recording has no frame yet"),
        }
    }

    fn live(&mut self, session: &mut Session, watched: &mut Watched) -> Result<(), CliError> {
        let _raw = Raw::begin()?;
        let mut outcome = session.out.bytes(b"\x1b[?1049h\x1b[?25l");
        let mut is_new = true;
        while outcome.is_ok() && !session.interrupt.is_asked() {
            if is_new {
                outcome = self.show(session);
                is_new = false;
                continue;
            }
            let keys = keys();
            if keys.iter().any(|key| matches!(key, Key::End)) {
                break;
            }
            is_new |= !keys.is_empty() || self.has_new_size();
            keys.into_iter().for_each(|key| self.press(key));
            outcome = watched.look();
            is_new |= self.read();
            if self.is_playing {
                self.step(1);
                is_new = true;
            }
        }
        // The terminal gets its screen back, whatever failed.
        let restored =
            session.out.bytes(b"\x1b[?25h\x1b[?1049l").and_then(|()| session.out.flush());
        outcome.and(restored)
    }

    fn has_new_size(&self) -> bool {
        self.size != terminal_size()
    }

    fn show(&mut self, session: &mut Session) -> Result<(), CliError> {
        let (columns, lines) = terminal_size();
        let begin = if self.size == (columns, lines) { "\x1b[H" } else { "\x1b[2J\x1b[H" };
        self.size = (columns, lines);
        let ids = self.ids();
        let Some(id) = ids.get(self.store % ids.len().max(1)).copied() else {
            session.out.bytes(b"\x1b[H\x1b[Jwaiting for the first frame; q ends\r\n")?;
            return session.out.flush();
        };
        let count = self.frame_count(id);
        let at = self.at.map_or(count, |at| at.min(count).max(1));
        let terminal = Terminal { columns, lines: lines.saturating_sub(1), has_colours: true };
        let mut text = String::from(begin);
        if let Some(scene) = self.scene(id, at) {
            for line in draw(&scene, terminal) {
                text.push_str(&line);
                text.push_str("\x1b[K\r\n");
            }
        }
        let mode = match (self.at, self.is_playing) {
            (_, true) => "playing",
            (None, _) => "newest",
            (Some(_), _) => "stopped",
        };
        let others = if ids.len() > 1 { ", n the next store" } else { "" };
        let status = format!("frame {at} of {count}, {mode}; arrows, Home, End, space{others}, q");
        text.extend(status.chars().take(columns));
        text.push_str("\x1b[K\x1b[J");
        session.out.bytes(text.as_bytes())?;
        session.out.flush()
    }

    fn press(&mut self, key: Key) {
        match key {
            Key::Left => {
                self.is_playing = false;
                self.step(-1);
            }
            Key::Right => {
                self.is_playing = false;
                self.step(1);
            }
            Key::First => (self.at, self.is_playing) = (Some(1), false),
            Key::Newest => (self.at, self.is_playing) = (None, false),
            Key::Play => {
                self.is_playing = !self.is_playing;
                if self.is_playing && self.at.is_none() {
                    self.at = Some(1);
                }
            }
            Key::Next => self.store += 1,
            Key::End => {}
        }
    }

    /// Shows another frame; past the newest it follows again.
    fn step(&mut self, by: isize) {
        let ids = self.ids();
        let Some(id) = ids.get(self.store % ids.len().max(1)) else { return };
        let count = self.frame_count(*id);
        let at = self.at.unwrap_or(count).saturating_add_signed(by).max(1);
        if at > count {
            (self.at, self.is_playing) = (None, false);
        } else {
            self.at = Some(at);
        }
    }
}

/// Columns and lines.
fn terminal_size() -> (usize, usize) {
    let size = tcgetwinsize(rustix::stdio::stdout()).ok();
    let size = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
    size.map_or((COLUMNS, LINES), |size| (size.ws_col.into(), size.ws_row.into()))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    Left,
    Right,
    First,
    Newest,
    Play,
    Next,
    End,
}

/// What the keys send, the longest first: an escape alone is a key too.
const KEYS: [(&[u8], Key); 18] = [
    (b"\x1b[1~", Key::First),
    (b"\x1b[4~", Key::Newest),
    (b"\x1b[D", Key::Left),
    (b"\x1b[C", Key::Right),
    (b"\x1b[H", Key::First),
    (b"\x1b[F", Key::Newest),
    (b"\x1bOD", Key::Left),
    (b"\x1bOC", Key::Right),
    (b"\x1bOH", Key::First),
    (b"\x1bOF", Key::Newest),
    (b"h", Key::Left),
    (b"l", Key::Right),
    (b"g", Key::First),
    (b"G", Key::Newest),
    (b" ", Key::Play),
    (b"n", Key::Next),
    (b"q", Key::End),
    (b"\x1b", Key::End),
];

/// The keys of what a terminal sent; what is no key is skipped, and so is a sequence that is none.
fn keys_of(mut bytes: &[u8]) -> Vec<Key> {
    let mut keys = Vec::new();
    while let Some(first) = bytes.first() {
        let is_sequence = bytes.len() > 1 && *first == b'\x1b' && matches!(bytes[1], b'[' | b'O');
        let known = KEYS
            .iter()
            .find(|(text, _)| bytes.starts_with(text) && (text.len() > 1 || !is_sequence));
        let len = match known {
            Some((text, key)) => {
                keys.push(*key);
                text.len()
            }
            // The end of a sequence is its first letter or tilde after the bracket.
            None if is_sequence => {
                let end =
                    bytes[2..].iter().position(|byte| byte.is_ascii_alphabetic() || *byte == b'~');
                end.map_or(bytes.len(), |end| end + 3)
            }
            None => 1,
        };
        bytes = &bytes[len..];
    }
    keys
}

/// Waits for keys until the screen is due again.
fn keys() -> Vec<Key> {
    let stdin = rustix::stdio::stdin();
    let patience = Timespec { tv_sec: 0, tv_nsec: DRAW_EVERY_NS };
    let mut waited = [PollFd::new(&stdin, PollFlags::IN)];
    if !matches!(poll(&mut waited, Some(&patience)), Ok(1..)) {
        return Vec::new();
    }
    let mut bytes = [0; 64];
    match rustix::io::read(stdin, &mut bytes) {
        // The end of input: no key will come any more.
        Ok(0) | Err(_) => {
            pause(250);
            Vec::new()
        }
        Ok(len) => keys_of(&bytes[..len]),
    }
}

/// A terminal that hands over each key at once and echoes none; on drop it is as before. Signals stay signals.
struct Raw {
    before: Termios,
}

impl Raw {
    fn begin() -> Result<Raw, CliError> {
        use rustix::termios::LocalModes;
        let failed = || "cannot read single keys from this terminal; `--once` needs none";
        let before = tcgetattr(rustix::stdio::stdin()).context(failed)?;
        let mut raw = before.clone();
        raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &raw).context(failed)?;
        Ok(Raw { before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(rustix::stdio::stdin(), OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_come_together_are_told_apart() {
        assert_eq!(keys_of(b"\x1b[D\x1b[Dhl"), [Key::Left, Key::Left, Key::Left, Key::Right]);
        assert_eq!(keys_of(b"\x1bOH\x1b[4~ n"), [Key::First, Key::Newest, Key::Play, Key::Next]);
        assert_eq!(keys_of(b"\x1b"), [Key::End]);
        // Function keys, a mouse, letters: nothing happens, and nothing ends.
        assert_eq!(keys_of(b"\x1b[15~\x1b[200~xyz\x1b[1;5"), []);
    }
}
