//! One self-contained HTML page with the claims, charts and notes of every figure; no scripts, no
//! external files.

use crate::page::Table;
use crate::reproduction::{FigurePage, Reproduction};
use imbrex_bench::svg::escape;
use std::fmt::Write;

impl Reproduction {
    /// One page for a browser, without external files.
    pub fn to_html(&self) -> String {
        page(self)
    }
}

const STYLE: &str = "\
:root{color-scheme:light dark}\
body{font:15px/1.5 system-ui,sans-serif;margin:2rem;overflow-wrap:anywhere}\
p{max-width:60rem}code{font-size:.9em;background:#8882;padding:0 .2em;border-radius:.2em}\
section{overflow-x:auto}\
h1{font-size:1.6rem}h2{margin-top:3rem;border-top:1px solid #8886;padding-top:1rem}\
table{border-collapse:collapse;margin:.7rem 0;font-size:.9rem}\
th,td{padding:.15rem .7rem;text-align:right;border-bottom:1px solid #8884}\
th:first-child,td:first-child{text-align:left}\
caption{text-align:left;font-weight:600;padding:.2rem 0}\
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(34rem,100%),1fr));gap:1rem}\
.charts svg{width:100%;height:auto;max-width:48rem}\
.paper{color:#888}.met{color:#080}.exceeded{color:#06c}.explained{color:#a60}.missed{color:#c30}\
nav{columns:3 14rem;font-size:.9rem}nav a{display:block}";

/// The page of `reproduction`.
fn page(reproduction: &Reproduction) -> String {
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <title>Imbrex: published figures, run again</title>\n<style>{STYLE}</style>\n</head>\n\
         <body>\n<h1>Published figures, run again</h1>\n"
    );
    let size = reproduction.size;
    let _ = writeln!(
        out,
        "<p>imbrex {}, scale {} of the papers' sizes, seed {}; virtual time on emulated drives, so \
         the same command gives the same page on any machine. {}.</p>",
        env!("CARGO_PKG_VERSION"),
        size.scale,
        size.seed,
        reproduction.verdicts()
    );
    if let Some(names) = reproduction.unfinished_names() {
        let _ = writeln!(out, "<p>Stopped before the end of {names}.</p>");
    }
    out.push_str("<nav>\n");
    for figure in &reproduction.figures {
        let _ = writeln!(
            out,
            "<a href=\"#{}\">{}: {}</a>",
            figure.name,
            figure.name,
            marked(figure.title)
        );
    }
    out.push_str("</nav>\n");
    for figure in &reproduction.figures {
        section(&mut out, figure);
    }
    out.push_str("</body>\n</html>\n");
    out
}

fn section(out: &mut String, figure: &FigurePage) {
    let _ = writeln!(
        out,
        "<section id=\"{}\">\n<h2>{}: {}</h2>\n<p class=\"paper\">{}</p>",
        figure.name,
        figure.name,
        marked(figure.title),
        marked(figure.paper)
    );
    let page = &figure.page;
    if !page.claims.is_empty() {
        table(out, &page.claim_table());
    }
    if !page.charts.is_empty() {
        out.push_str("<div class=\"charts\">\n");
        page.charts.iter().for_each(|chart| out.push_str(&chart.to_svg()));
        out.push_str("</div>\n");
    }
    page.further_tables().for_each(|t| table(out, &t));
    for note in &page.notes {
        let _ = writeln!(out, "<p>{}</p>", marked(note));
    }
    for missing in &page.missing {
        let _ = writeln!(out, "<p class=\"missed\">not run: {}</p>", marked(missing));
    }
    out.push_str("</section>\n");
}

fn table(out: &mut String, table: &Table) {
    let _ = write!(out, "<table>\n<caption>{}</caption>\n<tr>", marked(&table.title));
    for cell in &table.header {
        let _ = write!(out, "<th>{}</th>", marked(cell));
    }
    out.push_str("</tr>\n");
    for row in &table.rows {
        out.push_str("<tr>");
        for cell in row {
            let class = match cell.as_str() {
                "met" | "exceeded" | "explained" | "missed" => format!(" class=\"{cell}\""),
                _ => String::new(),
            };
            let _ = write!(out, "<td{class}>{}</td>", marked(cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table>\n");
}

/// `text` for a page; what stands between backticks is set as code.
fn marked(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, code, after)) = next_code(rest) {
        let _ = write!(out, "{}<code>{}</code>", escape(before), escape(code));
        rest = after;
    }
    out + &escape(rest)
}

/// What comes before the first pair of backticks, what is in it, and what follows.
fn next_code(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('`')?;
    let (code, after) = rest.split_once('`')?;
    Some((before, code, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_rendered_and_a_single_mark_stays() {
        assert_eq!(marked("a `b<c` d `e`"), "a <code>b&lt;c</code> d <code>e</code>");
        assert_eq!(marked("level` & more"), "level` &amp; more");
    }
}
