//! The feed: the lines of what is watched, for any number of readers that come, go and come back.
//!
//! ```text
//!   push(line) --> [ 1 | 2 | 3 | ... | n ]      numbered; old ones are merged in pairs when they fill the memory
//!                      ^           ^
//!                  a reader    another reader
//! ```
//!
//! Invariants
//!   F1  The lines from the first to the newest add up to the newest scene, however many were merged.
//!   F2  The feed holds about `memory_max` bytes, whatever comes. The newest half of its lines is never merged.

use crate::frame::{Frame, Line};
use crate::scene::Scene;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The lines so far. Cheap to clone; all clones are the same feed.
#[derive(Clone, Debug)]
pub struct Feed {
    state: Arc<Mutex<State>>,
    memory_max: usize,
}

#[derive(Debug, Default)]
struct State {
    lines: Vec<(u64, Arc<str>)>,
    last: u64,
    /// Counts the runs: [`Feed::clear`] begins another.
    run: u64,
    len_bytes: usize,
    scenes: BTreeMap<u32, Scene>,
}

impl Feed {
    /// An empty feed that holds about `memory_max` bytes of text.
    pub fn new(memory_max: usize) -> Feed {
        Feed { state: Arc::default(), memory_max }
    }

    /// Appends a line.
    pub fn push(&self, line: &Line) {
        let text = line.to_json();
        let mut state = self.state();
        Scene::apply_to(&mut state.scenes, line);
        state.last += 1;
        state.len_bytes += text.len();
        let last = state.last;
        state.lines.push((last, text.into()));
        if state.len_bytes > self.memory_max {
            state.thin();
        }
    }

    /// Forgets all lines; what follows is another run. Readers notice by its number.
    pub fn clear(&self) {
        let mut state = self.state();
        *state = State { run: state.run + 1, ..State::default() };
    }

    /// Reads from where a reader was, or from the start: also if the run that it read is over.
    pub fn reader(&self, was: Option<FeedPlace>) -> FeedReader {
        let run = self.state().run;
        let place = was.filter(|was| was.run == run);
        FeedReader { feed: self.clone(), place }
    }

    /// Works on the newest scenes, by the numbers of their stores.
    pub fn with_scenes<R>(&self, work: impl FnOnce(&BTreeMap<u32, Scene>) -> R) -> R {
        work(&self.state().scenes)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Merges the older half of the frames in pairs (F2).
    fn thin(&mut self) {
        let old = self.lines.len() / 2;
        let lines = std::mem::take(&mut self.lines);
        let mut kept: Vec<(u64, Arc<str>)> = Vec::with_capacity(lines.len());
        let mut held: BTreeMap<u32, (u64, Arc<str>, Frame)> = BTreeMap::new();
        for (index, (number, text)) in lines.into_iter().enumerate() {
            let frame = match (index < old).then(|| serde_json::from_str(&text)) {
                Some(Ok(Line::Frame(frame))) => frame,
                _ => {
                    kept.push((number, text));
                    continue;
                }
            };
            if let Some((_, _, first)) = held.remove(&frame.id) {
                let merged = Line::Frame(Box::new(first.followed_by(*frame)));
                kept.push((number, merged.to_json().into()));
            } else {
                held.insert(frame.id, (number, text, *frame));
            }
        }
        // A frame without a partner stays as it is, in its place.
        for (number, text, _) in held.into_values() {
            let at = kept.partition_point(|(other, _)| *other < number);
            kept.insert(at, (number, text));
        }
        self.len_bytes = kept.iter().map(|(_, text)| text.len()).sum();
        self.lines = kept;
    }
}

/// How far a reader is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeedPlace {
    /// The run.
    pub run: u64,
    /// The number of the last line read.
    pub line: u64,
}

/// What a reader gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedItem {
    /// A run begins: what was read before is over.
    Begin,
    /// The next line.
    Line(Arc<str>),
}

/// A reader of a feed.
#[derive(Clone, Debug)]
pub struct FeedReader {
    feed: Feed,
    /// How far it is; `None` before the run's begin.
    place: Option<FeedPlace>,
}

impl FeedReader {
    /// The next item with the place after it, if there is one yet.
    pub fn next_item(&mut self) -> Option<(FeedPlace, FeedItem)> {
        let state = self.feed.state();
        let (place, item) = match self.place {
            Some(place) if place.run == state.run => {
                let at = state.lines.partition_point(|(number, _)| *number <= place.line);
                let (line, text) = state.lines.get(at)?;
                (FeedPlace { line: *line, ..place }, FeedItem::Line(Arc::clone(text)))
            }
            _ => (FeedPlace { run: state.run, line: 0 }, FeedItem::Begin),
        };
        drop(state);
        self.place = Some(place);
        Some((place, item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::FileChange;

    fn frame(at_ns: u64, files: Vec<FileChange>) -> Line {
        Line::Frame(Box::new(Frame { at_ns, files, ..Frame::default() }))
    }

    fn file(name: &str, is_gone: bool) -> FileChange {
        FileChange { name: name.to_owned(), is_gone, ..FileChange::default() }
    }

    fn scene_of(reader: &mut FeedReader) -> Scene {
        let mut scenes = BTreeMap::new();
        while let Some((_, item)) = reader.next_item() {
            if let FeedItem::Line(text) = item {
                Scene::apply_to(&mut scenes, &serde_json::from_str(&text).unwrap());
            }
        }
        scenes.remove(&0).unwrap()
    }

    /// F1, F2: whatever is merged, a new reader arrives at the newest scene.
    #[test]
    fn merged_lines_add_up_to_the_same_scene() {
        let feed = Feed::new(64 << 10);
        feed.push(&Line::Head(Box::default()));
        let mut early = feed.reader(None);
        assert_eq!(early.next_item().unwrap().1, FeedItem::Begin);
        for at in 0..2_000_u64 {
            let mut files = vec![file(&format!("{at}"), false)];
            files.extend(at.checked_sub(10).map(|old| file(&format!("{old}"), true)));
            feed.push(&frame(at, files));
        }
        let newest = feed.with_scenes(|scenes| scenes[&0].clone());
        let late = scene_of(&mut feed.reader(None));
        assert_eq!((late.files.len(), &late.files), (10, &newest.files));
        assert_eq!(late.last.at_ns, 1_999);
        assert!(late.frame_count < 1_000, "{} frames are left", late.frame_count);
        assert!(feed.state().len_bytes <= 128 << 10);
        assert_eq!(scene_of(&mut early).files, newest.files, "a slow reader as well");
    }

    #[test]
    fn a_reader_that_comes_back_goes_on_and_another_run_begins_anew() {
        let feed = Feed::new(1 << 20);
        feed.push(&Line::Head(Box::default()));
        feed.push(&frame(1, Vec::new()));
        let mut reader = feed.reader(None);
        let mut place = None;
        while let Some((at, _)) = reader.next_item() {
            place = Some(at);
        }
        feed.push(&frame(2, Vec::new()));
        let (_, item) = feed.reader(place).next_item().unwrap();
        assert!(matches!(&item, FeedItem::Line(text) if text.contains("\"at_ns\":2")), "{item:?}");
        feed.clear();
        assert_eq!(feed.reader(place).next_item().unwrap().1, FeedItem::Begin);
        assert_eq!(reader.next_item().unwrap().1, FeedItem::Begin);
    }
}
