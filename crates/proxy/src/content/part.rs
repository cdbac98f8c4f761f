//! Which part of a file a response has (206, RFC 9110 sections 14.4 and 15.3.7).

use hyper::HeaderMap;
use hyper::header::CONTENT_RANGE;

/// What is there of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it.
    Whole,
    /// Its beginning, or nobody knows what.
    Beginning,
    /// What comes later.
    Later,
}

impl Part {
    pub(super) fn read(headers: &HeaderMap) -> Part {
        let mut values = headers.get_all(CONTENT_RANGE).iter();
        let (Some(value), None) = (values.next(), values.next()) else { return Part::Beginning };
        match value.to_str().ok().and_then(range) {
            Some((0, last, Some(all))) if last.checked_add(1) == Some(all) => Part::Whole,
            Some((1.., _, _)) => Part::Later,
            Some((0, _, _)) | None => Part::Beginning,
        }
    }
}

/// First and last byte, and the bytes of the file if they are known.
fn range(value: &str) -> Option<(u64, u64, Option<u64>)> {
    let value = value.trim();
    let unit = value.get(..6).filter(|unit| unit.eq_ignore_ascii_case("bytes "))?;
    let (range, all) = value.get(unit.len()..)?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let number = |text: &str| text.trim().parse::<u64>().ok();
    Some((number(first)?, number(last)?, number(all)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_told_apart() {
        for (value, part) in [
            ("bytes 0-633/634", Part::Whole),
            ("Bytes 0-633/634 ", Part::Whole),
            ("bytes 0-632/634", Part::Beginning),
            ("bytes 0-633/*", Part::Beginning),
            ("bytes 0-18446744073709551615/0", Part::Beginning),
            ("bytes 1-633/634", Part::Later),
            ("bytes */634", Part::Beginning),
            ("lines 1-2/3", Part::Beginning),
            ("", Part::Beginning),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_RANGE, value.parse().unwrap());
            assert_eq!(Part::read(&headers), part, "{value}");
            headers.append(CONTENT_RANGE, value.parse().unwrap());
            assert_eq!(Part::read(&headers), Part::Beginning, "twice: {value}");
        }
        assert_eq!(Part::read(&HeaderMap::new()), Part::Beginning);
    }
}
