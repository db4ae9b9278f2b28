//! The fields of a profile's text: which there are, of which type, in which range, and on which line.
//!
//! ```text
//!   text -> TOML with places -> every field against TABLES -> the faults, each with its line
//! ```
//!
//! Invariants
//!   F1  All faults of a text are found in one reading, except that a text which is no TOML has only the faults
//!       of its syntax.
//!   F2  A text without faults here has every field that [`super::ProfileText`] requires, and no other.
//!
//! The table below is the reference of `docs/guide/drive_profiles.md`.

use super::{ProfileError, ProfileFault};
use std::collections::BTreeMap;
use std::fmt;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

const SECOND_NS: u64 = 1_000_000_000;

/// What a field holds.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    /// A whole number in a range.
    Count(u64, u64),
    Number,
    Truth,
}

use Kind::{Count, Number, Text, Truth};

struct Field(&'static str, Kind);

/// One table of the text.
struct Table {
    name: &'static str,
    required: &'static [Field],
    optional: &'static [Field],
    /// Whether a profile may leave the whole table out.
    may_miss: bool,
}

const ANY: Kind = Count(0, u64::MAX);
const SHORT: Kind = Count(0, u32::MAX as u64);

// 2^46 blocks are 2^58 bytes; with these ranges every product of times in `mechanics` stays within 64 bits.
const TABLES: [Table; 8] = [
    Table {
        name: "",
        required: &[Field("name", Text), Field("title", Text)],
        optional: &[],
        may_miss: false,
    },
    Table {
        name: "geometry",
        required: &[Field("rule", Text), Field("len_blocks", Count(1, 1 << 46))],
        optional: &[],
        may_miss: false,
    },
    Table {
        name: "geometry.zones",
        required: &[
            Field("zone_len_blocks", ANY),
            Field("zone_capacity_blocks", ANY),
            Field("conventional_zone_count", SHORT),
            Field("strict_reads", Truth),
        ],
        optional: &[Field("open_zone_limit", SHORT), Field("active_zone_limit", SHORT)],
        may_miss: true,
    },
    Table {
        name: "geometry.tracks",
        required: &[],
        optional: &[
            Field("track_len_blocks", ANY),
            Field("overlap_tracks", SHORT),
            Field("bottom_track_len_blocks", ANY),
            Field("top_track_len_blocks", ANY),
        ],
        may_miss: true,
    },
    Table {
        name: "platter",
        required: &[
            // The upper bound is for flash, which has no platter: one page counts as a track.
            Field("revolutions_per_minute", Count(60, 60_000_000)),
            Field("head_count", Count(1, 1_000)),
            Field("bit_zone_count", Count(1, 10_000)),
            Field("outer_track_blocks", Count(1, 1_000_000)),
            Field("inner_track_blocks", Count(1, 1_000_000)),
            Field("track_switch_ns", Count(0, SECOND_NS)),
            Field("write_retry_every_tracks", Count(0, 1 << 40)),
        ],
        optional: &[],
        may_miss: false,
    },
    Table {
        name: "seek",
        required: &[
            Field("settle_ns", Count(0, SECOND_NS)),
            Field("knee_stroke_ppm", Count(0, 1_000_000)),
            Field("knee_ns", Count(0, SECOND_NS)),
            Field("full_stroke_ns", Count(0, SECOND_NS)),
            Field("write_settle_ns", Count(0, SECOND_NS)),
        ],
        optional: &[],
        may_miss: false,
    },
    Table {
        name: "electronics",
        required: &[
            Field("command_overhead_ns", Count(0, SECOND_NS)),
            Field("interface_bytes_per_s", Count(1_000_000, 1 << 40)),
            Field("look_ahead_blocks", Count(0, 1 << 30)),
            Field("write_cache_blocks", Count(0, 1 << 30)),
            Field("destage_choice_count", Count(1, 1 << 20)),
            Field("destage_idle_ns", Count(0, SECOND_NS)),
            Field("read_choice_count", Count(1, 1 << 20)),
            Field("flush_overhead_ns", Count(0, SECOND_NS)),
        ],
        optional: &[],
        may_miss: false,
    },
    Table {
        name: "published",
        required: &[Field("workload", Text), Field("value", Number), Field("source", Text)],
        optional: &[
            Field("request_len_bytes", Count(4_096, 16 << 20)),
            Field("queue_depth", Count(1, 1_024)),
        ],
        may_miss: true,
    },
];

/// Pairs of which the first may be at most the second.
const ORDERED: [(&str, &str); 3] = [
    ("platter.inner_track_blocks", "platter.outer_track_blocks"),
    ("seek.knee_ns", "seek.full_stroke_ns"),
    ("seek.settle_ns", "seek.knee_ns"),
];

/// The fields of one text, and what is wrong with them.
pub(super) struct Fields<'a> {
    text: &'a str,
    /// The line of each table and field, by its path. A figure's is `published.0.value`.
    lines: BTreeMap<String, usize>,
    counts: BTreeMap<String, u64>,
    faults: Vec<ProfileFault>,
}

