//! How flash wears: it takes so many writes of its whole length, and no more.
//!
//! Source: Pitchumani's thesis, section 5.2 and figure 5.3, which counts what the host writes: the
//! drive's own copying is left out, as flash that is written in bands has little of it.

/// How often all of flash can be written. Source: the thesis, figure 5.3.
pub const FLASH_WRITE_CYCLES: u64 = 3_000;

/// How much of its life flash of `capacity_bytes` has spent when `written_bytes` were written to it: 0
/// when new, 1 when worn out.
pub fn flash_wear_ratio(written_bytes: u64, capacity_bytes: u64) -> f64 {
    let life_bytes = capacity_bytes as f64 * FLASH_WRITE_CYCLES as f64;
    if written_bytes == 0 { 0.0 } else { written_bytes as f64 / life_bytes }
}

/// How much a store may be written before its flash of `capacity_bytes` is worn out, if `offloaded_ratio` of
/// it goes to flash: figure 5.3, whose vertical axis is this by the length of the disk beside it.
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
