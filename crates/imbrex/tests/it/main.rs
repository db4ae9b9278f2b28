//! The front door from outside: every path at which no store opens.
#![expect(clippy::unwrap_used, reason = "a helper fails as its test does")]

mod bad_paths;
mod read_only;

#[test]
fn every_bad_path_is_refused_in_the_words_of_the_table() {
    bad_paths::check_all(&bad_paths::Door {
        code: |row| row.outcome.0,
        has_flags: false,
        open: &|asked| {
            let mut options = imbrex::Options::new();
            if let Some(layout) = asked.layout {
                options = options.layout(layout);
            }
            let opened = match asked.is_read_only {
                false => options.open(asked.path),
                true => options.open_read_only(asked.path),
            };
            opened.err().map(|error| (error.kind(), error.to_string()))
        },
    });
}
