//! Drawings of an evaluation.

use gauntlet_bench::plot::{Anchor, COLOURS, DARK, DIM, Drawing, GRID, WIDTH};
use gauntlet_engine::classifier::metrics::Scored;

const HEIGHT: f64 = 400.0;
/// Room for the names of the axes.
const LEFT: f64 = 64.0;
const BOTTOM: f64 = 48.0;
const TOP: f64 = 16.0;
const RIGHT: f64 = 16.0;
/// Colour of the line at a score of 0.
const MIDDLE: &str = "#999";
/// Lowest share on the axis of ham called spam: one in 100,000.
const FP_MIN: f64 = 1e-5;
/// Highest share on the axis of spam caught: all but one in 10,000.
const MISSED_MIN: f64 = 1e-4;
/// Columns of a histogram.
const COLUMNS: usize = 60;

/// A curve with its name.
pub(crate) struct Line {
    pub(crate) name: String,
    /// `(share of ham, share of spam)` from (0, 0) to (1, 1).
    pub(crate) points: Vec<(f64, f64)>,
}

fn rule(out: &mut Drawing, from: (f64, f64), to: (f64, f64), colour: &'static str) {
    out.line(vec![from, to], 1.0, colour);
}

/// Where a share of ham stands: logarithmic.
fn across(ham: f64) -> f64 {
    let place = 1.0 - ham.max(FP_MIN).log10() / FP_MIN.log10();
    LEFT + place * (WIDTH - LEFT - RIGHT)
}

/// Where a share of spam stands: logarithmic in what is missed.
fn up(spam: f64) -> f64 {
    let place = (1.0 - spam).max(MISSED_MIN).log10() / MISSED_MIN.log10();
    HEIGHT - BOTTOM - place * (HEIGHT - BOTTOM - TOP)
}

/// ROC curves: ham called spam across, spam caught upwards, both stretched at the good end.
pub(crate) fn roc(lines: &[Line]) -> Drawing {
    let mut out = Drawing::new("ROC curves", HEIGHT);
    for (share, name) in
        [(1e-5, "0.001 %"), (1e-4, "0.01 %"), (1e-3, "0.1 %"), (1e-2, "1 %"), (0.1, "10 %")]
    {
        rule(&mut out, (across(share), TOP), (across(share), HEIGHT - BOTTOM), GRID);
        out.words((across(share), HEIGHT - BOTTOM + 18.0), Anchor::Middle, DIM, name);
    }
    for (share, name) in
        [(0.0, "0 %"), (0.9, "90 %"), (0.99, "99 %"), (0.999, "99.9 %"), (0.9999, "99.99 %")]
    {
        rule(&mut out, (LEFT, up(share)), (WIDTH - RIGHT, up(share)), GRID);
        out.words((LEFT - 6.0, up(share) + 4.0), Anchor::End, DIM, name);
    }
    out.words((WIDTH / 2.0, HEIGHT - 8.0), Anchor::Middle, DIM, "ham called spam");
    for (line, (colour, number)) in lines.iter().zip(COLOURS.into_iter().zip(0u8..)) {
        let mut places: Vec<(f64, f64)> = Vec::new();
        for &(ham, spam) in &line.points {
            let at = (across(ham), up(spam));
            // Steps finer than the drawing are left out.
            let near =
                |last: &(f64, f64)| (at.0 - last.0).abs() < 0.1 && (at.1 - last.1).abs() < 0.1;
            if !places.last().is_some_and(near) {
                places.push(at);
            }
        }
        out.line(places, 2.0, colour);
        let y = HEIGHT - BOTTOM - 16.0 - 20.0 * f64::from(number);
        rule(&mut out, (WIDTH - 220.0, y - 4.0), (WIDTH - 196.0, y - 4.0), colour);
        out.words((WIDTH - 190.0, y), Anchor::Start, DIM, &line.name);
    }
    out
}

