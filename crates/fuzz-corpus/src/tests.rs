//! Fuzzing in plain CI: every saved input, and seeded mutations of it.

use crate::{TARGETS, Target};
use imbrex_clockwork::Prng;
use std::path::PathBuf;

/// How often each saved input is mutated. All targets together take seconds.
const MUTATION_COUNT: usize = 400;

fn dir(target: &Target) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.join("../../fuzz/seeds").join(target.name)
}

/// The committed inputs: valid ones, and those that a fuzzer once found.
fn saved(target: &Target) -> Vec<(String, Vec<u8>)> {
    let mut inputs: Vec<_> = std::fs::read_dir(dir(target))
        .unwrap_or_else(|error| panic!("fuzz/seeds/{}: {error}", target.name))
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read(path).unwrap())
        })
        .collect();
    inputs.sort();
    inputs
}

/// One to four changes: a flipped bit, a changed byte, a run of zeros, a cut, a moved piece.
fn mutate(bytes: &mut Vec<u8>, prng: &mut Prng) {
    for _ in 0..=prng.below(3) {
        if bytes.is_empty() {
            bytes.resize(1 + prng.below(64) as usize, 0);
            prng.fill(bytes);
            continue;
        }
        let at = prng.below(bytes.len() as u64) as usize;
        match prng.below(5) {
            0 => bytes[at] ^= 1 << prng.below(8),
            1 => bytes[at] = prng.next_u64() as u8,
            2 => {
                let end = (at + 1 + prng.below(16) as usize).min(bytes.len());
                bytes[at..end].fill(0);
            }
            3 => bytes.truncate(at),
            _ => {
                let from = prng.below(bytes.len() as u64) as usize;
                let len = (bytes.len() - at.max(from)).min(64);
                bytes.copy_within(from..from + len, at);
            }
        }
    }
}

#[test]
fn saved_inputs_and_their_mutations_do_not_panic() {
    for target in TARGETS {
        for (name, bytes) in saved(target) {
            (target.feed)(&bytes);
            let mut prng = Prng::new(1).derive(target.name).derive(&name);
            for _ in 0..MUTATION_COUNT {
                let mut mutated = bytes.clone();
                mutate(&mut mutated, &mut prng);
                (target.feed)(&mutated);
            }
        }
    }
}

#[test]
fn the_saved_inputs_are_what_the_encoders_write_today() {
    let rewrite = std::env::var_os("REWRITE").is_some();
    for target in TARGETS {
        let saved = if rewrite { Vec::new() } else { saved(target) };
        for (name, bytes) in (target.seeds)() {
            let path = dir(target).join(name);
            if rewrite {
                std::fs::create_dir_all(dir(target)).unwrap();
                std::fs::write(path, bytes).unwrap();
            } else {
                let found = saved.iter().find(|(saved_name, _)| saved_name == name);
                let same = found.is_some_and(|(_, saved_bytes)| *saved_bytes == bytes);
                assert!(same, "fuzz/seeds/{}/{name}: run `cargo xtask golden`", target.name);
            }
        }
    }
}

#[test]
fn every_target_has_its_fuzz_program() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/fuzz_targets");
    for target in TARGETS {
        let path = root.join(target.name).with_extension("rs");
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(&format!("feed(\"{}\"", target.name)), "{}", path.display());
    }
}
