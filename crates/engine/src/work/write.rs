//! The write path: one writer at a time, from the gate to the memtable.
//!
//! ```text
//!   gate        stalls, refusals: before any lock is taken
//!   writer lock [ sequence numbers -> log -> memtable -> visible ]
//!   sync        after the lock, one for all who wait (`wal`)
//! ```
//!
//! Invariants
//!   E1  A write is in the log before it is in a memtable, and in the memtable before it is visible.
//!   E2  Sequence numbers in the logs are without gaps: a write that failed gives its numbers back.
//!   E3  A memtable begins and ends at the border of two logs.

use crate::EngineError;
use crate::batch::{KeyspaceId, SingleOp, WriteBatch};
use crate::key::{Kind, Seq};
use crate::options::WriteOptions;
use crate::store::keyspace::KeyspaceState;
use crate::store::space::{LONG_KEY_LEN_BYTES, long_key_len_bytes};
use crate::store::writer::Writer;
use crate::store::{Store, gate};
use crate::version::edit::LogId;
use crate::wal::{Wal, WalPosition};
use imbrex_files::{CommitKind, FileKind, GroupId, Hints, Tier};
use imbrex_record_log::Position;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// While compaction lags, a writer waits after so many bytes until twice as many were compacted.
const SLOWDOWN_STRIDE_BYTES: u64 = 1 << 20;

impl Store {
    /// Writes one operation. The lengths are checked.
    pub(crate) fn write_one(
        &self,
        keyspace: &KeyspaceState,
        kind: Kind,
        key: &[u8],
        value: &[u8],
        options: WriteOptions,
    ) -> Result<(), EngineError> {
        self.runtime.scheduler.yield_now();
        let len_bytes = key.len() + value.len();
        if self.gate() != 0 {
            self.pass_gate(kind == Kind::Put, len_bytes as u64)?;
        }
        let mut writer = self.writer.lock();
        // After the lock: a close and the drop of a keyspace wait for it, and who gives the store up does not.
        self.check_going()?;
        self.check_not_refused()?;
        self.make_room(&mut writer, keyspace, len_bytes)?;
        self.leave_full_flash(&mut writer, len_bytes)?;
        keyspace.check_exists()?;
        self.check_long_write(kind == Kind::Put, len_bytes as u64)?;
        if key.len() > LONG_KEY_LEN_BYTES || kind == Kind::RangeDelete {
            self.check_long_keys(long_key_len_bytes(kind, key, value))?;
        }
        let seq = writer.next_seq;
        let op = SingleOp::new(seq, keyspace.id, kind, key, value);
        let (wal, position, content) = self.log(&writer, &op.parts())?;
        let view = keyspace.view();
        view.active.note_log(writer.log);
        if self.options.logs_are_tables {
            let place = content.advanced(op.value_offset(), wal.frame_len_bytes());
            view.active.note_place(writer.log, wal, seq, place);
        }
        let wal = options.sync.then(|| Arc::clone(wal));
        writer.note_owner(keyspace.id);
        view.active.insert(kind, key, seq, value);
        self.end_write(&mut writer, seq, 1, len_bytes);
        drop(view);
        drop(writer);
        wal.map_or(Ok(()), |wal| self.sync_to(&wal, position))
    }

    /// Writes a batch: all of it or nothing.
    pub(crate) fn write_batch(
        &self,
        batch: &mut WriteBatch,
        options: WriteOptions,
    ) -> Result<(), EngineError> {
        self.runtime.scheduler.yield_now();
        if batch.is_empty() {
            return if options.sync { self.sync() } else { Ok(()) };
        }
        if self.gate() != 0 {
            let has_put = batch.view().ops().any(|(_, op)| op.kind == Kind::Put);
            self.pass_gate(has_put, batch.len_bytes() as u64)?;
        }
        let mut writer = self.writer.lock();
        self.check_going()?;
        self.check_not_refused()?;
        let mut touched: Vec<Arc<KeyspaceState>> = Vec::new();
        let mut long_keys_len_bytes = 0;
        let mut has_put = false;
        for (_, op) in batch.view().ops() {
            has_put |= op.kind == Kind::Put;
            long_keys_len_bytes += long_key_len_bytes(op.kind, op.key, op.value);
            if touched.iter().all(|keyspace| keyspace.id != op.keyspace) {
                let keyspace = self.existing(op.keyspace)?;
                keyspace.check_exists()?;
                touched.push(keyspace);
            }
        }
        for keyspace in &touched {
            self.make_room(&mut writer, keyspace, batch.len_bytes())?;
        }
        self.leave_full_flash(&mut writer, batch.len_bytes())?;
        self.check_long_keys(long_keys_len_bytes)?;
        self.check_long_write(has_put, batch.len_bytes() as u64)?;
        let first_seq = writer.next_seq;
        let (wal, position, content) = self.log(&writer, &[batch.encode(first_seq)])?;
        let (wal, log) = (Arc::clone(wal), writer.log);
        let mut len_bytes = 0;
        let mut last_seq = first_seq;
        for (seq, op) in batch.view().ops() {
            let keyspace = touched.iter().find(|keyspace| keyspace.id == op.keyspace);
            let view = keyspace.expect("every keyspace of the batch was looked up").view();
            view.active.note_log(log);
            if self.options.logs_are_tables {
                let place = content.advanced(op.value_offset, wal.frame_len_bytes());
                view.active.note_place(log, &wal, seq, place);
            }
            writer.note_owner(op.keyspace);
            view.active.insert(op.kind, op.key, seq, op.value);
            len_bytes += op.key.len() + op.value.len();
            last_seq = seq;
        }
        self.end_write(&mut writer, last_seq, batch.len() as u64, len_bytes);
        drop(writer);
        if options.sync { self.sync_to(&wal, position) } else { Ok(()) }
    }

