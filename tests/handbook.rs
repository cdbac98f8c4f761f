//! The handbook is true: every block of commands in it says whether it is run here, and those that
//! are print what the page says.
//!
//! Marks are in `tests/common/blocks.rs`. That all commands are understood, run or not, is tested
//! in `src/reference/examples.rs`. A page is run from top to bottom in a folder of its own, with
//! `samples/`, `rules/` and `tests/` in it. What a page prints is compared line by line: `...`
//! stands for anything, numbers may differ, and ids of the page stand for those that were found.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::common::blocks::{Block, Step, blocks, pages, root};
use crate::common::postfix::free_address;
use crate::common::shell::Shell;
use crate::common::{Node, PATIENCE, program};

/// Pages whose blocks have marks: all of the book but what is made from the program, and those that
/// a newcomer reads first.
fn marked_pages() -> Vec<PathBuf> {
    let made = |page: &PathBuf| page.starts_with("docs/reference");
    let past = |page: &PathBuf| page.starts_with("docs/decisions");
    let mut found = pages("docs");
    found.retain(|page| !made(page) && !past(page));
    found.push(PathBuf::from("README.md"));
    found.push(PathBuf::from("CONTRIBUTING.md"));
    found.push(PathBuf::from("SECURITY.md"));
    found
}

/// What a mark asks for.
#[derive(Debug, PartialEq)]
enum Mark<'a> {
    Run { exit: i32, with_node: bool },
    File(&'a str),
    Config,
    Policy,
    NotRun(&'a str),
}

fn mark(block: &Block) -> Option<Mark<'_>> {
    let text = block.mark.as_deref()?;
    let (word, rest) = text.split_once(": ").unwrap_or((text, ""));
    match word {
        "run" | "run with a node" => {
            let exit = rest.strip_prefix("exit ").and_then(|code| code.parse().ok());
            let is_known = rest.is_empty() || exit.is_some();
            let with_node = word == "run with a node";
            is_known.then_some(Mark::Run { exit: exit.unwrap_or(0), with_node })
        }
        "file" if !rest.is_empty() => Some(Mark::File(rest)),
        "config" => Some(Mark::Config),
        "policy" => Some(Mark::Policy),
        "not run" if !rest.is_empty() => Some(Mark::NotRun(rest)),
        _ => None,
    }
}

/// Whether there is this file of tests (`tests/x.rs`), or a test in it whose name begins so
/// (`tests/x.rs::name`).
fn is_test(word: &str) -> bool {
    let (file, name) = word.split_once("::").unwrap_or((word, ""));
    let text = std::fs::read_to_string(root().join(file));
    text.is_ok_and(|text| name.is_empty() || text.contains(&format!("fn {name}")))
}

#[test]
fn every_block_of_commands_is_run_or_says_why_not() {
    let (mut faults, mut run, mut not_run) = (Vec::new(), 0, 0);
    for page in marked_pages() {
        for block in blocks(&page) {
            match mark(&block) {
                Some(Mark::NotRun(why)) => {
                    not_run += 1;
                    let words = why.split([' ', ',', ';']);
                    let missing = words.filter(|word| word.contains(".rs") && !is_test(word));
                    faults.extend(missing.map(|f| format!("{}: no test {f}", block.place())));
                }
                Some(_) => run += 1,
                None if block.mark.is_some() && block.has_commands() => {
                    let mark = block.mark.as_deref().unwrap_or_default();
                    faults.push(format!("{}: there is no mark {mark:?}", block.place()));
                }
                None if block.has_commands() => {
                    let place = block.place();
                    faults.push(format!("{place}: <!-- run --> or <!-- not run: WHY --> above it"));
                }
                None => {}
            }
        }
    }
    assert!(faults.is_empty(), "marks of tests/common/blocks.rs:\n{}", faults.join("\n"));
    eprintln!("{run} blocks are run, {not_run} are not");
    assert!(run > 40, "blocks are run: {run}");
}

/// A page that is run: its folder, its shell, perhaps a node, and what its ids stand for.
struct Run {
    folder: tempfile::TempDir,
    shell: Shell,
    node: Option<Node>,
    /// Text of the page, and what stands for it here.
    here: BTreeMap<String, String>,
    ids: BTreeMap<String, String>,
}

