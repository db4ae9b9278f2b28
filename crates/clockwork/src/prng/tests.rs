//! Golden values, from an independent implementation of the published algorithm: a seed in an old
//! bug report must still be the same run.

use super::Prng;

#[test]
fn the_streams_are_fixed_forever() {
    let golden = [
        (
            0x0000_0000_0000_0000,
            [0x99ec_5f36_cb75_f2b4, 0xbf6e_1f78_4956_452a, 0x1a5f_849d_4933_e6e0],
            0x1192_cf97_8811_aac6,
        ),
        (
            0x0000_0000_0000_0001,
            [0xb3f2_af6d_0fc7_10c5, 0x853b_5596_4736_4cea, 0x92f8_9756_082a_4514],
            0x31f5_eb9e_1b07_cf6a,
        ),
        (
            0x0000_0000_0000_5eed,
            [0xef33_f170_5524_4b74, 0xe1f5_9111_2fb5_051b, 0xd8ab_0564_0214_863a],
            0x8dd9_c5a9_e652_3e1a,
        ),
        (
            0xffff_ffff_ffff_ffff,
            [0x8f55_20d5_2a7e_ad08, 0xc476_a018_caa1_802d, 0x81de_31c0_d260_469e],
            0x6560_7152_3db3_94e9,
        ),
    ];
    for (seed, first, derived) in golden {
        let mut prng = Prng::new(seed);
        let mut disk = prng.derive("disk");
        assert_eq!([prng.next_u64(), prng.next_u64(), prng.next_u64()], first, "seed {seed:#x}");
        assert_eq!(disk.next_u64(), derived, "stream `disk` of seed {seed:#x}");
    }
}

#[test]
fn draws_are_fixed_forever() {
    let mut prng = Prng::new(7);
    let dice: Vec<u64> = (0..12).map(|_| prng.below(6) + 1).collect();
    assert_eq!(dice, [5, 2, 6, 6, 6, 6, 1, 1, 3, 1, 4, 5]);
    let mut bytes = [0; 11];
    prng.fill(&mut bytes);
    assert_eq!(bytes, [0xd1, 0x89, 0x75, 0x8d, 0xaa, 0x0c, 0x60, 0xf0, 0x17, 0x7a, 0xcc]);
    assert!(!prng.chance(0, 3));
    assert!(prng.chance(3, 3));
}

#[test]
fn deriving_leaves_the_stream_where_it_is() {
    let mut prng = Prng::new(1);
    let before = prng.clone();
    assert_ne!(prng.derive("disk"), prng.derive("keys"));
    assert_eq!(prng, before);
    prng.next_u64();
    assert_ne!(prng, before);
}

#[test]
fn what_is_derived_depends_on_the_position() {
    let mut prng = Prng::new(1);
    let before = prng.derive("disk");
    prng.next_u64();
    assert_ne!(prng.derive("disk"), before);
}
