//! The control socket of a server: what an operator may ask, and the answers.

use super::elastic::BufferLen;
use super::live::Counting;
use crate::interrupt::pause;
use imbrex_disk::{Blocks, ByteSize};
use imbrex_serve::control::Control;
use imbrex_translate::{BlockDriver, DriverCounters};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// The requests, with what they do.
const REQUESTS: [(&str, &str); 6] = [
    ("status", "how the device is"),
    ("counters", "what clients, the drive and the block driver did"),
    ("buffer LEN", "set the length of the write buffer, such as 256MiB"),
    ("checkpoint", "write a checkpoint, after which opening has little to replay"),
    ("clean", "clean zones once, whether or not room is needed"),
    ("help", "list the requests"),
];

/// How long the host has the drive between two steps of a cleaning that an operator asked for.
const PAUSE_MS: u32 = 1;

/// A device that is served, and its buffer if it has one.
#[derive(Debug)]
pub(super) struct DeviceControl {
    pub(super) counting: Counting,
    pub(super) len_bytes: u64,
    pub(super) is_read_only: bool,
    pub(super) buffer: Option<Arc<BufferLen>>,
}

impl Control for DeviceControl {
    fn answer(&self, request: &str, is_stopping: &dyn Fn() -> bool) -> String {
        let words: Vec<&str> = request.split_whitespace().collect();
        let answered = match words[..] {
            ["status"] => Ok(self.status()),
            ["counters"] => Ok(self.counters()),
            ["buffer", len] => self.set_buffer(len),
            ["checkpoint"] => self.checkpoint(),
            ["clean"] => self.clean(is_stopping),
            ["help"] => Ok(help()),
            _ => {
                let known: Vec<&str> = REQUESTS.iter().map(|(name, _)| *name).collect();
                Err(format!(
                    "there is no request {request:?}; the requests are {}",
                    known.join(", ")
                ))
            }
        };
        match answered {
            Ok(value) => json!({ "ok": value }),
            Err(fault) => json!({ "error": fault }),
        }
        .to_string()
    }
}

fn help() -> Value {
    let requests = REQUESTS.iter().map(|(name, what)| ((*name).to_owned(), json!(what)));
    Value::Object(requests.collect())
}

impl DeviceControl {
    /// The block driver, to change something.
    fn driver(&self) -> Result<&Arc<BlockDriver>, String> {
        let shown = &self.counting.shown;
        let driver = self.counting.driver.as_ref().ok_or_else(|| {
            format!(
                "{shown} is served as it is: it has no write buffer, no map and no zones to clean"
            )
        })?;
        let status = driver.status();
        if status.is_read_only {
            return Err(format!("{shown} is served with --read-only: nothing is written to it"));
        }
        if status.is_poisoned {
            return Err(format!(
                "a failure stopped the device on {shown}: it changes nothing until it is served anew"
            ));
        }
        Ok(driver)
    }

    fn status(&self) -> Value {
        let counts = (self.counting.counts)();
        let mut status = json!({
            "served": self.counting.shown,
            "len_bytes": self.len_bytes,
            "is_read_only": self.is_read_only,
            "clients": {
                "connected_now": self.counting.connection_count(),
                "connections": counts.connections,
                "turned_away": counts.turned_away,
                "broken_off": counts.broken_off,
                "errors": counts.errors,
            },
        });
        if let (Some(driver), Some(buffer), Value::Object(all)) =
            (&self.counting.driver, &self.buffer, &mut status)
        {
            all.extend(driver_status(driver, buffer));
        }
        status
    }

    fn counters(&self) -> Value {
        let counts = (self.counting.counts)();
        let drive = self.counting.drive.counters();
        let mut counters = json!({
            "clients": {
                "reads": counts.reads,
                "read_bytes": counts.read_bytes,
                "writes": counts.writes,
                "written_bytes": counts.written_bytes,
                "flushes": counts.flushes,
                "trims": counts.trims,
                "zeroes": counts.zeroes,
                "errors": counts.errors,
            },
            "drive": {
                "reads": drive.reads,
                "read_bytes": drive.read_bytes,
                "writes": drive.writes,
                "written_bytes": drive.written_bytes,
                "flushes": drive.flushes,
                "zone_resets": drive.zone_resets,
                "busy_ns": drive.busy_ns,
            },
        });
        if let (Some(driver), Value::Object(all)) = (&self.counting.driver, &mut counters) {
            all.insert("driver".to_owned(), driver_counters(&driver.driver_counters()));
        }
        counters
    }

