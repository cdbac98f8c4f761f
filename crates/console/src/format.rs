//! Values formatted for pages.

use gauntlet_mail::date::{DAY_MS, day_name, time_of_day};
use maud::{Markup, html};

/// A time, UTC: `2026-11-21 04:23:05`. The script turns it into the reader's own time zone.
pub(crate) fn time(ms: i64) -> Markup {
    let machine = format!("{}T{}Z", day_name(ms.div_euclid(DAY_MS)), time_of_day(ms));
    html! { time datetime=(machine) title=(machine) { (day_and_clock(ms)) } }
}

/// Unix milliseconds as `2026-11-21 04:23:05`, UTC.
pub(crate) fn day_and_clock(ms: i64) -> String {
    format!("{} {}", day_name(ms.div_euclid(DAY_MS)), time_of_day(ms))
}

/// `831 B`, `12 KB`, `3.4 MB` (1000 bytes a KB).
pub(crate) fn bytes(n: u64) -> String {
    match n {
        0..1000 => format!("{n} B"),
        1000..100_000 => format!("{:.1} KB", n as f64 / 1e3),
        100_000..1_000_000 => format!("{:.0} KB", n as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", n as f64 / 1e6),
        _ => format!("{:.1} GB", n as f64 / 1e9),
    }
}

/// A number with commas between thousands: `12,345`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// `850 µs`, `12 ms`, `3.2 s`, `4 min`, `5 h`, `2 d`.
pub(crate) fn duration_us(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..10_000 => format!("{:.1} ms", us as f64 / 1e3),
        10_000..1_000_000 => format!("{} ms", us / 1_000),
        1_000_000..120_000_000 => format!("{:.1} s", us as f64 / 1e6),
        120_000_000..7_200_000_000 => format!("{} min", us / 60_000_000),
        7_200_000_000..172_800_000_000 => format!("{} h", us / 3_600_000_000),
        _ => format!("{} d", us / 86_400_000_000),
    }
}

/// Points with a sign's width kept: `12.3`, `0.0`, `-1.5`.
pub(crate) fn points(score: f64) -> String {
    let text = format!("{score:.1}");
    if text == "-0.0" { "0.0".to_owned() } else { text }
}

/// An internal name for pages: `spam_folder` is `spam folder`.
pub(crate) fn spaced(name: &str) -> String {
    name.replace('_', " ")
}

/// Percent-encoded for a query or path.
pub(crate) fn percent(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Without what turns writing around or hides it (RFC 9839's bidirectional controls among them):
/// a file name or subject must not look like another.
pub(crate) fn plain(text: &str) -> String {
    let hidden = |c: char| {
        matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}'
            | '\u{feff}' | '\u{00ad}')
    };
    text.chars().filter(|c| !hidden(*c)).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The same of a text of several lines, which stay.
pub(crate) fn plain_lines(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(plain).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_well() {
        assert_eq!(day_and_clock(1_795_235_000_000), "2026-11-21 04:23:20");
        assert_eq!([bytes(831), bytes(12_345), bytes(3_400_000)], ["831 B", "12.3 KB", "3.4 MB"]);
        assert_eq!([count(12), count(1_234_567)], ["12", "1,234,567"]);
        assert_eq!(duration_us(12_345), "12 ms");
        assert_eq!([points(-0.01), points(12.34)], ["0.0", "12.3"]);
        assert_eq!(percent("a b/ü"), "a%20b%2F%C3%BC");
        assert_eq!(plain("exe.\u{202e}fdp\n"), "exe.fdp ");
    }
}