/// How many ham and spam have which score; the height is the logarithm of the count.
pub(crate) fn histogram(name: &str, scored: &[Scored]) -> Drawing {
    let mut out = Drawing::new(&format!("Scores of {name}"), HEIGHT);
    let (low, high) = bounds(scored);
    let step = (high - low) / COLUMNS as f64;
    let mut counts = [[0u32; COLUMNS]; 2];
    for s in scored {
        let column = ((s.score.clamp(low, high) - low) / step) as usize;
        counts[usize::from(s.spam)][column.min(COLUMNS - 1)] += 1;
    }
    let most = counts.iter().flatten().copied().max().unwrap_or(0).max(1);
    let height = |count: u32| {
        f64::from(count + 1).log10() / f64::from(most + 1).log10() * (HEIGHT - BOTTOM - TOP - 24.0)
    };
    let width = (WIDTH - LEFT - RIGHT) / COLUMNS as f64;
    let floor = HEIGHT - BOTTOM;
    let mut count = 1;
    while count <= most {
        let y = floor - height(count);
        rule(&mut out, (LEFT, y), (WIDTH - RIGHT, y), GRID);
        out.words((LEFT - 6.0, y + 4.0), Anchor::End, DIM, &count.to_string());
        count *= 10;
    }
    for (side, colour) in [(0, COLOURS[0]), (1, COLOURS[1])] {
        for (column, &count) in counts[side].iter().enumerate().filter(|c| *c.1 > 0) {
            let x = LEFT + width * (column as f64 + 0.5 * side as f64);
            let h = height(count);
            out.bar((x, floor - h), (width * 0.48, h), colour);
        }
    }
    rule(&mut out, (LEFT, floor), (WIDTH - RIGHT, floor), DARK);
    let place = |score: f64| LEFT + (score - low) / (high - low) * (WIDTH - LEFT - RIGHT);
    for score in [low, 0.0, high] {
        out.words((place(score), floor + 18.0), Anchor::Middle, DIM, &format!("{score:.1}"));
    }
    rule(&mut out, (place(0.0), TOP), (place(0.0), floor), MIDDLE);
    let of = |spam| scored.iter().filter(|s| s.spam == spam).count();
    out.words((LEFT, HEIGHT - 8.0), Anchor::Start, DIM, &format!("score, {name}"));
    for (side, (word, x)) in [("ham", WIDTH - 300.0), ("spam", WIDTH - 150.0)].iter().enumerate() {
        out.bar((x - 18.0, HEIGHT - 19.0), (12.0, 12.0), COLOURS[side]);
        out.words((*x, HEIGHT - 8.0), Anchor::Start, DIM, &format!("{} {word}", of(side == 1)));
    }
    out
}

/// Lowest and highest score that is drawn, 0 between them.
fn bounds(scored: &[Scored]) -> (f64, f64) {
    let scores = || scored.iter().map(|s| s.score).filter(|s| s.is_finite());
    let (low, high) = (scores().fold(-1.0, f64::min), scores().fold(1.0, f64::max));
    (low.max(-1e6), high.min(1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_stretched_and_bounded() {
        assert!((across(1.0) - (WIDTH - RIGHT)).abs() < 1e-9 && (across(0.0) - LEFT).abs() < 1e-9);
        assert!((up(0.0) - (HEIGHT - BOTTOM)).abs() < 1e-9 && (up(1.0) - TOP).abs() < 1e-9);
        assert!((up(0.99) - up(0.9) - (up(0.999) - up(0.99))).abs() < 1e-9);
    }

    #[test]
    fn drawings_of_nothing_and_of_odd_scores_are_whole() {
        assert!(roc(&[]).svg().ends_with("</svg>"));
        assert!(histogram("x", &[]).svg().ends_with("</svg>"));
        let odd = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 0.0];
        let odd: Vec<Scored> = odd.iter().map(|&score| Scored { score, spam: true }).collect();
        assert!(!histogram("x", &odd).svg().contains("NaN"));
    }
}
