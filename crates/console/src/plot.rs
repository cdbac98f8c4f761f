//! Plots, drawn by us as SVG: no script, no library; each is a sentence for those who do not see
//! it.

use gauntlet_verdict::Class;
use maud::{Markup, html};

use crate::format;
use crate::text::{Phrase, t};

/// Width of a plot and height of its bars, in the picture's own units.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 140.0;
/// Part of a column that is bar; the rest is gap.
const BAR_SHARE: f64 = 0.82;

/// A column of stacked bars.
#[derive(Debug, Default)]
pub(crate) struct Column {
    /// Under the column; empty for none.
    pub(crate) label: String,
    /// What it is of, for who points at it.
    pub(crate) title: String,
    /// Messages by class, in the order in which they stand on each other.
    pub(crate) parts: Vec<(Class, u64)>,
}

impl Column {
    fn total(&self) -> u64 {
        self.parts.iter().map(|(_, n)| n).sum()
    }
}

/// Stacked bars with a legend. `what` says what a column counts: `messages an hour`.
pub(crate) fn stacked(what: Phrase<'_>, columns: &[Column]) -> Markup {
    let most = columns.iter().map(Column::total).max().unwrap_or(0).max(1);
    let step = WIDTH / columns.len().max(1) as f64;
    let mut sums: Vec<(Class, u64)> = Vec::new();
    for (class, n) in columns.iter().flat_map(|c| &c.parts) {
        match sums.iter_mut().find(|(c, _)| c == class) {
            Some((_, sum)) => *sum += n,
            None => sums.push((*class, *n)),
        }
    }
    sums.sort_unstable();
    html! {
        svg.plot viewBox={ "0 -18 " (WIDTH) " " (HEIGHT + 40.0) } role="img"
            aria-label={ (t("{}, at most {}").with(what).with(format::count(most))) } {
            @for line in 0..=2u32 {
                line.grid x1="0" x2=(WIDTH) y1=(HEIGHT * f64::from(line) / 2.0)
                    y2=(HEIGHT * f64::from(line) / 2.0) {}
            }
            @for (n, column) in columns.iter().enumerate() {
                @let x = step * n as f64;
                (bar(column, most, x, step * BAR_SHARE))
                @if !column.label.is_empty() {
                    text x=(format!("{x:.1}")) y=(HEIGHT + 16.0) { (column.label) }
                }
            }
            text.most x=(WIDTH) y="-6" text-anchor="end" { (format::count(most)) }
        }
        ul.legend {
            @for (class, n) in &sums {
                li { span class={ "key fill-" (class.name()) } {} (t(class.name())) " "
                    b { (format::count(*n)) } }
            }
            @if sums.is_empty() { li { (t("No messages yet.")) } }
        }
    }
}

fn bar(column: &Column, most: u64, x: f64, width: f64) -> Markup {
    if column.parts.is_empty() {
        return html! {};
    }
    let mut y = HEIGHT;
    html! {
        g {
            title { (column.title) ": " (format::count(column.total())) }
            @for (class, n) in &column.parts {
                @let height = HEIGHT * *n as f64 / most as f64;
                ({ y -= height; "" })
                rect class={ "fill-" (class.name()) } x=(format!("{x:.1}")) y=(format!("{y:.1}"))
                    width=(format!("{width:.1}")) height=(format!("{height:.1}")) {}
            }
        }
    }
}

/// Names with bars of their counts, the largest first. `link` makes the address that a name leads
/// to.
pub(crate) fn tops(names: &[(String, u64)], link: impl Fn(&str) -> String) -> Markup {
    let most = names.iter().map(|(_, n)| *n).max().unwrap_or(1).max(1);
    html! {
        table.costs {
            tbody {
                @for (name, n) in names {
                    tr {
                        th scope="row" { a href=(link(name)) { (format::plain(name)) } }
                        td.bar { meter min="0" max=(most) value=(n) aria-hidden="true" {} }
                        td.number { (format::count(*n)) }
                    }
                }
                @if names.is_empty() { tr { td { (t("None yet.")) } } }
            }
        }
    }
}