    fn set_buffer(&self, text: &str) -> Result<Value, String> {
        let len: ByteSize = text.parse()?;
        let driver = self.driver()?;
        let buffer = self.buffer.as_ref().expect("a driver has a buffer");
        buffer.set(len)?;
        let status = driver.status();
        let mut told = json!({
            "len_bytes": buffer.status().capacity_bytes,
            "wanted_bytes": len.0,
            "used_bytes": (status.buffered - status.clean).bytes(),
            "clean_bytes": status.clean.bytes(),
        });
        if status.journal_len.bytes() < len.0 {
            told["note"] = json!(format!(
                "the journal of {} was made for a shorter buffer and bounds how much is kept",
                ByteSize(status.journal_len.bytes())
            ));
        }
        Ok(told)
    }

    fn checkpoint(&self) -> Result<Value, String> {
        let driver = self.driver()?;
        driver.checkpoint().map_err(|error| self.failed("the checkpoint", &error))?;
        let status = driver.status();
        Ok(json!({ "len_bytes": status.checkpoint_len_bytes }))
    }

    /// One cleaning, with the host's requests between its steps.
    fn clean(&self, is_stopping: &dyn Fn() -> bool) -> Result<Value, String> {
        let driver = self.driver()?;
        let before = driver.driver_counters();
        while driver.clean_step_now().map_err(|error| self.failed("cleaning", &error))? {
            if is_stopping() {
                return Err(
                    "the server ends; the cleaning goes on when the device is opened again"
                        .to_owned(),
                );
            }
            pause(PAUSE_MS);
        }
        let after = driver.driver_counters();
        Ok(json!({
            "cleaned_zones": after.cleaned_zones - before.cleaned_zones,
            "moved_bytes": Blocks::new(after.moved_blocks - before.moved_blocks).bytes(),
            "free_zones": after.free_zones,
        }))
    }

    fn failed(&self, what: &str, error: &imbrex_disk::DiskError) -> String {
        format!("{what} failed on {}: {}", self.counting.shown, imbrex::stack::error_text(error))
    }
}

/// What the block driver adds to the status.
fn driver_status(driver: &BlockDriver, buffer: &BufferLen) -> Map<String, Value> {
    let (now, counters, len) = (driver.status(), driver.driver_counters(), buffer.status());
    let mut buffer = json!({
        "used_bytes": (now.buffered - now.clean).bytes(),
        "clean_bytes": now.clean.bytes(),
        "memory_bytes": counters.buffer_bytes,
    });
    if !now.is_read_only {
        buffer["len_bytes"] = json!(len.capacity_bytes);
        buffer["wanted_bytes"] = json!(len.wanted_bytes);
        if len.len_bytes < len.capacity_bytes {
            buffer["shrinking_to_bytes"] = json!(len.len_bytes);
        }
    }
    if let Some(min_bytes) = len.min_bytes.filter(|_| !now.is_read_only) {
        buffer["min_bytes"] = json!(min_bytes);
        match (len.stalled_permille, len.fault) {
            (_, Some(fault)) => buffer["pressure_unknown"] = json!(fault),
            (permille, None) => {
                buffer["memory_stall_percent"] =
                    json!(permille.map(|permille| permille as f64 / 10.0));
            }
        }
    }
    let parts = json!({
        "buffer": buffer,
        "map": {
            "nodes": counters.mapping_nodes,
            "nodes_on_drive": counters.mapping_nodes_on_drive,
            "memory_bytes": counters.mapping_bytes,
        },
        "journal": {
            "zones": now.journal_zone_count,
            "free_zones": now.free_journal_zone_count,
            "len_bytes": now.journal_len.bytes(),
            "needed_bytes": now.active_journal_len.bytes(),
        },
        "zones": {
            "data": now.data_zone_count,
            "free": now.free_zone_count,
            "being_cleaned": now.cleaning_zone_count,
            "left_to_move_bytes": now.cleaning_left.bytes(),
        },
        "checkpoint": {
            "len_bytes": now.checkpoint_len_bytes,
            "is_being_written": now.is_writing_checkpoint,
        },
        "is_stopped_by_a_failure": now.is_poisoned,
    });
    let Value::Object(parts) = parts else { unreachable!("it was written as an object") };
    parts
}