impl<'a> Fields<'a> {
    /// Reads all fields of `text`.
    ///
    /// # Errors
    /// [`ProfileError::Faulty`]: it is no TOML.
    pub(super) fn read(text: &'a str) -> Result<Fields<'a>, ProfileError> {
        let (root, errors) = DeTable::parse_recoverable(text);
        let (lines, counts) = (BTreeMap::new(), BTreeMap::new());
        let mut fields = Fields { text, lines, counts, faults: Vec::new() };
        for error in errors {
            let line = error.span().map(|span| fields.line_at(span.start));
            let message = format!("not TOML: {}", error.message().replace('\n', ", "));
            fields.faults.push(ProfileFault { line, message });
        }
        if fields.faults.is_empty() {
            fields.read_table("", root.get_ref());
            fields.check_order();
        }
        match fields.faults.iter().any(|fault| fault.message.starts_with("not TOML")) {
            true => Err(fields.error()),
            false => Ok(fields),
        }
    }

    /// Adds a fault of the field at `path`.
    pub(super) fn fault(&mut self, path: &str, message: impl fmt::Display) {
        // A field that the text leaves to its default has the line of its table.
        let table = path.rsplit_once('.').map_or("", |(table, _)| table);
        let line = [path, table].iter().find_map(|path| self.lines.get(*path)).copied();
        self.faults.push(ProfileFault { line, message: message.to_string() });
    }

    /// # Errors
    /// [`ProfileError::Faulty`] with all faults.
    pub(super) fn finish(self) -> Result<(), ProfileError> {
        if self.faults.is_empty() { Ok(()) } else { Err(self.error()) }
    }

    fn error(self) -> ProfileError {
        let mut faults = self.faults;
        faults.sort_by_key(|fault| fault.line);
        ProfileError::Faulty { faults }
    }

    fn line_at(&self, offset: usize) -> usize {
        let before = self.text.as_bytes().iter().take(offset);
        1 + before.filter(|&&byte| byte == b'\n').count()
    }

    /// Reads the table called `name` and those in it.
    fn read_table(&mut self, name: &str, table: &DeTable<'_>) {
        let spec = TABLES.iter().find(|spec| spec.name == name).expect("the caller found it");
        self.read_fields(name, spec, table);
        let inner: Vec<_> = TABLES.iter().filter(|inner| inner.is_in(name)).collect();
        for inner in inner {
            let key = inner.name.rsplit_once('.').map_or(inner.name, |(_, key)| key);
            let found = table.iter().find(|(found, _)| found.get_ref() == key);
            let Some((at, value)) = found else {
                if !inner.may_miss {
                    self.fault(name, format!("the table [{}] is missing", inner.name));
                }
                continue;
            };
            self.lines.insert(inner.name.to_owned(), self.line_at(at.span().start));
            match (value.get_ref(), inner.name) {
                (DeValue::Table(table), name) if name != "published" => {
                    self.read_table(name, table);
                }
                (DeValue::Array(figures), "published") => self.read_figures(inner, figures.iter()),
                _ => self.fault(inner.name, format!("{} is not a table", inner.name)),
            }
        }
    }

    fn read_figures<'v>(
        &mut self,
        spec: &Table,
        figures: impl Iterator<Item = &'v Spanned<DeValue<'v>>>,
    ) {
        for (n, figure) in figures.enumerate() {
            let name = format!("published.{n}");
            self.lines.insert(name.clone(), self.line_at(figure.span().start));
            match figure.get_ref() {
                DeValue::Table(table) => self.read_fields(&name, spec, table),
                _ => self.fault(&name, "published is not a list of tables"),
            }
        }
    }

