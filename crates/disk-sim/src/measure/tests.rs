use super::*;

#[test]
fn published_figures_are_met_within_ten_percent() {
    for name in Profile::names() {
        let measurement = measure(&Profile::by_name(name).unwrap()).unwrap();
        let mut compared = 0;
        for figure in &measurement.figures {
            let Some(ratio) = figure.ratio() else { continue };
            let (measured, workload) = (figure.measured, figure.workload);
            assert!((0.9..=1.1).contains(&ratio), "{name}: {workload}: {measured} is {ratio:.2}");
            compared += 1;
        }
        assert_eq!(compared, Profile::by_name(name).unwrap().published().len(), "{name}");
    }
}

#[test]
fn a_solid_state_drive_does_not_seek() {
    let measurement = measure(&Profile::by_name("ssd120").unwrap()).unwrap();
    for figure in measurement.figures {
        let (least, most) = match figure.workload {
            Workload::SequentialReadOuter | Workload::SequentialReadInner => (475.0, 525.0),
            Workload::SequentialWriteOuter | Workload::SequentialWriteInner => (430.0, 470.0),
            // 0.1 ms each.
            Workload::RandomRead { .. } => (9_500.0, 10_500.0),
            Workload::RandomWrite { .. } => (10_000.0, 60_000.0),
        };
        let measured = figure.measured;
        assert!((least..=most).contains(&measured), "{}: {measured}", figure.workload);
    }
}

#[test]
fn measuring_twice_gives_the_same_bits() {
    let profile = Profile::by_name("st1000dm003").unwrap();
    assert_eq!(measure(&profile).unwrap(), measure(&profile).unwrap());
}

#[test]
fn a_scaled_drive_keeps_its_rates_and_its_seeks() {
    let full = Profile::by_name("hc620").unwrap();
    let small = full.scaled(8 << 30).unwrap();
    let (full, small) = (measure(&full).unwrap(), measure(&small).unwrap());
    for (a, b) in full.figures.iter().zip(&small.figures) {
        assert_eq!(a.workload, b.workload);
        // Conventional space is two zones of 32 there: a wider share of the stroke.
        if !matches!(a.workload, Workload::RandomWrite { .. }) {
            let ratio = b.measured / a.measured;
            assert!((0.93..1.07).contains(&ratio), "{}: {ratio:.2}", a.workload);
        }
    }
}

#[test]
fn the_smallest_drives_can_be_measured() {
    for name in Profile::names() {
        let profile = Profile::by_name(name).unwrap();
        let profile = profile.with_zone_len(Blocks::new(4)).unwrap();
        for len_bytes in [1 << 20, 5 << 22] {
            let measurement = measure(&profile.scaled(len_bytes).unwrap()).unwrap();
            for figure in measurement.figures {
                let (measured, workload) = (figure.measured, figure.workload);
                let is_a_rate = measured.is_finite() && 0.0 < measured;
                assert!(is_a_rate, "{name}, {len_bytes} bytes: {workload}: {measured}");
            }
        }
    }
}
