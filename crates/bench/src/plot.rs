//! Drawings as SVG and as pictures, line charts made of them, and the page around them: one file
//! that needs no other.

use std::fmt::Write as _;

/// Width of every drawing, in points.
pub const WIDTH: f64 = 760.0;
/// Height of a line chart.
const HEIGHT: f64 = 340.0;
/// Room for the names of the axes.
const LEFT: f64 = 76.0;
const BOTTOM: f64 = 52.0;
const TOP: f64 = 32.0;
const RIGHT: f64 = 16.0;
/// Colours that are distinct for any colour vision (Okabe and Ito, 2008).
pub const COLOURS: [&str; 6] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];
/// Size of the characters.
const FONT_SIZE: f64 = 13.0;
/// Colour of lines behind.
pub const GRID: &str = "#e4e4e4";
/// Colour of numbers at the axes.
pub const DIM: &str = "#444";
/// Colour of titles and names.
pub const DARK: &str = "#222";
/// Marks of an axis at least.
const MARKS: f64 = 4.0;

/// How values are laid along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Evenly; the axis begins at 0.
    Linear,
    /// By their logarithm; values must be above 0.
    Logarithmic,
}

/// An axis of a chart.
#[derive(Debug, Clone, Copy)]
pub struct Axis<'a> {
    /// What it shows, with the unit.
    pub name: &'a str,
    /// How its values are laid out.
    pub scale: Scale,
}

/// A line of a chart.
#[derive(Debug, Clone)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// Points from left to right. What is not a number is left out.
    pub points: Vec<(f64, f64)>,
}

/// Text that may stand in HTML and SVG.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// From the smallest to the largest value of an axis, and the place of a value between, 0 to 1.
struct Span {
    low: f64,
    high: f64,
    scale: Scale,
}

impl Span {
    fn of(values: impl Iterator<Item = f64> + Clone, scale: Scale) -> Self {
        let good = values.filter(|v| v.is_finite() && (*v > 0.0 || scale == Scale::Linear));
        let high = good.clone().fold(f64::MIN, f64::max);
        let low = good.fold(f64::MAX, f64::min);
        if low > high {
            return Span { low: 1.0, high: 10.0, scale };
        }
        match scale {
            Scale::Linear => {
                Span { low: low.min(0.0), high: high.max(low + 1e-9).max(1e-9), scale }
            }
            Scale::Logarithmic => Span {
                low: 10_f64.powf(low.log10().floor()),
                high: 10_f64.powf((high.log10() + 1e-9).ceil()).max(low * 10.0),
                scale,
            },
        }
    }

    fn place(&self, value: f64) -> Option<f64> {
        let place = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => (value / self.low).log10() / (self.high / self.low).log10(),
        };
        place.is_finite().then_some(place)
    }

    fn marks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                let rough = (self.high - self.low) / MARKS;
                let power = 10_f64.powf(rough.log10().floor());
                let step = [1.0, 2.0, 5.0, 10.0]
                    .into_iter()
                    .map(|s| s * power)
                    .find(|s| *s >= rough)
                    .unwrap_or(rough);
                let count = ((self.high - self.low) / step) as u32;
                (0..=count).map(|n| (self.low / step).ceil() * step + f64::from(n) * step).collect()
            }
            Scale::Logarithmic => {
                let decades = (self.high / self.low).log10().round() as i32;
                (0..=decades).map(|n| self.low * 10_f64.powi(n)).collect()
            }
        }
    }
}

/// A number as short as it can be without lying much.
fn number(value: f64) -> String {
    let text = match value.abs() {
        v if v >= 1e9 => format!("{:.1}G", value / 1e9),
        v if v >= 1e6 => format!("{:.1}M", value / 1e6),
        v if v >= 1e4 => format!("{:.0}k", value / 1e3),
        v if v >= 10.0 || value.fract() == 0.0 => format!("{value:.0}"),
        v if v >= 0.1 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    };
    text.replace(".0G", "G").replace(".0M", "M")
}