    /// Reads the fields of one table, without the tables in it.
    fn read_fields(&mut self, name: &str, spec: &Table, table: &DeTable<'_>) {
        let path =
            |key: &str| if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
        let shown = |key: &str| spec.shown(key);
        for (key, value) in table {
            let (key, at) = (key.get_ref().as_ref(), key.span().start);
            let path = path(key);
            if TABLES.iter().any(|inner| inner.is_in(spec.name) && inner.name == path) {
                continue;
            }
            self.lines.insert(path.clone(), self.line_at(at));
            let known = spec.required.iter().chain(spec.optional).find(|field| field.0 == key);
            match known {
                None => {
                    let known: Vec<&str> = spec.fields().collect();
                    let known = known.join(", ");
                    self.fault(&path, format!("unknown field `{}`; there are {known}", shown(key)));
                }
                Some(Field(_, kind)) => self.read_value(&path, &shown(key), *kind, value),
            }
        }
        for Field(key, _) in spec.required {
            if !table.iter().any(|(found, _)| found.get_ref() == key) {
                self.fault(name, format!("missing field `{}`", shown(key)));
            }
        }
    }

    fn read_value(&mut self, path: &str, shown: &str, kind: Kind, value: &Spanned<DeValue<'_>>) {
        let value = value.get_ref();
        match (kind, value) {
            (Text, DeValue::String(_)) | (Truth, DeValue::Boolean(_)) => {}
            (Number, DeValue::Integer(_) | DeValue::Float(_)) => {}
            (Count(min, max), DeValue::Integer(number)) => {
                let got = u64::from_str_radix(number.as_str(), number.radix()).ok();
                match got.filter(|got| min <= *got && *got <= max) {
                    Some(got) => drop(self.counts.insert(path.to_owned(), got)),
                    None => {
                        let must = format!("it must be between {min} and {max}");
                        self.fault(path, format!("{shown} is {number}; {must}"));
                    }
                }
            }
            _ => {
                let wanted = match kind {
                    Text => "a text in quotes",
                    Count(..) => "a whole number",
                    Number => "a number",
                    Truth => "true or false",
                };
                let got = value.type_str();
                self.fault(path, format!("{shown} is of type {got}; it must be {wanted}"));
            }
        }
    }

    fn check_order(&mut self) {
        for (less, more) in ORDERED {
            let (Some(&got), Some(&max)) = (self.counts.get(less), self.counts.get(more)) else {
                continue;
            };
            if max < got {
                let must = format!("it must be at most {max}, which is {more}");
                self.fault(less, format!("{less} is {got}; {must}"));
            }
        }
    }
}

impl Table {
    /// Whether this is a table directly in the one called `name`.
    fn is_in(&self, name: &str) -> bool {
        let outer = self.name.rsplit_once('.').map_or("", |(outer, _)| outer);
        !self.name.is_empty() && outer == name
    }

    fn fields(&self) -> impl Iterator<Item = &'static str> {
        self.required.iter().chain(self.optional).map(|field| field.0)
    }

    /// The field `key` with the name of its table.
    fn shown(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }
}

/// The tables and fields in the order of the documentation, each with its range.
#[cfg(test)]
pub(super) fn reference() -> Vec<(String, String)> {
    let range = |kind: Kind| match kind {
        Text => "text".to_owned(),
        Number => "number".to_owned(),
        Truth => "true or false".to_owned(),
        Count(0, u64::MAX) => "whole number".to_owned(),
        Count(min, max) => format!("{min} to {max}"),
    };
    let fields = |table: &'static Table| table.required.iter().chain(table.optional);
    let lines = TABLES
        .iter()
        .flat_map(|table| fields(table).map(|Field(key, kind)| (table.shown(key), range(*kind))));
    lines.collect()
}
