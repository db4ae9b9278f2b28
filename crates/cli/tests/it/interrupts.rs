//! A signal in the middle of a record.

use crate::crash::{begin_load, signal};
use crate::{Drive, Ran};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// Ctrl-C while the load waits for more than `input`, all of which it has read.
fn interrupted(drive: &Drive, args: &[&str], input: &[u8]) -> Ran {
    let (child, mut stdin) = begin_load(drive, args);
    stdin.write_all(input).unwrap();
    while rustix::io::ioctl_fionread(&stdin).unwrap() > 0 {
        std::thread::yield_now();
    }
    signal(&child, "-INT");
    let output = child.wait_with_output().unwrap();
    drop(stdin);
    crate::ran(output)
}

#[test]
fn half_a_record_is_none() {
    let drive = Drive::new();
    drive.run("put", &["a", "old"]).ok();
    let check = |args: &[&str], input: &[u8], whole: &[&str]| {
        interrupted(&drive, args, input).fails(130, &["interrupted", "closed cleanly"]);
        assert_eq!(drive.run("get", &["a"]).ok(), "old", "{args:?}");
        for key in whole {
            assert_eq!(drive.run("get", &[key]).ok(), *key, "{args:?}");
        }
    };
    let tsv = ["--lines", "tsv"];
    check(&tsv, b"key\tvalue\nt1\tt1\na\tne", &["t1"]);
    check(&["--lines", "csv"], b"key,value\nc1,c1\na,\"ne", &["c1"]);
    check(&[], b"{\"key\": \"j1\", \"value\": \"j1\"}\n{\"key\": \"a\", \"value\": 17", &["j1"]);
    check(&[], b"{\"key\": \"j2\", \"value\": \"j2\"}\n{\"key\": \"a\", \"value\": 1}", &["j2"]);
    check(&tsv, b"key\tval", &[]);
    check(&tsv, b"", &[]);

    let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
    gz.write_all(b"key\tvalue\nz1\tz1\na\tne").unwrap();
    gz.flush().unwrap();
    check(&tsv, gz.get_ref(), &["z1"]);
    let whole = gz.finish().unwrap();
    check(&tsv, &whole[..whole.len() - 4], &["z1"]);
    drive.run("check", &[]).ok();
}
