use super::*;

/// Both libraries of the system. Prints a notice for each one that is missing.
fn open(kind: ForeignKind, path: &Path) -> Option<ForeignDb> {
    match ForeignDb::open(kind, path, &ForeignOptions::default()) {
        Ok(db) => Some(db),
        Err(error @ ForeignError::NoLibrary { .. }) => {
            eprintln!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

const KINDS: [ForeignKind; 2] = [ForeignKind::RocksDb, ForeignKind::LevelDb];

#[test]
fn values_are_put_read_scanned_deleted_and_found_after_reopening() {
    for kind in KINDS {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let Some(db) = open(kind, &path) else { continue };
        let key = |n: u32| format!("key{n:04}").into_bytes();
        std::thread::scope(|scope| {
            for part in 0..4 {
                let db = &db;
                scope.spawn(move || {
                    for n in (0..400).filter(|n| n % 4 == part) {
                        db.put(&key(n), &vec![n as u8; n as usize]).unwrap();
                    }
                });
            }
        });
        db.put(b"\0\xff", b"").unwrap();
        db.delete(&key(7)).unwrap();
        drop(db);
        let db = open(kind, &path).unwrap();
        assert_eq!(db.get(&key(300)).unwrap().unwrap(), vec![44; 300]);
        assert_eq!(db.get(&key(7)).unwrap(), None);
        assert_eq!(db.get(b"\0\xff").unwrap().unwrap(), b"");
        let mut seen = Vec::new();
        let mut each = |key: &[u8], value: &[u8]| {
            seen.push((key.to_vec(), value.len()));
            if seen.len() < 3 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        db.scan(&key(6), &mut each).unwrap();
        assert_eq!(seen, [(key(6), 6), (key(8), 8), (key(9), 9)]);
        let mut count = 0;
        let mut each = |_: &[u8], _: &[u8]| {
            count += 1;
            ControlFlow::Continue(())
        };
        db.scan(b"", &mut each).unwrap();
        assert_eq!(count, 400, "{}", kind.name());
    }
}

#[test]
fn errors_carry_the_librarys_message() {
    for kind in KINDS {
        let dir = tempfile::tempdir().unwrap();
        let Some(_held) = open(kind, dir.path()) else { continue };
        let again = ForeignDb::open(kind, dir.path(), &ForeignOptions::default()).unwrap_err();
        assert!(again.to_string().contains("lock"), "{again}");
        let nowhere = Path::new("/proc/nothing/here");
        let error = ForeignDb::open(kind, nowhere, &ForeignOptions::default()).unwrap_err();
        assert!(error.to_string().starts_with("cannot open: "), "{error}");
    }
}

#[test]
fn a_missing_or_wrong_library_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let open = |library: &Path| {
        let options = ForeignOptions { library: Some(library), ..ForeignOptions::default() };
        ForeignDb::open(ForeignKind::LevelDb, dir.path(), &options).unwrap_err().to_string()
    };
    let missing = open(&dir.path().join("libnone.so"));
    assert!(missing.contains("libnone.so") && missing.contains("libleveldb-dev"), "{missing}");
    let other = open(Path::new("libc.so.6"));
    assert!(other.contains("has no leveldb_free"), "{other}");
}
