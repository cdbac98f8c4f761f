//! A report as PDF (ISO 32000-1): A4 pages of tables and a plot, in the fonts that every reader
//! has, so that nothing is embedded. Names that Windows-1252 cannot write are shown with `?`.

use gauntlet_verdict::Class;
use pdf_writer::{Content, Finish, Name, Pdf, Rect, Ref, Str};

use super::web::{WebReport, name};
use super::{Report, percent};
use crate::format;
use crate::text::{Texts, translatable};

/// Width of A4 in points.
const WIDTH: f32 = 595.0;
const HEIGHT: f32 = 842.0;
const MARGIN: f32 = 50.0;
/// Points from one line to the next.
const LINE: f32 = 14.0;
/// Height of the plot.
const PLOT: f32 = 110.0;
/// Characters of a name; longer ones are cut.
const NAME_CHARS_MAX: usize = 60;
/// Pages of a report; its lists are bounded far below.
const PAGES_MAX: usize = 20;

const PLAIN: Name<'_> = Name(b"F1");
const BOLD: Name<'_> = Name(b"F2");

/// Colours of the classes, as the pages have them where it is light.
fn colour(class: Class) -> [f32; 3] {
    match class {
        Class::Ham => [0.29, 0.66, 0.45],
        Class::Bulk => [0.36, 0.60, 0.84],
        Class::Suspect => [0.88, 0.67, 0.24],
        Class::Spam => [0.87, 0.45, 0.27],
        Class::Phishing => [0.73, 0.33, 0.60],
        Class::Malware => [0.77, 0.23, 0.30],
        Class::Unscannable => [0.57, 0.61, 0.65],
    }
}

/// The pages while they are written.
struct Pages {
    done: Vec<Vec<u8>>,
    now: Content,
    y: f32,
}

impl Pages {
    fn new() -> Self {
        Pages { done: Vec::new(), now: Content::new(), y: HEIGHT - MARGIN }
    }

    /// Makes room for something of this height; begins a page if there is none.
    fn room(&mut self, height: f32) {
        if self.y - height < MARGIN && self.done.len() < PAGES_MAX {
            let full = std::mem::replace(&mut self.now, Content::new());
            self.done.push(full.finish().into_vec());
            self.y = HEIGHT - MARGIN;
        }
        self.y -= height;
    }

    fn text(&mut self, font: Name<'_>, size: f32, x: f32, text: &str) {
        self.now.begin_text();
        self.now.set_font(font, size);
        self.now.next_line(x, self.y);
        self.now.show(Str(&windows_1252(text)));
        self.now.end_text();
    }

    fn heading(&mut self, text: &str) {
        self.room(LINE * 3.0);
        self.text(BOLD, 12.0, MARGIN, text);
        self.room(LINE * 0.4);
    }

    /// A line of a table: a name, and cells that end at these distances from the left.
    fn row(&mut self, font: Name<'_>, name: &str, cells: &[(f32, String)]) {
        self.room(LINE);
        let name: String = format::plain(name).chars().take(NAME_CHARS_MAX).collect();
        self.text(font, 9.5, MARGIN, &name);
        for (x, cell) in cells {
            // Digits of Helvetica are 0.556 of its size wide; what stands here are numbers.
            let width = cell.chars().count() as f32 * 9.5 * 0.53;
            self.text(font, 9.5, x - width, cell);
        }
    }
}

/// The report as PDF.
pub fn pdf(report: &Report, node: &str, texts: &Texts) -> Vec<u8> {
    let mut pages = Pages::new();
    pages.room(LINE);
    pages.text(BOLD, 17.0, MARGIN, &texts.say("Mail of {}", &[&node]));
    pages.room(LINE * 1.4);
    let (messages, bytes) = (format::count(report.messages()), format::bytes(report.bytes));
    let all = texts.say(
        "{} to {} (UTC): {} messages, {}.",
        &[&report.since, &report.until, &messages, &bytes],
    );
    pages.text(PLAIN, 10.5, MARGIN, &all);
    plot(&mut pages, report);
    totals(&mut pages, report, texts);
    accuracy(&mut pages, report, texts);
    domains(&mut pages, report, texts);
    for (title, names) in report.tops() {
        pages.heading(&texts.say(title, &[]));
        for name in names {
            pages.row(PLAIN, &name.name, &[(WIDTH - MARGIN, format::count(name.messages))]);
        }
    }
    if let Some(report) = &report.web {
        web(&mut pages, report, texts);
    }
    let Pages { mut done, now, .. } = pages;
    done.push(now.finish().into_vec());
    assemble(&done)
}

