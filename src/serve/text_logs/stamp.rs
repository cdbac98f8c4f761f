//! The time of a line of the text logs.

use std::cell::RefCell;
use std::fmt::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use gauntlet_mail::date;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

const DAY_SECONDS: u64 = 86_400;

thread_local! {
    /// The last second that this thread wrote, and its text.
    static SECOND: RefCell<(u64, String)> = const { RefCell::new((u64::MAX, String::new())) };
}

/// Writes the time in UTC as RFC 3339 has it, to the microsecond. The date is made once a second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stamp;

impl FormatTime for Stamp {
    fn format_time(&self, line: &mut Writer<'_>) -> fmt::Result {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        SECOND.with_borrow_mut(|(second, text)| {
            if *second != now.as_secs() {
                *second = now.as_secs();
                text.clear();
                write_second(text, *second)?;
            }
            line.write_str(text)?;
            write!(line, ".{:06}Z", now.subsec_micros())
        })
    }
}

/// Appends `2026-11-24T10:52:28`.
fn write_second(text: &mut String, unix_s: u64) -> fmt::Result {
    let day = i64::try_from(unix_s / DAY_SECONDS).unwrap_or(0);
    let (year, month, day) = date::civil(day);
    let (hour, minute, second) = (unix_s / 3_600 % 24, unix_s / 60 % 60, unix_s % 60);
    write!(text, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_reads_as_rfc_3339_has_it() {
        let text = |unix_s| {
            let mut text = String::new();
            write_second(&mut text, unix_s).unwrap();
            text
        };
        assert_eq!(text(0), "1970-01-01T00:00:00");
        assert_eq!(text(1_795_517_548), "2026-11-24T10:52:28");
    }
}
