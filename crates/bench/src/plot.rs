//! Line charts as SVG, and the page around them: one file that needs no other.

use std::fmt::Write as _;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 340.0;
/// Room for the names of the axes.
const LEFT: f64 = 76.0;
const BOTTOM: f64 = 52.0;
const TOP: f64 = 32.0;
const RIGHT: f64 = 16.0;
/// Colours that people with any colour vision tell apart (Okabe and Ito, 2008).
const COLOURS: [&str; 6] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];
/// Marks of an axis at least.
const MARKS: f64 = 4.0;

/// How values are laid along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// From 0, evenly.
    Linear,
    /// By their logarithm; values must be above 0.
    Logarithmic,
}

/// An axis.
#[derive(Debug, Clone, Copy)]
pub struct Axis<'a> {
    /// What it shows, with the unit.
    pub name: &'a str,
    /// How.
    pub scale: Scale,
}

/// A line of a chart.
#[derive(Debug, Clone)]
pub struct Line {
    /// Its name.
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

/// Draws the lines, at most six of them.
pub fn chart(title: &str, x: Axis<'_>, y: Axis<'_>, lines: &[Line]) -> String {
    let all = || lines.iter().flat_map(|l| l.points.iter());
    let across = Span::of(all().map(|p| p.0), x.scale);
    let up = Span::of(all().map(|p| p.1), y.scale);
    let to_x = |value| Some(LEFT + across.place(value)? * (WIDTH - LEFT - RIGHT));
    let to_y = |value| Some(HEIGHT - BOTTOM - up.place(value)? * (HEIGHT - BOTTOM - TOP));
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"13\" \
         role=\"img\"><title>{0}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"18\" font-weight=\"600\" fill=\"#222\">{0}</text>\n",
        escape(title)
    );
    let (floor, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    for mark in across.marks() {
        let Some(at) = to_x(mark).filter(|x| *x <= right + 0.5) else { continue };
        let _ = writeln!(
            out,
            "<line x1=\"{at:.1}\" y1=\"{TOP}\" x2=\"{at:.1}\" y2=\"{floor}\" stroke=\"#e4e4e4\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#444\">{}</text>",
            floor + 17.0,
            number(mark)
        );
    }
    for mark in up.marks() {
        let Some(at) = to_y(mark).filter(|y| *y >= TOP - 0.5) else { continue };
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\" stroke=\"#e4e4e4\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#444\">{}</text>",
            LEFT - 6.0,
            at + 4.0,
            number(mark)
        );
    }
    let _ = write!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#222\">{}</text>\n\
         <text transform=\"rotate(-90)\" x=\"{:.1}\" y=\"16\" text-anchor=\"middle\" \
         fill=\"#222\">{}</text>\n",
        (LEFT + right) / 2.0,
        HEIGHT - 12.0,
        escape(x.name),
        -(TOP + floor) / 2.0,
        escape(y.name)
    );
    for (line, (colour, order)) in lines.iter().zip(COLOURS.iter().zip(0_u8..)) {
        let places = line.points.iter().filter_map(|p| Some((to_x(p.0)?, to_y(p.1)?)));
        let path: Vec<String> = places.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let name_x =
            right - 4.0 - 150.0 * f64::from(u8::try_from(lines.len()).unwrap_or(6) - 1 - order);
        let _ = write!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n\
             <text x=\"{name_x:.1}\" y=\"18\" text-anchor=\"end\" fill=\"{colour}\">{}</text>\n",
            path.join(" "),
            escape(&line.name)
        );
    }
    out.push_str("</svg>");
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
         figure {{ margin: 0 0 1.5rem; overflow-x: auto }} svg {{ max-width: 100%; height: auto }}\n\
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
            assert!(chart("t", axis(scale), axis(scale), &[]).ends_with("</svg>"));
            let odd = vec![(0.0, f64::NAN), (f64::INFINITY, 1.0), (0.0, 0.0), (-1.0, 5.0)];
            for points in [odd, vec![(3.0, 3.0)], vec![]] {
                let line = Line { name: "x & y".into(), points };
                let svg = chart("t", axis(scale), axis(scale), &[line]);
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
