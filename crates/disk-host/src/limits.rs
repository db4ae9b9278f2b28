//! What the kernel knows about a block device: `/sys/dev/block/MAJOR:MINOR`.

use imbrex_disk::BLOCK_LEN_BYTES;
use std::path::Path;

/// The attributes that this crate uses. An attribute that the kernel does not report counts as no
/// limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// "none", "host-aware" or "host-managed".
    pub(crate) zoned: String,
    pub(crate) open_zone_limit: Option<u32>,
    pub(crate) active_zone_limit: Option<u32>,
    /// The longest request that reaches the drive whole, in bytes.
    pub(crate) request_len_bytes_max: u64,
    /// The shortest request that it takes.
    pub(crate) sector_len_bytes: u64,
    /// The length that it writes atomically, even if the power fails.
    pub(crate) physical_len_bytes: u64,
    pub(crate) takes_discards: bool,
    /// Whether it can write zeros without receiving them.
    pub(crate) writes_zeroes: bool,
    /// Vendor and model, if known.
    pub(crate) model: String,
}

const PAGE_LEN_BYTES: u64 = 4096;

impl Limits {
    /// Reads the attributes in `dir`, which belongs to a device or to a partition.
    pub(crate) fn read(dir: &Path) -> Limits {
        let whole = if dir.join("partition").exists() { dir.join("..") } else { dir.to_owned() };
        let queue = whole.join("queue");
        let text =
            |path: &Path| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
        let number = |name: &str| text(&queue.join(name))?.parse::<u64>().ok();
        // Zero, or no file, means that there is no limit.
        let limit =
            |name: &str| number(name).and_then(|n| u32::try_from(n).ok()).filter(|&n| n > 0);
        let request_len = number("max_sectors_kb").map_or(u64::MAX, |n| n.saturating_mul(1024));
        // A buffer's pages need not be contiguous: each may be one segment.
        let segments_len =
            number("max_segments").map_or(u64::MAX, |n| n.saturating_mul(PAGE_LEN_BYTES));
        let names = ["vendor", "model"].map(|name| text(&whole.join("device").join(name)));
        let model = names.into_iter().flatten().filter(|name| !name.is_empty());
        let sector_len_bytes = number("logical_block_size").unwrap_or(512);
        Limits {
            zoned: text(&queue.join("zoned")).unwrap_or_else(|| "none".to_owned()),
            open_zone_limit: limit("max_open_zones"),
            active_zone_limit: limit("max_active_zones"),
            request_len_bytes_max: request_len.min(segments_len).max(PAGE_LEN_BYTES),
            sector_len_bytes,
            physical_len_bytes: number("physical_block_size").unwrap_or(sector_len_bytes),
            takes_discards: number("discard_max_bytes").is_some_and(|n| n > 0),
            writes_zeroes: number("write_zeroes_max_bytes").is_some_and(|n| n > 0),
            model: model.collect::<Vec<_>>().join(" "),
        }
    }

    /// Why no drive with these attributes can be used.
    pub(crate) fn obstacle(&self) -> Option<String> {
        let len = self.sector_len_bytes;
        let is_too_long = len > BLOCK_LEN_BYTES as u64;
        is_too_long.then(|| {
            format!("its sectors have {len} bytes; at most {BLOCK_LEN_BYTES} are supported")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn device(dir: &Path, queue: &[(&str, &str)]) {
        fs::create_dir_all(dir.join("queue")).unwrap();
        fs::create_dir_all(dir.join("device")).unwrap();
        for (name, value) in queue {
            fs::write(dir.join("queue").join(name), format!("{value}\n")).unwrap();
        }
    }

    #[test]
    fn a_host_managed_drive_is_recognised_by_its_attributes() {
        let dir = tempfile::tempdir().unwrap();
        let queue = [
            ("zoned", "host-managed"),
            ("max_open_zones", "128"),
            ("max_active_zones", "0"),
            ("max_sectors_kb", "1280"),
            ("max_segments", "168"),
            ("logical_block_size", "512"),
            ("physical_block_size", "4096"),
            ("discard_max_bytes", "0"),
        ];
        device(dir.path(), &queue);
        fs::write(dir.path().join("device/vendor"), "ATA     \n").unwrap();
        fs::write(dir.path().join("device/model"), "HGST HSH721414AL\n").unwrap();
        let expected = Limits {
            zoned: "host-managed".into(),
            open_zone_limit: Some(128),
            active_zone_limit: None,
            request_len_bytes_max: 168 * 4096,
            sector_len_bytes: 512,
            physical_len_bytes: 4096,
            takes_discards: false,
            writes_zeroes: false,
            model: "ATA HGST HSH721414AL".into(),
        };
        assert_eq!(Limits::read(dir.path()), expected);
    }

    #[test]
    fn a_partition_has_the_limits_of_its_drive() {
        let dir = tempfile::tempdir().unwrap();
        device(
            dir.path(),
            &[("zoned", "none"), ("max_sectors_kb", "64"), ("discard_max_bytes", "4096")],
        );
        let partition = dir.path().join("sdb1");
        fs::create_dir(&partition).unwrap();
        fs::write(partition.join("partition"), "1\n").unwrap();
        let limits = Limits::read(&partition);
        assert_eq!((limits.request_len_bytes_max, limits.takes_discards), (64 * 1024, true));
    }

    #[test]
    fn an_attribute_that_the_kernel_does_not_report_is_no_limit() {
        let dir = tempfile::tempdir().unwrap();
        let limits = Limits::read(dir.path());
        assert_eq!(limits.zoned, "none");
        assert_eq!((limits.open_zone_limit, limits.request_len_bytes_max), (None, u64::MAX));
        assert_eq!(limits.physical_len_bytes, 512);
    }
}