/// Where words stand about their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Anchor {
    /// Their beginning is there.
    Start,
    /// Their middle is there.
    Middle,
    /// Their end is there.
    End,
}

/// A piece of a drawing. Places are points from the upper left corner.
#[derive(Debug, Clone)]
enum Shape {
    /// Through these places, so wide.
    Line { places: Vec<(f64, f64)>, wide: f64, colour: &'static str },
    /// From the upper left corner, width and height.
    Bar { at: (f64, f64), size: (f64, f64), colour: &'static str },
    /// Words; upwards if they are turned.
    Words {
        at: (f64, f64),
        anchor: Anchor,
        turned: bool,
        bold: bool,
        colour: &'static str,
        text: String,
    },
}

/// What is drawn: places are points from the upper left corner, sizes are points.
#[derive(Debug, Clone)]
pub struct Drawing {
    title: String,
    height: f64,
    shapes: Vec<Shape>,
}

impl Drawing {
    /// An empty one, [`WIDTH`] points wide and so many high.
    pub fn new(title: &str, height: f64) -> Self {
        Drawing { title: title.to_owned(), height, shapes: Vec::new() }
    }

    /// Adds a line through these places, so wide.
    pub fn line(&mut self, places: Vec<(f64, f64)>, wide: f64, colour: &'static str) {
        self.shapes.push(Shape::Line { places, wide, colour });
    }

    /// Adds a filled rectangle from its upper left corner, of this width and height.
    pub fn bar(&mut self, at: (f64, f64), size: (f64, f64), colour: &'static str) {
        self.shapes.push(Shape::Bar { at, size, colour });
    }

    /// Adds a text at a point of the drawing.
    pub fn words(&mut self, at: (f64, f64), anchor: Anchor, colour: &'static str, text: &str) {
        let text = text.to_owned();
        let (turned, bold) = (false, false);
        self.shapes.push(Shape::Words { at, anchor, turned, bold, colour, text });
    }

    /// The drawing as an SVG element.
    pub fn svg(&self) -> String {
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {0}\" \
             width=\"{WIDTH}\" height=\"{0}\" font-family=\"sans-serif\" \
             font-size=\"{FONT_SIZE}\" role=\"img\"><title>{1}</title>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
            self.height,
            escape(&self.title)
        );
        for shape in &self.shapes {
            // Writing to a string cannot fail.
            let _ = match shape {
                Shape::Line { places, wide, colour } => {
                    let path: Vec<String> =
                        places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
                    writeln!(
                        out,
                        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" \
                         stroke-width=\"{wide}\"/>",
                        path.join(" ")
                    )
                }
                Shape::Bar { at: (x, y), size: (width, height), colour } => writeln!(
                    out,
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
                     fill=\"{colour}\"/>"
                ),
                Shape::Words { at: (x, y), anchor, turned, bold, colour, text } => {
                    let anchor = match anchor {
                        Anchor::Start => "start",
                        Anchor::Middle => "middle",
                        Anchor::End => "end",
                    };
                    let turn = if *turned {
                        format!(" transform=\"rotate(-90 {x:.1} {y:.1})\"")
                    } else {
                        String::new()
                    };
                    let weight = if *bold { " font-weight=\"600\"" } else { "" };
                    writeln!(
                        out,
                        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\"{turn}{weight} \
                         fill=\"{colour}\">{}</text>",
                        escape(text)
                    )
                }
            };
        }
        out.push_str("</svg>");
        out
    }
}

/// Draws the lines, at most six of them.
pub fn chart(title: &str, x: Axis<'_>, y: Axis<'_>, lines: &[Line]) -> Drawing {
    let all = || lines.iter().flat_map(|l| l.points.iter());
    let across = Span::of(all().map(|p| p.0), x.scale);
    let up = Span::of(all().map(|p| p.1), y.scale);
    let to_x = |value| Some(LEFT + across.place(value)? * (WIDTH - LEFT - RIGHT));
    let to_y = |value| Some(HEIGHT - BOTTOM - up.place(value)? * (HEIGHT - BOTTOM - TOP));
    let mut out = Drawing::new(title, HEIGHT);
    let (floor, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    for mark in across.marks() {
        let Some(at) = to_x(mark).filter(|x| *x <= right + 0.5) else { continue };
        out.line(vec![(at, TOP), (at, floor)], 1.0, GRID);
        out.words((at, floor + 17.0), Anchor::Middle, DIM, &number(mark));
    }
    for mark in up.marks() {
        let Some(at) = to_y(mark).filter(|y| *y >= TOP - 0.5) else { continue };
        out.line(vec![(LEFT, at), (right, at)], 1.0, GRID);
        out.words((LEFT - 6.0, at + 4.0), Anchor::End, DIM, &number(mark));
    }
    out.words(((LEFT + right) / 2.0, HEIGHT - 12.0), Anchor::Middle, DARK, x.name);
    for (at, anchor, turned, bold, text) in [
        ((LEFT, 18.0), Anchor::Start, false, true, title),
        ((16.0, (TOP + floor) / 2.0), Anchor::Middle, true, false, y.name),
    ] {
        let (colour, text) = (DARK, text.to_owned());
        out.shapes.push(Shape::Words { at, anchor, turned, bold, colour, text });
    }
    for (line, (colour, order)) in lines.iter().zip(COLOURS.into_iter().zip(0_u8..)) {
        let places = line.points.iter().filter_map(|p| Some((to_x(p.0)?, to_y(p.1)?)));
        out.line(places.collect(), 2.0, colour);
        let name_x =
            right - 4.0 - 150.0 * f64::from(u8::try_from(lines.len()).unwrap_or(6) - 1 - order);
        out.words((name_x, 18.0), Anchor::End, colour, &line.name);
    }
    out
}

/// A page of its own.
pub fn page(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>{0}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<style>\n\
         body {{ font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; \
         max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}\n\
         table {{ border-collapse: collapse; margin: 1rem 0; font-size: 0.9rem; \
         font-variant-numeric: tabular-nums }}\n\
         th, td {{ padding: 0.2rem 0.7rem; text-align: right; border-bottom: 1px solid #ddd }}\n\
         th:first-child {{ text-align: left; font-weight: 500 }}\n\
         .invalid {{ border: 2px solid #b00020; padding: 0.5rem 1rem }}\n\
         figure {{ margin: 0 0 1.5rem; overflow-x: auto }} svg {{ min-width: 30rem; max-width: 100%; height: auto }}\n\
         </style></head><body>\n<h1>{0}</h1>\n{body}</body></html>\n",
        escape(title)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_of_nothing_and_of_odd_values_are_whole() {
        let axis = |scale| Axis { name: "a <b>", scale };
        for scale in [Scale::Linear, Scale::Logarithmic] {
            assert!(chart("t", axis(scale), axis(scale), &[]).svg().ends_with("</svg>"));
            let malformed = vec![(0.0, f64::NAN), (f64::INFINITY, 1.0), (0.0, 0.0), (-1.0, 5.0)];
            for points in [malformed, vec![(3.0, 3.0)], vec![]] {
                let line = Line { name: "x & y".into(), points };
                let drawing = chart("t", axis(scale), axis(scale), &[line]);
                let svg = drawing.svg();
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
                assert!(svg.contains("x &amp; y") && svg.contains("a &lt;b&gt;"));
            }
        }
    }

    #[test]
    fn marks_are_round_and_few() {
        let span = Span::of([0.0, 437.0].into_iter(), Scale::Linear);
        assert_eq!(span.marks(), [0.0, 200.0, 400.0]);
        let span = Span::of([3.0, 4_000.0].into_iter(), Scale::Logarithmic);
        assert_eq!(span.marks(), [1.0, 10.0, 100.0, 1_000.0, 10_000.0]);
        assert_eq!(span.place(100.0), Some(0.5));
        assert_eq!([number(20_000.0), number(3e6), number(0.5)], ["20k", "3M", "0.5"]);
    }
}