impl Run {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["samples", "rules", "tests", "config", "crates"] {
            let link = folder.path().join(name);
            std::os::unix::fs::symlink(root().join(name), link).expect("a link");
        }
        let program = env!("CARGO_BIN_EXE_gauntlet");
        let mut here = BTreeMap::from([
            ("target/release/gauntlet".to_owned(), program.to_owned()),
            ("127.0.0.1:3128".to_owned(), free_address().to_string()),
        ]);
        for place in ["/etc/gauntlet", "/etc/rules-keys", "/var/lib", "/srv", "/media/usb"] {
            let inside = folder.path().join(&place[1..]);
            std::fs::create_dir_all(&inside).expect("a folder");
            here.insert(place.to_owned(), inside.display().to_string());
        }
        // `channel init` makes it.
        std::fs::remove_dir(folder.path().join("etc/rules-keys")).expect("an empty folder");
        let shell = Shell::start(folder.path(), Path::new(program));
        Run { folder, shell, node: None, here, ids: BTreeMap::new() }
    }

    /// Starts a node, if none runs, whose data folder is the default's.
    fn need_node(&mut self) {
        if self.node.is_some() {
            return;
        }
        let node = Node::start("");
        let link = self.folder.path().join("gauntlet-data");
        std::os::unix::fs::symlink(node.data(), link).expect("a link");
        let file = node.folder.path().join("gauntlet.toml");
        for (page, here) in [
            ("127.0.0.1:2525", node.smtp.to_string()),
            ("127.0.0.1:8025", node.console.to_string()),
            ("/var/lib/gauntlet", node.data().display().to_string()),
            ("/etc/gauntlet/gauntlet.toml", file.display().to_string()),
        ] {
            self.here.insert(page.to_owned(), here);
        }
        self.node = Some(node);
    }

    /// A command of the page as it is run here.
    fn translated(&self, text: &str) -> String {
        let mut all: Vec<(&String, &String)> = self.here.iter().chain(&self.ids).collect();
        // What stands for a file goes before what stands for its folder.
        all.sort_by_key(|(page, _)| std::cmp::Reverse(page.len()));
        let mut translated = String::new();
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            let found = all.iter().find(|(page, _)| rest.starts_with(page.as_str()));
            let length = found.map_or(next.len_utf8(), |(page, _)| page.len());
            translated.push_str(found.map_or(&rest[..length], |(_, here)| here));
            rest = &rest[length..];
        }
        translated
    }

    fn step(&mut self, block: &Block, step: &Step, exit: i32) {
        let command = self.translated(&step.command);
        let expected: Vec<String> = step.output.iter().map(|l| self.translated(l)).collect();
        let (mut printed, mut status) = self.shell.run(&command);
        if command.trim_end().ends_with('&') {
            printed = self.shell.wait_for(printed, |text| missing(&expected, text).is_none());
        }
        // The log has a message a moment after its client has the answer.
        let start = std::time::Instant::now();
        while is_question(&command)
            && missing(&expected, &printed).is_some()
            && start.elapsed() < PATIENCE
        {
            std::thread::sleep(std::time::Duration::from_millis(100));
            (printed, status) = self.shell.run(&command);
        }
        let place = block.place();
        assert!(
            status == exit,
            "{place}: {command}\nended with {status}, not {exit}, and printed:\n{printed}"
        );
        if let Some(line) = missing(&expected, &printed) {
            panic!("{place}: {command}\nprints no line\n  {line}\nbut:\n{printed}");
        }
        self.bind_ids(&step.output, &printed);
    }

    /// Ids of the page stand for those in the lines that fit.
    fn bind_ids(&mut self, expected: &[String], printed: &str) {
        let mut lines = printed.lines();
        for wanted in expected.iter().filter(|line| line.trim() != "...") {
            let wanted_here = self.translated(wanted);
            let Some(found) = lines.find(|line| fits(&wanted_here, line)) else { continue };
            for (page, here) in ids(wanted).zip(ids(found)) {
                self.ids.entry(page.to_owned()).or_insert_with(|| here.to_owned());
            }
        }
    }

    fn block(&mut self, block: &Block) {
        match mark(block) {
            Some(Mark::File(name)) => {
                let path = self.folder.path().join(self.translated(name));
                let folder = path.parent().expect("a file is in a folder");
                std::fs::create_dir_all(folder).expect("a folder");
                std::fs::write(path, self.translated(&block.text)).expect("a file");
            }
            Some(Mark::Config) => self.check(block, "config"),
            Some(Mark::Policy) => self.check(block, "policy"),
            Some(Mark::Run { exit, with_node }) => {
                if with_node {
                    self.need_node();
                }
                let steps = block.steps();
                for (at, step) in steps.iter().enumerate() {
                    let exit = if at + 1 == steps.len() { exit } else { 0 };
                    self.step(block, step, exit);
                }
            }
            Some(Mark::NotRun(_)) | None => {}
        }
    }

    /// The block is a file that the program reads without a word against it.
    fn check(&mut self, block: &Block, what: &str) {
        let path = self.folder.path().join(format!("checked-{}.toml", block.line));
        std::fs::write(&path, &block.text).expect("a file");
        let command = format!("gauntlet {what} check {}", path.display());
        let (printed, status) = self.shell.run(&command);
        let is_fine = status == 0 && !printed.contains("never tried");
        assert!(is_fine, "{}: {printed}", block.place());
    }
}

