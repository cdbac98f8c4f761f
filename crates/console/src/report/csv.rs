//! A report as CSV (RFC 4180): one table, its first column says what a line is about. Lines about
//! the web count requests, and its bytes are those to clients; class is `blocked` or empty.

use gauntlet_verdict::Class;

use super::Report;
use super::web::{WebReport, name};
use crate::csv::{self, Cell};

/// The report as CSV; lines end in CRLF.
pub fn csv(report: &Report) -> String {
    let mut out = String::from("section,name,class,messages,bytes\r\n");
    let mut line = |section: &str, name: &str, class: &str, messages: u64, bytes: Option<u64>| {
        let bytes = bytes.map_or(Cell::Empty, Cell::Count);
        let [section, name, class] = [section, name, class].map(Cell::Text);
        csv::line(&mut out, &[section, name, class, Cell::Count(messages), bytes]);
    };
    for day in &report.days {
        line("day", &day.day, "", day.classes.values().sum(), Some(day.bytes));
        for (class, n) in &day.classes {
            line("day", &day.day, class.name(), *n, None);
        }
    }
    for (action, n) in &report.actions {
        line("disposition", action, "", *n, None);
    }
    let accuracy = &report.accuracy;
    for (name, n) in [
        ("judged unwanted", accuracy.unwanted),
        ("of them wanted by users", accuracy.wrongly_unwanted),
        ("judged wanted", accuracy.wanted),
        ("of them unwanted by users", accuracy.wrongly_wanted),
    ] {
        line("accuracy", name, "", n, None);
    }
    for name in &report.senders {
        line("sender domain", &name.name, "", name.messages, None);
    }
    for name in &report.recipients {
        line("recipient", &name.name, "", name.messages, None);
    }
    for domain in &report.domains {
        for class in Class::ALL {
            if let Some(n) = domain.classes.get(&class) {
                line("our domain", &domain.domain, class.name(), *n, None);
            }
        }
    }
    for name in &report.rules {
        line("rule", &name.name, "", name.messages, None);
    }
    if let Some(report) = &report.web {
        web(report, &mut line);
    }
    out
}

/// Lines about the web.
fn web(report: &WebReport, line: &mut impl FnMut(&str, &str, &str, u64, Option<u64>)) {
    let mut both = |section: &str, name: &str, (requests, blocked): (u64, u64), bytes: u64| {
        line(section, name, "", requests, Some(bytes));
        line(section, name, "blocked", blocked, None);
    };
    for day in &report.days {
        both("web day", &day.day, (day.requests, day.blocked), day.bytes_out);
    }
    for (section, counts) in [
        ("web site", &report.hosts),
        ("web blocked site", &report.blocked_hosts),
        ("web client", &report.clients),
        ("web rule", &report.rules),
        ("web category", &report.categories),
    ] {
        for count in counts {
            both(section, name(count), (count.requests, count.blocked), count.bytes_out);
        }
    }
}
