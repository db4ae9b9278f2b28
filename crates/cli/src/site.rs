//! The pages of `serve http` and of `lab`: the document, its events, and the metrics.

use imbrex_clockwork::entropy_u64;
use imbrex_serve::http::{Event, EventSource, Reply, Request, Site};
use imbrex_watch::{Feed, FeedItem, FeedPlace, FeedReader, MetricsFormat, metrics_text, page};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::fmt;

/// Takes what the page asks the laboratory for: the path's last part and the form. Answers in words.
pub(crate) trait Desk: Send + Sync {
    /// Performs `order`, or says why not.
    fn order(&self, order: &str, form: &[(String, String)]) -> Result<String, String>;
}

/// A site over one feed.
pub(crate) struct WatchSite {
    feed: Feed,
    title: String,
    /// Tells this server's events from those of one before it at the same address.
    epoch: u64,
    /// The choices of the laboratory, and the desk that takes its orders.
    lab: Option<(Value, Box<dyn Desk>)>,
}

impl WatchSite {
    pub(crate) fn new(feed: Feed, title: String) -> WatchSite {
        WatchSite { feed, title, epoch: entropy_u64(), lab: None }
    }

    pub(crate) fn with_lab(self, choices: Value, desk: Box<dyn Desk>) -> WatchSite {
        WatchSite { lab: Some((choices, desk)), ..self }
    }

    fn events(&self, request: &Request) -> Reply {
        let place = request.last_event.as_deref().and_then(|id| place_of(id, self.epoch));
        let lab = self.lab.as_ref().map(|(choices, _)| choices);
        let begin = json!({ "title": self.title, "lab": lab }).to_string();
        let reader = self.feed.reader(place);
        Reply::Events(Box::new(Events { reader, begin, epoch: self.epoch }))
    }

    fn order(&self, request: &Request) -> Reply {
        let order = request.path.strip_prefix("/lab/");
        let (Some((_, desk)), Some(order)) = (&self.lab, order) else {
            return Reply::text(404, "there is nothing to change at this address");
        };
        match desk.order(order, &request.form) {
            Ok(told) => Reply::text(202, told),
            Err(why) => Reply::text(400, why),
        }
    }
}

impl Site for WatchSite {
    fn answer(&self, request: &Request) -> Reply {
        if request.is_change {
            return self.order(request);
        }
        match &request.path[..] {
            "/" => Reply::page(page::MEDIA_TYPE, page::document().into_bytes()),
            "/events" => self.events(request),
            "/metrics" => {
                let format = MetricsFormat::accepted_by(request.accept.as_deref());
                let text = self.feed.with_scenes(|scenes| metrics_text(scenes.values(), format));
                Reply::page(format.media_type(), text.into_bytes())
            }
            _ => Reply::text(404, "here are / (the page), /events and /metrics"),
        }
    }
}

impl fmt::Debug for WatchSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchSite").field("title", &self.title).finish_non_exhaustive()
    }
}

struct Events {
    reader: FeedReader,
    begin: String,
    epoch: u64,
}

impl EventSource for Events {
    fn next_event(&mut self) -> Option<Event> {
        let (place, item) = self.reader.next_item()?;
        let id = format!("{:x}.{}.{}", self.epoch, place.run, place.line);
        let (kind, data) = match item {
            FeedItem::Begin => ("begin", self.begin.clone()),
            FeedItem::Line(text) => ("", text.to_string()),
        };
        Some(Event { id, kind, data: Cow::Owned(data) })
    }
}

/// The place that an event's id names, if this server sent it.
fn place_of(id: &str, epoch: u64) -> Option<FeedPlace> {
    let mut parts = id.split('.');
    let its_epoch = u64::from_str_radix(parts.next()?, 16).ok()?;
    let (run, line) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    (its_epoch == epoch).then_some(FeedPlace { run, line })
}
