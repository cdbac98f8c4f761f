//! What a user sees on standard error: a bar while it runs, and a summary at the end.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use gauntlet_bench::usage;
use gauntlet_inputs::source;
use gauntlet_verdict::Class;
use indicatif::{ProgressBar, ProgressStyle};

use super::report::Judged;

/// A bar over the bytes of the inputs with rate and time left; nothing when standard error is no
/// terminal.
#[derive(Debug)]
pub(crate) struct Progress {
    taken: Arc<AtomicU64>,
    bar: Option<ProgressBar>,
    /// Standard output is the same terminal, so the bar must step aside for each line.
    shares_terminal: bool,
    stop: Arc<AtomicBool>,
}

impl Progress {
    /// Begins. The inputs are measured on a thread of its own, so that judging starts at once.
    pub(crate) fn new(paths: &[PathBuf]) -> Self {
        let taken = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let shares_terminal = io::stdout().is_terminal();
        let waits_for_input = paths.iter().any(|p| p.as_os_str() == "-");
        let bar = (io::stderr().is_terminal() && !paths.is_empty() && !waits_for_input)
            .then(|| begin(paths.to_vec(), taken.clone(), stop.clone()));
        Progress { taken, bar, shares_terminal, stop }
    }

    /// The counter of bytes taken.
    pub(crate) fn taken(&self) -> &Arc<AtomicU64> {
        &self.taken
    }

    /// Counts bytes read outside the walker.
    pub(crate) fn add(&self, bytes: usize) {
        self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Prints what was judged to `out`, and what could not be read to standard error.
    pub(crate) fn print(&self, judged: &Judged, out: &mut impl Write) -> io::Result<()> {
        let write = || -> io::Result<()> {
            if let Some(error) = &judged.error {
                let _ = writeln!(io::stderr(), "gauntlet: {error}");
            }
            out.write_all(judged.text.as_bytes())?;
            if self.shares_terminal { out.flush() } else { Ok(()) }
        };
        match &self.bar {
            Some(bar) if self.shares_terminal || judged.error.is_some() => bar.suspend(write),
            _ => {
                let mut write = write;
                write()
            }
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn begin(paths: Vec<PathBuf>, taken: Arc<AtomicU64>, stop: Arc<AtomicBool>) -> ProgressBar {
    let bar = ProgressBar::new(0);
    let template = "{bar:30} {bytes}/{total_bytes} {bytes_per_sec} left {eta}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    let shown = bar.clone();
    std::thread::spawn(move || {
        for path in &paths {
            shown.inc_length(source::size_of(path, 0));
        }
        while !stop.load(Ordering::Relaxed) {
            shown.set_position(taken.load(Ordering::Relaxed));
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    bar
}

/// Totals of a run.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    /// Inputs that could not be read.
    pub(crate) unreadable: u64,
    classes: BTreeMap<Class, u64>,
    bytes: u64,
}

impl Summary {
    /// Adds one input to the totals.
    pub(crate) fn add(&mut self, judged: &Judged) {
        self.bytes += judged.bytes;
        match judged.class {
            Some(class) => {
                *self.classes.entry(class).or_default() += 1;
            }
            None => self.unreadable += 1,
        }
    }

    /// Whether an input was of this class or of a more severe one.
    pub(crate) fn reaches(&self, class: Class) -> bool {
        self.classes.keys().any(|seen| seen.severity() >= class.severity())
    }

    /// One line: how much, how fast, what came of it.
    pub(crate) fn line(&self, elapsed: Duration) -> String {
        let seconds = elapsed.as_secs_f64().max(1e-9);
        let items: u64 = self.classes.values().sum();
        let megabytes = self.bytes as f64 / 1e6;
        let messages = if items == 1 { "message" } else { "messages" };
        let mut line = format!(
            "{items} {messages}, {megabytes:.1} MB in {seconds:.2} s: {:.0} messages/s, {:.1} MB/s, \
             {:.2} CPU s",
            items as f64 / seconds,
            megabytes / seconds,
            usage::cpu_seconds(),
        );
        let mut before = "; ";
        for (class, count) in &self.classes {
            line.push_str(&format!("{before}{class} {count}"));
            before = ", ";
        }
        if self.unreadable > 0 {
            line.push_str(&format!("{before}unreadable {}", self.unreadable));
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_harm_is_more_severe_than_what_cannot_be_judged() {
        use Class as C;
        let reached = |seen: Class| -> Vec<Class> {
            let mut summary = Summary::default();
            let text = String::new();
            summary.add(&Judged { text, error: None, class: Some(seen), bytes: 1 });
            Class::ALL.into_iter().filter(|class| summary.reaches(*class)).collect()
        };
        let mild = [C::Ham, C::Bulk, C::Suspect, C::Spam];
        assert_eq!(reached(C::Spam), mild);
        assert_eq!(reached(C::Unscannable), [&mild[..], &[C::Unscannable]].concat());
        assert_eq!(reached(C::Phishing), [&mild[..], &[C::Phishing, C::Unscannable]].concat());
        assert_eq!(reached(C::Malware), Class::ALL);
        assert!(!Summary::default().reaches(C::Ham));
    }
}
