//! A human-readable description of a table: the output of `imbrex dump`.

use super::apart::{ApartPlace, no_place};
use super::format::StoredBlock;
use super::iter::TableReadOptions;
use super::reader::Table;
use super::reading::read_range;
use crate::EngineError;
use crate::iter::InternalIter;
use crate::key::{InternalKey, Kind};
use std::sync::Arc;

/// The number of bytes of a key or value to print; the rest is cut.
const SHOWN_LEN_BYTES_MAX: usize = 64;

fn shown(bytes: &[u8]) -> String {
    match bytes.get(..SHOWN_LEN_BYTES_MAX) {
        Some(head) if bytes.len() > SHOWN_LEN_BYTES_MAX => {
            format!("\"{}\"... ({} bytes)", head.escape_ascii(), bytes.len())
        }
        _ => format!("\"{}\"", bytes.escape_ascii()),
    }
}

fn shown_separator(key: InternalKey<'_>) -> String {
    match key.trailer.0 {
        0 => shown(key.user_key),
        _ => format!("{} #{}", shown(key.user_key), key.trailer.seq().0),
    }
}

impl Table {
    /// Passes the description of the table to `line`, line by line: its parts, properties, blocks
    /// and range tombstones, and all entries if `with_entries`.
    ///
    /// # Errors
    /// [`EngineError::Corrupt`], [`EngineError::Files`]. The parts that could be read until then
    /// have been described.
    pub(crate) fn describe(
        self: &Arc<Self>,
        with_entries: bool,
        line: &mut dyn FnMut(&str),
    ) -> Result<(), EngineError> {
        self.describe_parts(line);
        self.describe_properties(line);
        self.describe_blocks(line)?;
        for fragment in self.range_tombstones().fragments() {
            let seqs: Vec<String> = fragment.seqs.iter().map(|s| format!("#{}", s.0)).collect();
            let (start, end) = (shown(fragment.start), shown(fragment.end));
            line(&format!("range tombstone {start}..{end} {}", seqs.join(" ")));
        }
        if with_entries { self.describe_entries(line) } else { Ok(()) }
    }

    fn describe_parts(&self, line: &mut dyn FnMut(&str)) {
        let footer = &self.footer;
        line(&format!(
            "table {} in {}, {} bytes, format version {}",
            footer.table_id,
            self.name(),
            self.len_bytes(),
            footer.version(),
        ));
        let data_end = footer.data_len_bytes;
        let parts = [
            ("data blocks", 0, data_end),
            ("index partitions", data_end, data_end + footer.index_len_bytes),
            ("tombstones, copy", footer.tombstones_copy().offset, footer.tombstones_copy().end()),
            ("top index, copy", footer.top_index_copy().offset, footer.top_index_copy().end()),
            ("footer, copy", footer.footer_copy().offset, footer.footer_copy().end()),
            ("filter", footer.filter().offset, footer.filter().end()),
            ("properties", footer.properties().offset, footer.properties().end()),
            ("zeros", footer.gap().offset, footer.gap().end()),
            ("range tombstones", footer.tombstones().offset, footer.tombstones().end()),
            ("top index", footer.top_index().offset, footer.top_index().end()),
            ("footer", footer.top_index().end(), self.len_bytes()),
        ];
        for (name, start, end) in parts {
            match end - start {
                0 => line(&format!("  {name:<18} none")),
                len => line(&format!("  {name:<18} {start}..{end} ({len} bytes)")),
            }
        }
    }

    fn describe_properties(&self, line: &mut dyn FnMut(&str)) {
        let p = self.properties();
        line("properties");
        line(&format!("  entries            {} ({} deletes)", p.entry_count, p.delete_count));
        line(&format!("  range tombstones   {}", p.range_tombstone_count));
        let (smallest, largest) = (shown(&p.smallest_user_key), shown(&p.largest_user_key));
        line(&format!("  keys               {smallest} to {largest}"));
        line(&format!("  sequence numbers   {} to {}", p.smallest_seq.0, p.largest_seq.0));
        let (keys, values) = (p.raw_key_len_bytes, p.raw_value_len_bytes);
        line(&format!("  raw bytes          {keys} of keys, {values} of values"));
        line(&format!("  filter             {} bits a key", p.filter_bits_per_key));
        if let Some(values) = &self.values {
            line(&format!(
                "  values             in a log of {} bytes before it",
                values.len_bytes()
            ));
        }
        if let Some(histogram) = &p.histogram {
            let count = histogram.share_count();
            let lens = (0..count).map(|index| histogram.share_len_bytes(index));
            let (min, max) = (lens.clone().min().unwrap_or(0), lens.max().unwrap_or(0));
            line(&format!("  byte histogram     {count} shares of {min} to {max} bytes"));
        }
    }

    fn describe_blocks(&self, line: &mut dyn FnMut(&str)) -> Result<(), EngineError> {
        let mut scratch = Vec::new();
        for index in 0..self.top_index.len() {
            let partition = self.partition(index)?;
            let handle = self.top_index.handle(index);
            let (count, len) = (partition.len(), handle.len_bytes);
            let reach = shown_separator(self.top_index.separator(index));
            line(&format!(
                "index partition {index} at {}: {len} bytes, {count} blocks, up to {reach}",
                handle.offset
            ));
            for block in 0..partition.len() {
                let handle = partition.handle(block);
                let range = handle.offset..handle.end();
                let stored = read_range(&*self.file, "data block", range, &mut scratch)?;
                let what = match StoredBlock::parse(self.footer.table_id, handle.offset, stored) {
                    Ok(b) => format!("{} bytes raw, {}", b.raw_len_bytes, b.compression),
                    Err(reason) => format!("DAMAGED: {reason}"),
                };
                let reach = shown_separator(partition.separator(block));
                let (at, len) = (handle.offset, handle.len_bytes);
                line(&format!("  block at {at}: {len} bytes, {what}, up to {reach}"));
            }
        }
        Ok(())
    }

    fn describe_entries(self: &Arc<Self>, line: &mut dyn FnMut(&str)) -> Result<(), EngineError> {
        let mut iter =
            self.iter(TableReadOptions { fill_cache: false, ..TableReadOptions::default() });
        iter.seek_to_first()?;
        while iter.valid() {
            iter.load_value()?;
            let key = iter.key();
            let (user_key, seq) = (shown(key.user_key), key.trailer.seq().0);
            match key.trailer.kind() {
                Some(Kind::Put) => {
                    line(&format!("{user_key} #{seq} put {}", shown(iter.value())));
                }
                Some(Kind::PutApart) => {
                    let place =
                        ApartPlace::decode(iter.value()).ok_or_else(|| no_place(self.name()))?;
                    let (len_bytes, holder) = (place.len_bytes(), place.origin);
                    line(&format!("{user_key} #{seq} put {len_bytes} bytes in table {holder}"));
                }
                _ => line(&format!("{user_key} #{seq} delete")),
            }
            iter.next()?;
        }
        Ok(())
    }
}