fn web(pages: &mut Pages, report: &WebReport, texts: &Texts) {
    let columns = [WIDTH - MARGIN - 180.0, WIDTH - MARGIN - 90.0, WIDTH - MARGIN];
    let head = |pages: &mut Pages, title: &str| {
        let names = ["requests", "blocked", "bytes"].map(|name| texts.say(name, &[]));
        let cells: Vec<(f32, String)> = columns.into_iter().zip(names).collect();
        pages.row(BOLD, &texts.say(title, &[]), &cells);
    };
    let row = |pages: &mut Pages, name: &str, (requests, blocked, bytes): (u64, u64, u64)| {
        let cells = [format::count(requests), format::count(blocked), format::bytes(bytes)];
        let cells: Vec<(f32, String)> = columns.into_iter().zip(cells).collect();
        let name: String = name.chars().take(44).collect();
        pages.row(PLAIN, &name, &cells);
    };
    pages.heading(&texts.say("Web requests", &[]));
    head(pages, "Day");
    for day in &report.days {
        row(pages, &day.day, (day.requests, day.blocked, day.bytes_out));
    }
    row(pages, &texts.say("all", &[]), (report.requests, report.blocked, report.bytes_out));
    for (title, counts, _) in report.tops() {
        if counts.is_empty() {
            continue;
        }
        pages.room(LINE);
        head(pages, title);
        for count in counts {
            row(pages, name(count), (count.requests, count.blocked, count.bytes_out));
        }
    }
}

fn plot(pages: &mut Pages, report: &Report) {
    pages.room(PLOT + LINE * 2.0);
    let (bottom, width) = (pages.y + LINE, WIDTH - 2.0 * MARGIN);
    let step = width / report.days.len().max(1) as f32;
    let total = |classes: &std::collections::BTreeMap<Class, u64>| classes.values().sum::<u64>();
    let most = report.days.iter().map(|d| total(&d.classes)).max().unwrap_or(0).max(1);
    for (n, day) in report.days.iter().enumerate() {
        let (x, mut y) = (MARGIN + step * n as f32, bottom);
        for (class, messages) in &day.classes {
            let height = PLOT * *messages as f32 / most as f32;
            let [r, g, b] = colour(*class);
            pages.now.set_fill_rgb(r, g, b);
            pages.now.rect(x, y, step * 0.82, height);
            pages.now.fill_nonzero();
            y += height;
        }
    }
    pages.now.set_fill_rgb(0.0, 0.0, 0.0);
    let (first, last) = (report.since.as_str(), report.until.as_str());
    pages.text(PLAIN, 8.5, MARGIN, first);
    if first != last {
        pages.text(PLAIN, 8.5, WIDTH - MARGIN - 48.0, last);
    }
}

fn totals(pages: &mut Pages, report: &Report, texts: &Texts) {
    pages.heading(&texts.say("By class", &[]));
    for (class, n) in &report.classes {
        pages.row(PLAIN, &texts.say(class.name(), &[]), &[(WIDTH - MARGIN, format::count(*n))]);
        let [r, g, b] = colour(*class);
        pages.now.set_fill_rgb(r, g, b);
        pages.now.rect(MARGIN - 11.0, pages.y, 7.0, 7.0);
        pages.now.fill_nonzero();
        pages.now.set_fill_rgb(0.0, 0.0, 0.0);
    }
    pages.heading(&texts.say("By disposition", &[]));
    for (action, n) in &report.actions {
        pages.row(
            PLAIN,
            &texts.say(&format::spaced(action), &[]),
            &[(WIDTH - MARGIN, format::count(*n))],
        );
    }
}

