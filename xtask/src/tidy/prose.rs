//! Prose: the sentences of a file, whether it is a page or a program with comments.
//!
//! ```text
//!   .md                      everything but fences, pictures and raw HTML
//!   .rs .h .cc .c .java      comments: blocks of whole lines, and comments behind code
//!          |
//!      [`Passage`]           a paragraph, a list item, a table cell or a heading
//! ```
//!
//! Invariants
//!   P1  Code spans are masked by letters of the same number of bytes, so a byte offset in a
//!       passage leads back to the line of the file.
//!   P2  Pictures are no prose: lines in fences, and lines with gaps or rules drawn inside them.
//!
//! Not here: what is wrong with a sentence (`english`).

use regex::Regex;
use std::sync::LazyLock;

/// Text that reads as one piece: its lines joined by single spaces.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Passage {
    text: String,
    /// For each line, the byte at which it starts in `text` and its number in the file.
    starts: Vec<(usize, usize)>,
}

impl Passage {
    /// The text, with code spans masked.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The line of the file that holds the byte `at` of the text.
    pub(super) fn line_at(&self, at: usize) -> usize {
        let following = self.starts.partition_point(|&(start, _)| start <= at);
        self.starts[following.max(1) - 1].1
    }

    fn push(&mut self, line: usize, text: &str) {
        if !self.text.is_empty() {
            self.text.push(' ');
        }
        self.starts.push((self.text.len(), line));
        self.text.push_str(text.trim());
    }
}

/// The passages of a file, or none where its kind holds no prose.
pub(super) fn passages(path: &str, text: &str) -> Vec<Passage> {
    let mut reader = Reader::default();
    let extension = path.rsplit('.').next().unwrap_or_default();
    match extension {
        "md" => {
            for (at, line) in text.lines().enumerate() {
                reader.read(at + 1, line);
            }
        }
        "rs" | "h" | "cc" | "c" | "java" => comments(text, &mut reader),
        _ => {}
    }
    reader.finish()
}

/// Feeds the comments of a program to `reader`; code between two comments ends a passage.
fn comments(text: &str, reader: &mut Reader) {
    let mut in_block = false;
    for (at, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        if in_block {
            let (content, ended) = match trimmed.split_once("*/") {
                Some((content, _)) => (content, true),
                None => (trimmed, false),
            };
            reader.read(at + 1, content.strip_prefix('*').unwrap_or(content));
            if ended {
                in_block = false;
                reader.code();
            }
        } else if let Some(rest) = trimmed.strip_prefix("//") {
            reader.read(at + 1, rest.strip_prefix(['/', '!']).unwrap_or(rest));
        } else if let Some(rest) = trimmed.strip_prefix("/*") {
            let rest = rest.trim_start_matches('*');
            in_block = !rest.contains("*/");
            reader.read(at + 1, rest.split("*/").next().unwrap_or_default());
        } else {
            reader.code();
            if let Some(comment) = behind_code(line) {
                reader.read(at + 1, comment);
                reader.code();
            }
        }
    }
}

/// The comment at the end of a line of code. Two slashes inside a string literal are no comment.
fn behind_code(line: &str) -> Option<&str> {
    let at = line.find(" // ")?;
    line[..at].matches('"').count().is_multiple_of(2).then(|| &line[at + 3..])
}

/// Cuts lines of prose into passages.
#[derive(Default)]
struct Reader {
    open: Passage,
    done: Vec<Passage>,
    in_fence: bool,
}

impl Reader {
    fn read(&mut self, line: usize, content: &str) {
        static ITEM: LazyLock<Regex> = LazyLock::new(|| pattern(r"^\s*([-*+]|\d+[.)]) +"));
        static INVARIANT: LazyLock<Regex> =
            LazyLock::new(|| pattern(r"^\s*[A-Z]{1,2}\d{1,2}[a-z]?\s{1,2}"));
        static PICTURE: LazyLock<Regex> = LazyLock::new(|| pattern(r"\S {2,}\S|\t|----|====|\S\|"));

        let trimmed = content.trim();
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            self.flush();
            self.in_fence = !self.in_fence;
        } else if self.in_fence || trimmed.is_empty() || trimmed.starts_with('<') {
            self.flush();
        } else if let Some(heading) = trimmed.strip_prefix('#') {
            self.flush();
            self.open.push(line, heading.trim_start_matches('#'));
            self.flush();
        } else if let Some(tag) = trimmed.strip_prefix('@') {
            self.flush();
            self.open.push(line, tag);
        } else if trimmed.starts_with('|') {
            self.flush();
            for cell in trimmed.split('|').filter(|cell| cell.contains(char::is_alphabetic)) {
                self.open.push(line, cell);
                self.flush();
            }
        } else if let Some(label) = ITEM.find(content).or_else(|| INVARIANT.find(content)) {
            self.flush();
            self.open.push(line, &content[label.end()..]);
        } else if PICTURE.is_match(trimmed)
            || (self.open.text.is_empty() && content.starts_with("    "))
        {
            self.flush();
        } else {
            self.open.push(line, content);
        }
    }

    /// A line of code: no passage and no fence continues past it.
    fn code(&mut self) {
        self.flush();
        self.in_fence = false;
    }

    fn flush(&mut self) {
        let mut passage = std::mem::take(&mut self.open);
        if !passage.text.is_empty() {
            passage.text = mask_code(&passage.text);
            self.done.push(passage);
        }
    }

    fn finish(mut self) -> Vec<Passage> {
        self.flush();
        self.done
    }
}

/// Replaces each code span by one word of the same number of bytes (P1).
fn mask_code(text: &str) -> String {
    static SPAN: LazyLock<Regex> = LazyLock::new(|| pattern("`[^`]*`"));
    SPAN.replace_all(text, |hit: &regex::Captures<'_>| "X".repeat(hit[0].len())).into_owned()
}

pub(super) fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the patterns are constants and tested")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str, expected: &[(usize, &str)]) {
        let found = passages(path, text);
        let found: Vec<_> = found.iter().map(|p| (p.line_at(0), p.text())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_page_is_paragraphs_items_and_cells() {
        check(
            "a.md",
            "# Title\nOne line\nand another.\n\n- item\n  goes on\n\n| a | b |\n|---|---|\n```\nfence\n```\n",
            &[(1, "Title"), (2, "One line and another."), (5, "item goes on"), (8, "a"), (8, "b")],
        );
    }

    #[test]
    fn comments_are_blocks_between_code() {
        let text = "//! First\n//! block.\nfn f() {} // behind code\n    // inside\n";
        check("a.rs", text, &[(1, "First block."), (3, "behind code"), (4, "inside")]);
        let text = "/** A block\n * of two lines. */\nint f(); // behind \"code\"\n";
        check("a.java", text, &[(1, "A block of two lines."), (3, "behind \"code\"")]);
        check("a.rs", "let url = \"x // y\";", &[]);
        check("a.txt", "// no prose", &[]);
    }

    #[test]
    fn invariants_are_separate_and_pictures_are_left_out() {
        let text =
            "//!   S1  One thing\n//!       goes on.\n//!   S2  Another.\n//!\n//!     a | b   c\n";
        check("a.rs", text, &[(1, "One thing goes on."), (3, "Another.")]);
    }

    #[test]
    fn a_code_span_is_one_word_and_keeps_offsets() {
        let found = passages("a.md", "See `x\ny z` there.\n");
        assert_eq!(found[0].text(), "See XXXXXXX there.");
        assert_eq!(found[0].line_at(found[0].text().find("there").unwrap()), 2);
    }
}
