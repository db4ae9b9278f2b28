//! The page: one document with its style and its script, which asks for nothing else than the events of its server.
//!
//! ```text
//!   GET /         this document
//!   GET /events   lines of the recording, each an event; a reader that comes back names the last one
//!   GET /metrics  for a collector
//! ```
//!
//! The script keeps a scene of its own for each store, with a copy at every 64th frame, so that it goes back in time
//! without asking.

/// The media type of the document.
pub const MEDIA_TYPE: &str = "text/html; charset=utf-8";

/// The whole document.
pub fn document() -> String {
    include_str!("page/page.html").replace("/*style*/", include_str!("page/page.css")).replace(
        "/*script*/",
        &[
            include_str!("page/scene.js"),
            include_str!("page/map.js"),
            include_str!("page/panels.js"),
            include_str!("page/page.js"),
        ]
        .concat(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_is_whole_and_asks_nobody_else() {
        let page = document();
        assert!(page.contains("class Scene") && page.contains("--live"));
        assert!(!page.contains("/*style*/") && !page.contains("/*script*/"));
        let others = ["http://", "https://", "src=", "@import", "url("];
        assert_eq!(others.iter().filter(|text| page.contains(**text)).count(), 0);
    }
}