fn accuracy(pages: &mut Pages, report: &Report, texts: &Texts) {
    let a = &report.accuracy;
    pages.heading(&texts.say("Accuracy, by users' corrections", &[]));
    for (what, n, of, share) in [
        (
            translatable("Judged unwanted, wanted by users"),
            a.wrongly_unwanted,
            a.unwanted,
            a.false_positives(),
        ),
        (
            translatable("Judged wanted, unwanted by users"),
            a.wrongly_wanted,
            a.wanted,
            a.false_negatives(),
        ),
    ] {
        let counts = texts.say("{} of {}", &[&format::count(n), &format::count(of)]);
        let share = percent(share).unwrap_or_else(|| texts.say("unknown", &[]));
        pages.row(
            PLAIN,
            &texts.say(what, &[]),
            &[(WIDTH - MARGIN - 90.0, counts), (WIDTH - MARGIN, share)],
        );
    }
}

fn domains(pages: &mut Pages, report: &Report, texts: &Texts) {
    pages.heading(&texts.say("Our domains", &[]));
    let columns = [Class::Ham, Class::Bulk, Class::Suspect, Class::Spam, Class::Phishing];
    let right_edge = |n: usize| WIDTH - MARGIN - 58.0 * (columns.len() - n) as f32;
    let mut heads: Vec<(f32, String)> = columns
        .iter()
        .enumerate()
        .map(|(n, c)| (right_edge(n), texts.say(c.name(), &[])))
        .collect();
    heads.push((WIDTH - MARGIN, texts.say("all", &[])));
    pages.row(BOLD, &texts.say("Domain", &[]), &heads);
    for domain in &report.domains {
        let count = |class| format::count(domain.classes.get(class).copied().unwrap_or(0));
        let mut cells: Vec<(f32, String)> =
            columns.iter().enumerate().map(|(n, class)| (right_edge(n), count(class))).collect();
        cells.push((WIDTH - MARGIN, format::count(domain.messages())));
        let name: String = domain.domain.chars().take(28).collect();
        pages.row(PLAIN, &name, &cells);
    }
}

/// Puts the pages together.
fn assemble(contents: &[Vec<u8>]) -> Vec<u8> {
    let (catalog, tree, plain, bold) = (Ref::new(1), Ref::new(2), Ref::new(3), Ref::new(4));
    let number = |n: usize| i32::try_from(n).unwrap_or(0);
    let page = |n: usize| Ref::new(5 + 2 * number(n));
    let content = |n: usize| Ref::new(6 + 2 * number(n));
    let mut pdf = Pdf::new();
    pdf.catalog(catalog).pages(tree).lang(pdf_writer::TextStr("en"));
    pdf.pages(tree).kids((0..contents.len()).map(page)).count(number(contents.len()));
    for (id, name) in [(plain, &b"Helvetica"[..]), (bold, b"Helvetica-Bold")] {
        pdf.type1_font(id).base_font(Name(name)).encoding_predefined(Name(b"WinAnsiEncoding"));
    }
    for (n, text) in contents.iter().enumerate() {
        let mut one = pdf.page(page(n));
        one.media_box(Rect::new(0.0, 0.0, WIDTH, HEIGHT)).parent(tree).contents(content(n));
        one.resources().fonts().pair(PLAIN, plain).pair(BOLD, bold);
        one.finish();
        pdf.stream(content(n), text);
    }
    pdf.finish()
}

/// Latin-1 and ASCII as they are, all else as `?`: what the standard fonts can write.
fn windows_1252(text: &str) -> Vec<u8> {
    let byte = |c: char| match u32::from(c) {
        code @ (0x20..=0x7e | 0xa0..=0xff) => u8::try_from(code).unwrap_or(b'?'),
        _ => b'?',
    };
    text.chars().map(byte).collect()
}
