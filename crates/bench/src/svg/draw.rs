//! Colours, texts and coordinates of SVG pictures.

use std::fmt::Write;

/// Okabe and Ito's colours except the yellow, which is faint on white; then five by Tol and others
/// that are distinguishable from these, for pictures of a dozen series.
const COLOURS: [&str; 12] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#999999", "#332288",
    "#882255", "#999933", "#8c564b", "#17becf",
];

/// The colour of series number `index`; colours repeat after twelve.
pub fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

/// Writes `what` at a position: `anchor` is `start`, `middle` or `end`, `size` the font size in
/// pixels.
pub fn text(svg: &mut String, x: f64, y: f64, anchor: &str, size: u32, what: &str) {
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\" font-size=\"{size}\">{}</text>",
        px(x),
        px(y),
        escape(what)
    );
}

/// A coordinate to a tenth of a pixel, in its shortest form.
pub fn px(value: f64) -> String {
    let tenths = (value * 10.0).round() as i64;
    let (sign, tenths) = if tenths < 0 { ("-", -tenths) } else { ("", tenths) };
    match tenths % 10 {
        0 => format!("{sign}{}", tenths / 10),
        part => format!("{sign}{}.{part}", tenths / 10),
    }
}

/// Escapes `what` as XML text.
pub fn escape(what: &str) -> String {
    let mut out = String::with_capacity(what.len());
    for c in what.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c => out.push(c),
        }
    }
    out
}
