//! The tables of `docs/guide/zones.md`, executed cell by cell on a drive.
//!
//! ```text
//!   cell = (command, state)     blank drive -> prepare the state -> the command -> answer and states
//!                                                                   compared with the cell's text
//! ```

use imbrex_disk::{
    BLOCK_LEN_BYTES, BlockRange, Blocks, Disk, DiskError, Geometry, Lba, Persist, ZoneAction,
    ZoneId, ZoneInfo, ZoneState,
};

const PAGE: &str = include_str!("../../../../docs/guide/zones.md");

/// The number of written blocks in states between empty and full.
const WRITTEN: u64 = 2;

/// A drive under test.
pub(crate) trait Drive {
    /// The disk as it is now.
    fn disk(&self) -> &dyn Disk;
    /// Makes every zone blank and writable.
    fn blank(&mut self);
    /// Makes the drive give `zone` up. Returns false if the drive cannot be made to.
    fn give_up(&mut self, zone: ZoneId, state: ZoneState) -> bool;
    /// Turns the power off and on, after a flush.
    fn power_cycle(&mut self);
    /// Whether blocks that a given-up zone never held read as zeros.
    fn zeros_of_given_up(&self) -> bool;
}

/// Executes all cells. Returns the number of cells executed and those left out, each with the reason.
pub(crate) fn run(drive: &mut dyn Drive) -> (u32, Vec<(String, &'static str)>) {
    let mut test = Test { drive, done: 0, left: Vec::new() };
    test.one_zone();
    test.without_room();
    test.over_the_border();
    (test.done, test.left)
}

struct Test<'a> {
    drive: &'a mut dyn Drive,
    done: u32,
    left: Vec<(String, &'static str)>,
}

/// A table of the page: its header and rows, without the page's other text.
fn table(heading: &str) -> (Vec<&'static str>, Vec<Vec<&'static str>>) {
    let section = PAGE.split("\n## ").find(|text| text.starts_with(heading)).unwrap();
    let cells = |line: &'static str| -> Vec<&'static str> {
        line.trim_matches('|').split('|').map(str::trim).collect()
    };
    let mut lines = section.lines().filter(|line| line.starts_with('|')).map(cells);
    let header = lines.next().unwrap();
    let rows: Vec<_> = lines.skip(1).collect();
    assert!(rows.iter().all(|row| row.len() == header.len()), "{heading}");
    (header, rows)
}

fn words(state: ZoneState) -> &'static str {
    match state {
        ZoneState::NoPointer => "conventional",
        ZoneState::Empty => "empty",
        ZoneState::Open { explicit: false, .. } => "open by a write",
        ZoneState::Open { explicit: true, .. } => "open by command",
        ZoneState::Closed { .. } => "closed",
        ZoneState::Full => "full",
        ZoneState::ReadOnly => "read-only",
        ZoneState::Offline => "offline",
    }
}

fn reason(error: &DiskError) -> &'static str {
    match error {
        DiskError::NotAtWritePointer { .. } | DiskError::ReadAbovePointer { .. } => "no: pointer",
        DiskError::ZoneBoundary { .. } | DiskError::ReadBoundary { .. } => "no: boundary",
        DiskError::ZoneNotWritable { .. } => "no: state",
        DiskError::Offline { .. } => "no: offline",
        DiskError::NoSuchZone { .. } => "no: conventional",
        DiskError::TooManyZones { what: "open", .. } => "no: open",
        DiskError::TooManyZones { .. } => "no: active",
        other => panic!("an answer that the page does not know: {other}"),
    }
}

fn action(command: &str) -> Option<ZoneAction> {
    match command {
        "open" => Some(ZoneAction::Open),
        "close" => Some(ZoneAction::Close),
        "finish" => Some(ZoneAction::Finish),
        "reset" => Some(ZoneAction::Reset),
        _ => None,
    }
}

