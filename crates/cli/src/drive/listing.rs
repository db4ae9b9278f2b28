//! `drive list`: the block devices of this machine.

use crate::count::grouped;
use crate::error::{CliError, Context};
use crate::output::Table;
use crate::session::Session;
use imbrex_disk::ByteSize;
use imbrex_disk_host::{ListedDevice, list_devices};
use serde_json::json;

/// Arguments of `imbrex drive list`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Nothing is opened or written, and root is not needed. `drive format` also looks at what a \
                        device holds before it writes."
)]
pub(crate) struct ListArgs {}

impl ListArgs {
    pub(super) fn run(self, session: &mut Session) -> Result<(), CliError> {
        let is_json = session.out.is_json()?;
        let devices = list_devices().context(|| "cannot list the block devices")?;
        if is_json {
            let devices: Vec<_> = devices.iter().map(described).collect();
            return session.out.json(&json!(devices));
        }
        if devices.is_empty() {
            return session.out.line("this machine has no block device");
        }
        let mut table = Table::new(&["device", "size", "model", "kind", "can be used"]);
        for device in &devices {
            let obstacles = &device.obstacles;
            table.row(vec![
                device.path.display().to_string(),
                ByteSize(device.len_bytes).to_string(),
                if device.model.is_empty() { "?".to_owned() } else { device.model.clone() },
                kind(device),
                if obstacles.is_empty() {
                    "yes".to_owned()
                } else {
                    format!("no: {}", obstacles.join("; "))
                },
            ]);
        }
        session.out.bytes(table.text().as_bytes())
    }
}

/// What it is, in the words of `drive info`.
fn kind(device: &ListedDevice) -> String {
    let zones = match device.zone_len_bytes {
        Some(len_bytes) => {
            format!(", {} of {}", grouped(device.zone_count), ByteSize(len_bytes))
        }
        None => String::new(),
    };
    let kind = match device.zone_model.as_str() {
        "none" => "conventional".to_owned(),
        "host-managed" => format!("host-managed zones{zones}"),
        other => format!("{other} zones{zones}, used as conventional"),
    };
    if device.is_solid_state { format!("{kind}, solid state") } else { kind }
}

fn described(device: &ListedDevice) -> serde_json::Value {
    json!({
        "device": device.path.display().to_string(),
        "len_bytes": device.len_bytes,
        "model": device.model,
        "zone_model": device.zone_model,
        "zone_len_bytes": device.zone_len_bytes,
        "zone_count": device.zone_count,
        "solid_state": device.is_solid_state,
        "usable": device.obstacles.is_empty(),
        "obstacles": device.obstacles,
    })
}