    fn check_long_keys(&self, len_bytes: u64) -> Result<(), EngineError> {
        if len_bytes == 0 { Ok(()) } else { self.check_recoverable(0, len_bytes) }
    }

    fn existing(&self, id: KeyspaceId) -> Result<Arc<KeyspaceState>, EngineError> {
        self.keyspace(id).ok_or_else(|| EngineError::NoKeyspace { name: format!("#{}", id.0) })
    }

    fn log<'w>(
        &self,
        writer: &'w Writer,
        parts: &[&[u8]],
    ) -> Result<(&'w Arc<Wal>, WalPosition, Position), EngineError> {
        let wal = writer.wal.as_ref().expect("make_room left a log to write to");
        match wal.append(parts) {
            Ok((position, content)) => Ok((wal, position, content)),
            // A batch that is too long for any log is its writer's affair.
            Err(error @ EngineError::BatchLen { .. }) => Err(error),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn end_write(&self, writer: &mut Writer, last_seq: Seq, op_count: u64, len_bytes: usize) {
        writer.next_seq = Seq(last_seq.0 + 1);
        writer.user_bytes += len_bytes as u64;
        if writer.wal.as_ref().is_some_and(|wal| wal.is_on_flash()) {
            writer.offloaded_bytes += len_bytes as u64;
        }
        writer.op_count += op_count;
        self.publish(last_seq);
        let log_len_bytes = writer.wal.as_ref().map_or(0, |wal| wal.len_bytes());
        if writer.is_log_shared && writer.look_at_bytes <= log_len_bytes {
            writer.look_at_bytes = self.look_at_growth(log_len_bytes);
        }
    }

    fn sync_to(&self, wal: &Wal, position: WalPosition) -> Result<(), EngineError> {
        wal.sync_to(position).map_err(|error| self.failed(error))
    }

    /// Makes everything written so far durable.
    pub(crate) fn sync(&self) -> Result<(), EngineError> {
        let wal = self.writer.lock().wal.clone();
        self.check_poison()?;
        self.sync_wal(wal.as_deref())
    }

    /// As [`Store::sync`], for who has the log of the writer already.
    pub(crate) fn sync_wal(&self, wal: Option<&Wal>) -> Result<(), EngineError> {
        wal.map_or(Ok(()), |wal| wal.sync().map_err(|error| self.failed(error)))
    }

    /// Sees to a log, and to an active memtable of `keyspace` that is not full if that is possible, for a write of
    /// `len_bytes`.
    fn make_room(
        &self,
        writer: &mut Writer,
        keyspace: &KeyspaceState,
        len_bytes: usize,
    ) -> Result<(), EngineError> {
        if writer.wal.is_none() {
            return self.start_log(writer, len_bytes);
        }
        let view = keyspace.view();
        let is_full = self.options.memtable_len_bytes <= view.active.mem.len_bytes() as u64;
        let has_room = view.immutables.len() < self.options.immutable_memtable_count_max;
        drop(view);
        let is_elsewhere = self.options.offloads && writer.tier != self.wanted_tier();
        let is_log_due = is_elsewhere || self.is_shared_log_long(writer);
        let is_due = is_full || (has_room && is_log_due);
        if !is_due {
            return Ok(());
        }
        if has_room {
            // For the limit's sake those go that keep the oldest log, whoever writes.
            let is_own_due = is_full || is_elsewhere;
            self.rotate(writer, &|other| is_own_due && other.id == keyspace.id, len_bytes)?;
        }
        // Another log may lie on flash now. When the memtable is full again and still nothing is flushed, the
        // next writer waits.
        self.refresh_gate();
        Ok(())
    }

    /// Whether keyspaces share the log that is written and it is longer than all logs may be together: each of them may
    /// be far from a full memtable. Never before it is as long as a memtable, after which a log of one keyspace ends.
    fn is_shared_log_long(&self, writer: &Writer) -> bool {
        let limit = self.options.log_len_bytes_max.max(self.options.memtable_len_bytes);
        writer.is_log_shared && writer.wal.as_ref().is_some_and(|wal| limit < wal.len_bytes())
    }

    /// Ends a log on flash that has no room for a write of `len_bytes`, while what is in memory still fits.
    fn leave_full_flash(&self, writer: &mut Writer, len_bytes: usize) -> Result<(), EngineError> {
        let wal = writer.wal.as_ref().filter(|_| writer.tier == Tier::Fast);
        if wal.is_none_or(|wal| wal.reserve(len_bytes)) {
            return Ok(());
        }
        self.rotate(writer, &|_| false, len_bytes)
    }

    /// Ends the log and the memtables of the keyspaces `which` says, and of those that keep logs
    /// beyond the limit; begins new ones (E3), with room for a first write of `len_bytes`.
    pub(crate) fn rotate(
        &self,
        writer: &mut Writer,
        which: &dyn Fn(&KeyspaceState) -> bool,
        len_bytes: usize,
    ) -> Result<(), EngineError> {
        if let Some(wal) = &writer.wal {
            let becomes_table = self.options.logs_are_tables && !writer.is_log_shared;
            let ended = if becomes_table { wal.close() } else { wal.finish() };
            ended.map_err(|error| self.failed(error))?;
            writer.finished_log_bytes += wal.len_bytes();
            self.end_log(writer.log, wal.len_bytes());
            writer.wal = None;
        }
        if writer.is_log_shared {
            // Also where no other log can be begun: this one has ended.
            for keyspace in self.all_keyspaces() {
                if let Some(band) = keyspace.view().active.band() {
                    band.spoil();
                }
            }
        }
        self.start_log(writer, len_bytes)?;
        let keeps_old_logs = self.log_keepers();
        for keyspace in self.all_keyspaces() {
            // A band has the writes of one memtable, so that both end together (B1).
            let is_due = which(&keyspace)
                || keeps_old_logs.contains(&keyspace.id)
                || self.options.logs_are_tables;
            if is_due {
                keyspace.rotate(writer.log);
            }
        }
        self.refresh_space();
        self.runtime.scheduler.notify();
        Ok(())
    }

    /// The keyspaces whose memtables keep the oldest log, where logs are too long together.
    fn log_keepers(&self) -> Vec<KeyspaceId> {
        let limit = self.options.log_len_bytes_max;
        let Some((oldest, _)) = self.oldest_log().filter(|&(_, len_bytes)| len_bytes > limit)
        else {
            return Vec::new();
        };
        let keyspaces = self.all_keyspaces();
        let keeps = |k: &&Arc<KeyspaceState>| k.view().active.first_log() == Some(oldest);
        keyspaces.iter().filter(keeps).map(|keyspace| keyspace.id).collect()
    }

    fn start_log(&self, writer: &mut Writer, len_bytes: usize) -> Result<(), EngineError> {
        if self.are_logs_kept() {
            return Err(self.no_space());
        }
        let id = LogId(self.new_id());
        let name = id.file_name();
        let tier = self.wanted_tier();
        // Frames add less than a thirty-second.
        let frame_len_bytes = self.options.log_frame_len_bytes as u64;
        let first_len_bytes = len_bytes as u64 + len_bytes as u64 / 32 + frame_len_bytes;
        let hints = Hints {
            tier,
            expected_len_bytes: Some(self.options.memtable_len_bytes.max(first_len_bytes)),
            purpose: CommitKind::Upkeep,
            // Says that a table may follow in the file: see `recover::is_finished`.
            group: self.options.logs_are_tables.then_some(GroupId(id.0)),
            ..Hints::new(FileKind::Log)
        };
        let created = self.files.create_log(&name, hints);
        let log = created.map_err(|source| self.files_failed("create a log", source))?;
        let frame_id = id.frame_id(self.files.format_id());
        let wal = Wal::new(name, log, frame_id, self.options.log_frame_len_bytes);
        writer.wal = Some(Arc::new(wal));
        writer.log = id;
        writer.look_at_bytes = 0;
        (writer.log_owner, writer.is_log_shared, writer.tier) = (None, false, tier);
        self.add_log(id, writer.next_seq);
        Ok(())
    }

    /// Waits or refuses as the gate says.
    #[cold]
    fn pass_gate(&self, is_put: bool, len_bytes: u64) -> Result<(), EngineError> {
        loop {
            let now = self.gate();
            self.check_not_refused()?;
            if now & gate::READ_ONLY != 0 {
                return Err(EngineError::ReadOnly);
            }
            if now & gate::CLOSED != 0 {
                return Err(EngineError::Closed);
            }
            if now & gate::LOW_SPACE != 0 {
                self.look_for_space();
            }
            let is_short = now & gate::LOW_SPACE != 0 && !self.refresh_space();
            if is_short && self.are_logs_kept() {
                self.wait_for_room(len_bytes)?;
                continue;
            }
            if is_short && is_put {
                return Err(self.no_space());
            }
            if is_short {
                self.wait_for_room(len_bytes)?;
            }
            if now & gate::STOP != 0 && !is_short {
                self.wait_while_stopped()?;
                continue;
            }
            if now & gate::SLOWDOWN != 0 && !is_short {
                self.slow_down(len_bytes)?;
            }
            if now & gate::CROWDED != 0 && !is_short {
                self.delay_offloading();
            }
            return Ok(());
        }
    }

    /// Lets a delete, or who waits for logs of before, wait as long as there is hope that it finds room.
    fn wait_for_room(&self, len_bytes: u64) -> Result<(), EngineError> {
        let Err(refusal) = self.check_recoverable(len_bytes, 0) else { return Ok(()) };
        let has_room = || self.check_recoverable(len_bytes, 0).is_ok();
        let mut ready = || has_room() || self.gate() & gate::ENDS != 0 || self.is_at_rest();
        if self.options.background_work && self.runtime.scheduler.wait_until(&mut ready).is_ok() {
            self.check_open()?;
            self.check_not_refused()?;
            return self.check_recoverable(len_bytes, 0);
        }
        Err(refusal)
    }

    /// Waits for a flush or compaction. For a flush that the background does not try any more nobody
    /// waits: it is tried here, and what it says of the space is the write's answer.
    fn wait_while_stopped(&self) -> Result<(), EngineError> {
        let start_ns = self.runtime.clock.now_ns();
        self.runtime.scheduler.notify();
        let ends = gate::ENDS | gate::LOW_SPACE;
        let is_over = || self.gate() & gate::STOP == 0 || self.gate() & ends != 0;
        let mut ready = || is_over() || self.is_flush_stuck();
        let waited = self.runtime.scheduler.wait_until(&mut ready);
        let end_ns = self.runtime.clock.now_ns();
        self.tally.stall_stop.note(end_ns.saturating_sub(start_ns));
        waited.map_err(|_| EngineError::Stalled { what: "a flush or compaction" })?;
        if is_over() { Ok(()) } else { self.flush_stuck() }
    }

    /// Lets a stretch of writes pass, then waits until compaction has done twice as much.
    fn slow_down(&self, len_bytes: u64) -> Result<(), EngineError> {
        let before = self.tally.slowed_bytes.fetch_add(len_bytes, Ordering::Relaxed);
        let after = before + len_bytes;
        if before / SLOWDOWN_STRIDE_BYTES == after / SLOWDOWN_STRIDE_BYTES {
            return Ok(());
        }
        let start_ns = self.runtime.clock.now_ns();
        let goal = self.tally.background_bytes.load(Ordering::Relaxed) + 2 * SLOWDOWN_STRIDE_BYTES;
        let mut ready = || {
            self.gate() & !gate::CROWDED != gate::SLOWDOWN
                || self.tally.background_bytes.load(Ordering::Relaxed) >= goal
        };
        let waited = self.runtime.scheduler.wait_until(&mut ready);
        let end_ns = self.runtime.clock.now_ns();
        self.tally.stall_slowdown.note(end_ns.saturating_sub(start_ns));
        waited.map_err(|_| EngineError::Stalled { what: "compaction" })
    }

    /// Holds one write up for a while.
    pub(crate) fn delay_offloading(&self) {
        let clock = &self.runtime.clock;
        let start_ns = clock.now_ns();
        clock.wait_until_ns(start_ns.saturating_add(self.options.offload_delay_ns));
        self.tally.stall_offload.note(clock.now_ns().saturating_sub(start_ns));
    }
}