/// Whether a command asks the node, and may ask again.
fn is_question(command: &str) -> bool {
    let questions = ["messages", "trace", "quarantine list", "quarantine folders", "policy replay"];
    questions.iter().any(|question| command.contains(&format!("gauntlet {question}")))
}

/// The first expected line that is not among what was printed, in order.
fn missing<'a>(expected: &'a [String], printed: &str) -> Option<&'a str> {
    let mut lines = printed.lines();
    let wanted = expected.iter().filter(|line| !line.trim().is_empty() && line.trim() != "...");
    wanted.map(String::as_str).find(|wanted| !lines.any(|line| fits(wanted, line)))
}

/// Words that look like an id of a message.
fn ids(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| {
        word.len() == 13
            && word.starts_with('1')
            && word.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase())
            && word.bytes().any(|b| b.is_ascii_uppercase())
    })
}

/// Names in dates, as they stand there.
const DAYS: &[&str] = &["Mon, ", "Tue, ", "Wed, ", "Thu, ", "Fri, ", "Sat, ", "Sun, "];
const MONTHS: &[&str] = &[
    " Jan ", " Feb ", " Mar ", " Apr ", " May ", " Jun ", " Jul ", " Aug ", " Sep ", " Oct ",
    " Nov ", " Dec ",
];

/// A line without what differs from run to run: ids, numbers, dates, blanks.
fn shape(line: &str) -> String {
    let mut line = line.to_owned();
    let found: Vec<String> = ids(&line).map(str::to_owned).collect();
    for id in found {
        line = line.replace(&id, "@");
    }
    for (names, name) in [(DAYS, "Day, "), (MONTHS, " Month ")] {
        line = names.iter().fold(line, |line, known| line.replace(known, name));
    }
    let mut shape = String::new();
    for c in line.trim().chars() {
        let c = if c.is_ascii_digit() { '0' } else { c };
        let repeats = matches!(c, '0' | ' ') && shape.ends_with(c);
        if !repeats {
            shape.push(c);
        }
    }
    shape
}

/// Whether a printed line is the one of the page, where `...` stands for anything.
fn fits(page: &str, printed: &str) -> bool {
    let (page, printed) = (shape(page), shape(printed));
    let mut pieces = page.split("...");
    let Some(mut rest) = printed.strip_prefix(pieces.next().unwrap_or_default()) else {
        return false;
    };
    let mut last = None;
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
        last = Some(piece);
    }
    rest.is_empty() || last.is_some_and(|piece| piece.is_empty() || printed.ends_with(piece))
}

#[test]
fn what_pages_print_is_compared_by_its_shape() {
    assert!(fits("spam  18.05 1.000  a.eml  PHARMA ...", "spam 7.1 0.993 a.eml PHARMA URL"));
    assert!(!fits("spam 18.05", "spam 18.05 and more"));
    assert!(fits("released to 1 recipient", "released to 12 recipient"));
    assert!(fits("... 1M83V1ENK0000 ...", "2026-11-25 1M86HYG3M0001 ham"));
    assert!(!fits("a ... c", "a b d"));
    let expected = ["one".to_owned(), "...".to_owned(), "three".to_owned()];
    assert_eq!(missing(&expected, "one\ntwo\nthree\n"), None);
    assert_eq!(missing(&expected, "three\none\n"), Some("three"));
}

#[test]
fn the_commands_of_the_pages_do_what_the_pages_say() {
    let Some(_) = program("curl") else { return };
    let is_run = |page: &PathBuf| {
        blocks(page).iter().any(|b| !matches!(mark(b), Some(Mark::NotRun(_)) | None))
    };
    let mut all = marked_pages();
    all.extend(pages("docs").into_iter().filter(|page| page.parent() == Some(Path::new("docs"))));
    all.retain(is_run);
    assert!(all.len() > 5, "pages are run: {all:?}");
    let failed: Vec<PathBuf> = std::thread::scope(|scope| {
        let run = |page: &PathBuf| {
            let mut run = Run::new();
            blocks(page).iter().for_each(|block| run.block(block));
        };
        let threads: Vec<_> =
            all.iter().map(|page| (page, scope.spawn(move || run(page)))).collect();
        let failed =
            threads.into_iter().filter_map(|(page, t)| t.join().err().map(|_| page.clone()));
        failed.collect()
    });
    assert!(failed.is_empty(), "these pages are not true, see above: {failed:?}");
}
