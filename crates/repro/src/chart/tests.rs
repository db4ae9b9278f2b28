//! Every kind of chart is well-formed XML, and the same one twice is the same bytes.

use super::*;

/// Checks that tags nest and attributes are quoted: enough XML for what is drawn here.
pub(crate) fn assert_well_formed(xml: &str) {
    let mut open: Vec<String> = Vec::new();
    let mut rest = xml;
    while let Some(start) = rest.find('<') {
        assert!(!rest[..start].contains('>'), "a stray > before {:?}", &rest[start..]);
        let end = rest[start..].find('>').expect("every tag ends") + start;
        let tag = &rest[start + 1..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes of <{tag}>");
        let name = tag.trim_start_matches('/').split([' ', '/', '\n']).next().unwrap_or("");
        if tag.starts_with('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "</{name}> closes what is open");
        } else if !tag.ends_with('/') {
            open.push(name.to_owned());
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "left open: {open:?}");
    assert!(!xml.contains("NaN") && !xml.contains("inf"), "no coordinate is not a number");
}

fn every_kind() -> Vec<Chart> {
    let axes = || (Axis::linear("x <&>"), Axis::log("seconds"));
    let points = |scale: f64| (0..50).map(|i| (f64::from(i), f64::from(i) * scale)).collect();
    let series = || vec![Series::new("one", points(1.0)), Series::new("two \"2\"", points(70.0))];
    let (x, y) = axes();
    let scatter = Chart::scatter("dots", x, y, series());
    let (x, y) = axes();
    let lines = Chart::lines("lines", x, y, series());
    let groups = || vec!["a".to_owned(), "b".to_owned()];
    let heights = || vec![("p".to_owned(), vec![1.0, 2.5]), ("q".to_owned(), vec![f64::NAN, 3.0])];
    let bars = Chart::bars("bars", groups(), Axis::linear("MB"), heights());
    let named = bars.clone().labelled(vec![vec!["10".to_owned(), "x<y".to_owned()]]);
    let whole = vec![("p".to_owned(), vec![1.0, 2.0]), ("q".to_owned(), vec![3.0, 4.0])];
    let stacked = Chart::bars("stack", groups(), Axis::linear("s"), whole).stacked();
    let empty = Chart::lines("empty", Axis::linear(""), Axis::linear(""), Vec::new());
    vec![scatter, lines, bars, named, stacked, empty]
}

#[test]
fn every_kind_is_well_formed() {
    for chart in every_kind() {
        assert_well_formed(&chart.to_svg());
    }
}

#[test]
fn the_same_chart_is_the_same_bytes() {
    for (one, two) in every_kind().into_iter().zip(every_kind()) {
        assert_eq!(one.to_svg(), two.to_svg());
    }
}

#[test]
fn points_on_one_spot_are_drawn_once() {
    let points = (0..100_000).map(|i| (f64::from(i % 10), f64::from(i % 7))).collect();
    let axis = || Axis::linear("");
    let chart = Chart::scatter("many", axis(), axis(), vec![Series::new("s", points)]);
    assert!(chart.to_svg().len() < 10_000);
}

#[test]
fn a_legend_of_many_series_wraps_and_the_plot_makes_room() {
    let chart = |count: usize| {
        let heights = (0..count).map(|i| (format!("trace {i}, synthetic"), vec![i as f64 + 1.0]));
        Chart::bars("bars", vec!["a".to_owned()], Axis::linear("MB"), heights.collect()).to_svg()
    };
    let svg = chart(12);
    assert_well_formed(&svg);
    assert!(svg.contains("viewBox=\"0 0 640 370\""), "two rows more");
    assert!(svg.contains("translate(0 30)"));
    let squares = svg.lines().filter(|line| line.contains("width=\"10\" height=\"10\""));
    let number = |line: &str, name: &str| -> f64 {
        let from = line.find(&format!(" {name}=\"")).unwrap() + name.len() + 3;
        line[from..].split('"').next().unwrap().parse().unwrap()
    };
    let spots: Vec<_> = squares.map(|line| (number(line, "x"), number(line, "y"))).collect();
    assert_eq!(spots.len(), 12);
    assert!(spots.iter().all(|&(x, y)| x < 640.0 - 18.0 * 6.0 && y <= 60.0), "{spots:?}");
    assert!(chart(2).contains("viewBox=\"0 0 640 340\""));
    assert!(!chart(2).contains("translate(0"));
}
