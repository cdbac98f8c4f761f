//! Progress of training on or judging a corpus, on a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Counts on standard error with rate and time; shows nothing if that is no terminal.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Begins to count an unknown number of things.
    pub(crate) fn new(what: &'static str) -> Self {
        let bar = ProgressBar::no_length();
        Self::begin(bar, "{spinner} {pos} {msg}, {per_sec:.0}, {elapsed}", what)
    }

    /// Begins to count up to a known number.
    pub(crate) fn of(count: usize, what: &'static str) -> Self {
        let bar = ProgressBar::new(count as u64);
        Self::begin(bar, "{wide_bar} {pos}/{len} {msg}, {per_sec:.0}, {eta} left", what)
    }

    fn begin(bar: ProgressBar, template: &str, what: &'static str) -> Self {
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_message(what);
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress(bar)
    }

    pub(crate) fn step(&self) {
        self.0.inc(1);
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        self.0.finish_and_clear();
    }
}