impl Test<'_> {
    fn geometry(&self) -> Geometry {
        *self.drive.disk().geometry()
    }

    fn conventional_count(&self) -> u32 {
        self.geometry().zones().unwrap().conventional_zone_count
    }

    fn is_strict(&self) -> bool {
        self.geometry().zones().unwrap().strict_reads
    }

    fn info(&self, zone: ZoneId) -> ZoneInfo {
        self.drive.disk().zone(zone).unwrap()
    }

    fn states(&self) -> Vec<ZoneState> {
        self.drive.disk().report_zones().iter().map(|info| info.state).collect()
    }

    fn write(&self, at: Lba, len: u64) -> Result<(), DiskError> {
        let data = vec![0xa5; Blocks::new(len).bytes() as usize];
        self.drive.disk().write(at, &data, Persist::Cached)
    }

    fn manage(&self, zone: ZoneId, action: ZoneAction) {
        self.drive.disk().manage_zone(zone, action).unwrap();
    }

    fn read(&self, at: Lba, len: u64) -> Result<&'static str, DiskError> {
        let mut buf = vec![0x11; len as usize * BLOCK_LEN_BYTES];
        self.drive.disk().read(at, &mut buf)?;
        Ok(if buf.iter().all(|&byte| byte == 0) { "zeros" } else { "data" })
    }

    fn left_out(&mut self, cell: &str, why: &'static str) {
        self.left.push((cell.to_owned(), why));
    }

    /// Puts a zone of a blank drive into the state of a column. Returns false if that is impossible.
    fn prepare(&mut self, zone: ZoneId, state: &str) -> bool {
        let start = self.info(zone).start;
        let is_unwritten = matches!(state, "empty" | "open by command, unwritten");
        if !is_unwritten {
            self.write(start, WRITTEN).unwrap();
        }
        match state {
            "conventional" | "empty" | "open by a write" => {}
            "open by command" | "open by command, unwritten" => {
                self.manage(zone, ZoneAction::Open);
            }
            "closed" => self.manage(zone, ZoneAction::Close),
            "full" => {
                let capacity = self.info(zone).capacity.get();
                self.write(start + Blocks::new(WRITTEN), capacity - WRITTEN).unwrap();
            }
            "read-only" => return self.drive.give_up(zone, ZoneState::ReadOnly),
            "offline" => return self.drive.give_up(zone, ZoneState::Offline),
            other => panic!("the page has a state that nothing prepares: {other}"),
        }
        true
    }

    /// What a command answered, in the page's words. Checks that a refusal changed nothing, and that no
    /// other zone changed but by closing.
    fn answer(
        &self,
        zone: ZoneId,
        before: &[ZoneState],
        result: Result<&'static str, DiskError>,
    ) -> String {
        let after = self.states();
        let said = match result {
            Err(error) => {
                assert_eq!(before, after, "a refusal changes nothing: {error}");
                return reason(&error).to_owned();
            }
            Ok(said) => said,
        };
        let is_other = |index: &usize| *index != zone.0 as usize;
        let changed: Vec<_> =
            (0..after.len()).filter(is_other).filter(|&i| before[i] != after[i]).collect();
        let closes = changed.iter().all(|&i| matches!(after[i], ZoneState::Closed { .. }));
        assert!(closes && changed.len() <= 1, "{before:?} {after:?}");
        let (old, new) = (words(before[zone.0 as usize]), words(after[zone.0 as usize]));
        let mut text = match said {
            "" if old == new => "stays".to_owned(),
            "" => format!("becomes {new}"),
            read => read.to_owned(),
        };
        if !changed.is_empty() {
            text.push_str(", another closes");
        }
        text
    }

    /// The first zone of its kind that the tests use, and the pointer after [`Test::prepare`].
    fn target(&self, state: &str) -> ZoneId {
        ZoneId(if state == "conventional" { 0 } else { self.conventional_count() })
    }

    fn one_zone(&mut self) {
        let (states, rows) = table("One zone");
        for row in rows {
            let is_strict_row = row[0].ends_with(", strict");
            if row[0].starts_with("read, above") && is_strict_row != self.is_strict() {
                continue;
            }
            for (&state, &expected) in states.iter().zip(&row).skip(1) {
                let cell = format!("{}, {state}", row[0]);
                if expected == "-" {
                    continue;
                }
                if state == "conventional" && self.conventional_count() < 2 {
                    self.left_out(&cell, "the drive has fewer than two conventional zones");
                    continue;
                }
                self.drive.blank();
                let zone = self.target(state);
                if !self.prepare(zone, state) {
                    self.left_out(&cell, "the drive cannot be made to give a zone up");
                    continue;
                }
                let found = self.command(row[0], zone, state);
                let is_unknown = state == "read-only" && !self.drive.zeros_of_given_up();
                let same = found == expected || (is_unknown && expected == "zeros");
                assert!(same, "{cell}: the page says {expected}, the drive {found}");
                self.done += 1;
            }
        }
    }

    fn command(&mut self, command: &str, zone: ZoneId, state: &str) -> String {
        let before = self.states();
        let ZoneInfo { start, capacity, len, .. } = self.info(zone);
        let is_unwritten = matches!(state, "empty" | "open by command, unwritten");
        let written = if is_unwritten { 0 } else { WRITTEN };
        let pointer = start + Blocks::new(written);
        let done = |result: Result<(), DiskError>| result.map(|()| "");
        let result = match command {
            "read, written blocks" => self.read(start, 1),
            "read, above the pointer" | "read, above the pointer, strict" => self.read(pointer, 1),
            "write, at the pointer" => done(self.write(pointer, 1)),
            "write, up to the capacity" => done(self.write(pointer, capacity.get() - written)),
            "write, not at the pointer" => done(self.write(pointer + Blocks::new(1), 1)),
            "write, over the zone's end" => done(self.write(pointer, len.get() - written + 1)),
            "the power goes and returns" => {
                self.drive.disk().flush().unwrap();
                self.drive.power_cycle();
                Ok("")
            }
            name => {
                let action = action(name).unwrap_or_else(|| panic!("no such command: {name}"));
                done(self.drive.disk().manage_zone(zone, action))
            }
        };
        self.answer(zone, &before, result)
    }

    fn without_room(&mut self) {
        let (header, rows) = table("Without room");
        let spec = *self.geometry().zones().unwrap();
        for row in rows {
            for (&condition, &expected) in header.iter().zip(&row).skip(1) {
                let cell = format!("{}, {condition}", row[0]);
                let is_active = condition == "all active places taken";
                let limit = if is_active { spec.active_zone_limit } else { spec.open_zone_limit };
                let Some(limit) = limit else {
                    self.left_out(&cell, "the drive has no such limit");
                    continue;
                };
                self.drive.blank();
                let zone = self.target("empty");
                let is_closed = row[0].ends_with("a closed zone");
                if is_closed {
                    assert!(self.prepare(zone, "closed"));
                }
                self.take_places(zone, condition, limit - u32::from(is_active && is_closed));
                let found = match row[0].split(',').next().unwrap() {
                    "write" => {
                        let state = if is_closed { "closed" } else { "empty" };
                        self.command("write, at the pointer", zone, state)
                    }
                    name => self.command(name, zone, "empty"),
                };
                assert_eq!(found, expected, "{cell}");
                self.done += 1;
            }
        }
    }

    /// Takes `count` places by zones other than `zone`.
    fn take_places(&mut self, zone: ZoneId, condition: &str, count: u32) {
        for other in (zone.0 + 1..=zone.0 + count).map(ZoneId) {
            let is_first = other.0 == zone.0 + 1;
            let state = match condition {
                "all open places taken, one by a write" if is_first => "open by a write",
                "all active places taken" => "closed",
                _ => "open by command",
            };
            assert!(self.prepare(other, state));
        }
    }

    fn over_the_border(&mut self) {
        let (header, rows) = table("From one zone");
        assert_eq!(header[2..], ["read", "read, strict", "write"]);
        for row in rows {
            let cell = format!("from {} into {}", row[0], row[1]);
            let conventional_count = self.conventional_count();
            let first = match (row[0], row[1]) {
                ("conventional", "conventional") if conventional_count > 1 => ZoneId(0),
                ("conventional", "sequential") if conventional_count > 0 => {
                    ZoneId(conventional_count - 1)
                }
                ("sequential", "sequential") => ZoneId(conventional_count),
                _ => {
                    self.left_out(&cell, "the drive has no such zones");
                    continue;
                }
            };
            self.drive.blank();
            for zone in [first, ZoneId(first.0 + 1)] {
                let ZoneInfo { start, capacity, .. } = self.info(zone);
                self.write(start, capacity.get()).unwrap();
            }
            let before = self.states();
            let end = self.geometry().zone_range(first).unwrap().end();
            let across = BlockRange::new(Lba::new(end.get() - 1), Blocks::new(2));
            let read = self.read(across.start, across.len.get());
            let expected = row[if self.is_strict() { 3 } else { 2 }];
            assert_eq!(self.answer(first, &before, read), expected, "read {cell}");
            let wrote = self.write(across.start, across.len.get()).map(|()| "");
            assert_eq!(self.answer(first, &before, wrote), row[4], "write {cell}");
            self.done += 2;
        }
    }
}