/// The counters of the block driver, and what it wrote for each block of the host's.
fn driver_counters(of: &DriverCounters) -> Value {
    let bytes = |blocks: u64| Blocks::new(blocks).bytes();
    let written = of.written_blocks();
    json!({
        "host_bytes": bytes(of.host_blocks),
        "bypassed_bytes": bytes(of.bypassed_blocks),
        "journal_bytes": bytes(of.journal_blocks),
        "evicted_bytes": bytes(of.evicted_blocks),
        "evicted_for_the_journal_bytes": bytes(of.journal_evicted_blocks),
        "evicted_runs": of.evicted_runs,
        "moved_bytes": bytes(of.moved_blocks),
        "checkpoints": of.checkpoints,
        "checkpoint_bytes": bytes(of.checkpoint_blocks),
        "summary_bytes": bytes(of.summary_blocks),
        "write_amplification":
            (of.host_blocks > 0).then(|| written as f64 / of.host_blocks as f64),
        "cleaned_zones": of.cleaned_zones,
        "timely_cleanings": of.timely_cleanings,
        "urgent_cleanings": of.urgent_cleanings,
        "merged_nodes": of.merged_nodes,
        "wrong_bytes": bytes(of.wrong_blocks),
        "lost_bytes": bytes(of.lost_blocks),
        "read_from_second_copies": of.second_copies,
        "broken_by_a_power_cut": of.broken_blocks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use imbrex_disk::{BLOCK_LEN_BYTES, Disk, Geometry, GeometrySpec, Lba, Persist, Rule};
    use imbrex_disk_sim::SimDisk;
    use imbrex_serve::Counts;

    /// A drive without zones, for what needs none.
    fn plain() -> DeviceControl {
        let spec = GeometrySpec { len: Blocks::new(100), rule: Rule::Anywhere };
        let disk = SimDisk::builder(Geometry::new(spec).unwrap()).memory().unwrap();
        let counting = Counting {
            counts: Arc::new(|| Counts { connections: 3, reads: 5, ..Counts::default() }),
            connection_count: Arc::new(|| 2),
            drive: Arc::new(disk),
            driver: None,
            shown: "d.imbrex".to_owned(),
        };
        DeviceControl { counting, len_bytes: 409_600, is_read_only: false, buffer: None }
    }

    fn ask(control: &DeviceControl, request: &str) -> Value {
        serde_json::from_str(&control.answer(request, &|| false)).unwrap()
    }

    #[test]
    fn a_drive_without_zones_has_a_status_and_refuses_the_rest() {
        let control = plain();
        let status = &ask(&control, "status")["ok"];
        assert_eq!(
            (&status["served"], &status["len_bytes"]),
            (&json!("d.imbrex"), &json!(409_600))
        );
        assert_eq!(status["clients"]["connected_now"], 2);
        assert_eq!(ask(&control, " counters ")["ok"]["clients"]["reads"], 5);
        for request in ["buffer 64MiB", "checkpoint", "clean"] {
            let told = ask(&control, request)["error"].as_str().unwrap().to_owned();
            assert!(told.contains("served as it is"), "{request}: {told}");
        }
    }

    /// `buffer` said that it had set the length.
    #[test]
    fn a_device_that_a_failure_stopped_is_changed_no_more() {
        let sim = Arc::new(SimDisk::tiny_zoned(64, Blocks::new(256)));
        let options = imbrex_translate::DriverOptions {
            buffer_len: Blocks::holding(2 << 20),
            ..Default::default()
        };
        let drive = Arc::clone(&sim) as Arc<dyn Disk>;
        let driver = Arc::new(BlockDriver::format(Arc::clone(&drive), &options).unwrap());
        let mut control = plain();
        control.buffer = Some(Arc::new(BufferLen::new(Arc::clone(&driver), 2 << 20, None)));
        control.counting =
            Counting { drive, driver: Some(Arc::clone(&driver)), ..control.counting };
        assert_eq!(ask(&control, "buffer 1MiB")["ok"]["len_bytes"], 1 << 20);
        sim.cut_power();
        driver.write(Lba::new(0), &[1; BLOCK_LEN_BYTES], Persist::Through).unwrap_err();
        assert_eq!(ask(&control, "status")["ok"]["is_stopped_by_a_failure"], true);
        for request in ["buffer 2MiB", "checkpoint", "clean"] {
            let told = ask(&control, request)["error"].as_str().unwrap().to_owned();
            assert!(told.contains("a failure stopped the device on d.imbrex"), "{request}: {told}");
        }
        assert_eq!(driver.status().buffer_len.bytes(), 1 << 20);
    }

    #[test]
    fn what_is_no_request_is_answered_with_the_requests() {
        let control = plain();
        for request in ["stat", "buffer", "buffer 1 2", "status now", "\u{fffd}"] {
            let told = ask(&control, request)["error"].as_str().unwrap().to_owned();
            assert!(told.contains("the requests are status, counters, buffer LEN"), "{told}");
        }
        assert!(ask(&control, "buffer many")["error"].as_str().unwrap().contains("not a size"));
        assert_eq!(ask(&control, "help")["ok"].as_object().unwrap().len(), REQUESTS.len());
    }
}
