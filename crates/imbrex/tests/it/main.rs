//! The front door from outside: every path at which no store opens.
#![expect(clippy::unwrap_used, reason = "a helper fails as its test does")]

mod bad_paths;

#[test]
fn every_bad_path_is_refused_in_the_words_of_the_table() {
    bad_paths::check_all(|row| row.outcome.0, &|path, layout| {
        let mut options = imbrex::Options::new();
        if let Some(layout) = layout {
            options = options.layout(layout);
        }
        let error = options.open(path).expect_err("no store is there");
        (error.kind(), error.to_string())
    });
}
