//! Flash wear: flash can be written only a limited number of times.
//!
//! Source: Pitchumani's thesis, section 5.2 and figure 5.3, which counts host writes. The drive's
//! own copying is left out, because flash written in bands does little of it.

/// How many times the whole of a flash drive can be written. Source: the thesis, figure 5.3.
pub const FLASH_WRITE_CYCLES: u64 = 3_000;

/// The share of its life that flash of `capacity_bytes` has spent after `written_bytes` of writes:
/// 0 when new, 1 when worn out.
pub fn flash_wear_ratio(written_bytes: u64, capacity_bytes: u64) -> f64 {
    let life_bytes = capacity_bytes as f64 * FLASH_WRITE_CYCLES as f64;
    if written_bytes == 0 { 0.0 } else { written_bytes as f64 / life_bytes }
}

/// How many bytes a store may write before its flash of `capacity_bytes` is worn out, if
/// `offloaded_ratio` of them go to flash. Figure 5.3 shows this divided by the capacity of the disk
/// next to the flash.
pub fn flash_life_bytes(capacity_bytes: u64, offloaded_ratio: f64) -> f64 {
    capacity_bytes as f64 * FLASH_WRITE_CYCLES as f64 / offloaded_ratio
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure_5_3() {
        let (flash, disk, tera) = (40_000_000_000, 8e12, 1e12);
        for (offloaded_ratio, life_tera_bytes, overwrites) in
            [(1.0, 120.0, 15.0), (0.4, 300.0, 37.5)]
        {
            let life_bytes = flash_life_bytes(flash, offloaded_ratio);
            assert!((life_bytes / tera - life_tera_bytes).abs() < 1e-9, "{life_bytes}");
            assert!((life_bytes / disk - overwrites).abs() < 1e-9, "{life_bytes}");
            let on_flash = (life_bytes * offloaded_ratio) as u64;
            assert!((flash_wear_ratio(on_flash, flash) - 1.0).abs() < 1e-9);
        }
        assert_eq!(flash_life_bytes(flash, 0.0), f64::INFINITY);
        assert_eq!(flash_wear_ratio(0, 0), 0.0);
    }
}
