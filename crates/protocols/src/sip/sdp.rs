//! Session descriptions (RFC 4566), line by line in their order.

use std::net::IpAddr;

/// Lines of one kind, times and media that are kept.
const LINES_MAX: usize = 1024;

/// A description.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Description {
    /// `o=`
    pub origin: String,
    /// `s=`
    pub name: String,
    /// `i=`
    pub info: Option<String>,
    /// `u=`
    pub uri: Option<String>,
    /// `e=`
    pub email: Option<String>,
    /// `p=`
    pub phone: Option<String>,
    /// `c=`
    pub connection: Option<String>,
    /// `b=`
    pub bandwidths: Vec<String>,
    /// `t=` with `r=`
    pub times: Vec<(String, Option<String>)>,
    /// `z=`
    pub zone: Option<String>,
    /// `k=`
    pub key: Option<String>,
    /// `a=`
    pub attributes: Vec<String>,
    /// `m=` with what follows it
    pub media: Vec<Media>,
}

/// A medium.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Media {
    /// `m=`
    pub media: String,
    /// `i=`
    pub info: Option<String>,
    /// `c=`
    pub connection: Option<String>,
    /// `b=`
    pub bandwidths: Vec<String>,
    /// `k=`
    pub key: Option<String>,
    /// `a=`
    pub attributes: Vec<String>,
}

impl Description {
    /// Reads one; says how many bytes it took. `None` where a line that must be there is not.
    pub fn read(input: &[u8]) -> Option<(Self, usize)> {
        let mut lines = Lines { rest: input };
        lines.take(b"v=", |text| (text == "0").then(|| text.to_owned()))?;
        let mut description = Self {
            origin: lines.take(b"o=", origin)?,
            name: lines.take(b"s=", plain)?,
            info: lines.take(b"i=", plain),
            uri: lines.take(b"u=", uri),
            email: lines.take(b"e=", whole),
            phone: lines.take(b"p=", whole),
            connection: lines.take(b"c=", connection),
            bandwidths: lines.all(b"b=", bandwidth),
            ..Self::default()
        };
        while let Some(time) = lines.take(b"t=", time) {
            let repeat = lines.take(b"r=", four_times);
            if description.times.len() < LINES_MAX {
                description.times.push((time, repeat));
            }
        }
        if description.times.is_empty() {
            return None;
        }
        description.zone = lines.take(b"z=", four_times);
        description.key = lines.take(b"k=", whole);
        description.attributes = lines.all(b"a=", attribute);
        while let Some(media) = lines.take(b"m=", media) {
            let media = Media {
                media,
                info: lines.take(b"i=", plain),
                connection: lines.take(b"c=", connection),
                bandwidths: lines.all(b"b=", bandwidth),
                key: lines.take(b"k=", whole),
                attributes: lines.all(b"a=", attribute),
            };
            if description.media.len() < LINES_MAX {
                description.media.push(media);
            }
        }
        Some((description, input.len() - lines.rest.len()))
    }
}

/// Lines that are not taken yet.
struct Lines<'a> {
    rest: &'a [u8],
}

impl Lines<'_> {
    /// The next line, if it begins so and reads so.
    fn take(&mut self, kind: &[u8], read: fn(&str) -> Option<String>) -> Option<String> {
        let text = self.rest.strip_prefix(kind)?;
        let end = text.iter().position(|byte| matches!(byte, b'\r' | b'\n'))?;
        let (text, rest) = text.split_at(end);
        let rest = rest.strip_prefix(b"\r").unwrap_or(rest).strip_prefix(b"\n")?;
        let value = read(std::str::from_utf8(text).ok()?)?;
        self.rest = rest;
        Some(value)
    }

    /// All lines that follow and begin and read so.
    fn all(&mut self, kind: &[u8], read: fn(&str) -> Option<String>) -> Vec<String> {
        let mut values = Vec::new();
        while let Some(value) = self.take(kind, read) {
            if values.len() < LINES_MAX {
                values.push(value);
            }
        }
        values
    }
}

/// Takes the bytes that fit.
fn run<'a>(text: &mut &'a str, fits: fn(char) -> bool) -> &'a str {
    let end = text.find(|letter| !fits(letter)).unwrap_or(text.len());
    let (taken, rest) = text.split_at(end);
    *text = rest;
    taken
}

/// At least one space or tab.
fn space(text: &mut &str) -> Option<()> {
    let rest = text.trim_start_matches([' ', '\t']);
    let any = rest.len() < text.len();
    *text = rest;
    any.then_some(())
}

fn is_digit(letter: char) -> bool {
    letter.is_ascii_digit()
}

fn is_letter(letter: char) -> bool {
    letter.is_ascii_alphabetic()
}

fn is_alphanumeric(letter: char) -> bool {
    letter.is_ascii_alphanumeric()
}

fn is_token(letter: char) -> bool {
    letter.is_ascii_graphic() && !"\"()/:;<=>?@[\\],".contains(letter)
}

fn whole(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// Letters, digits and spaces alone, as Suricata has it.
fn plain(text: &str) -> Option<String> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == ' ' || letter == '\t';
    text.chars().all(fits).then(|| text.to_owned())
}

fn uri(text: &str) -> Option<String> {
    let fits = |letter: char| is_token(letter) || "~#@:;=?+&$,/".contains(letter);
    text.chars().all(fits).then(|| text.to_owned())
}

fn origin(text: &str) -> Option<String> {
    let mut rest = text;
    let mut parts = Vec::with_capacity(6);
    let kinds: [fn(char) -> bool; 5] = [is_token, is_digit, is_digit, is_letter, is_alphanumeric];
    for fits in kinds {
        parts.push(run(&mut rest, fits));
        space(&mut rest)?;
    }
    parts.push(rest);
    Some(parts.join(" "))
}

fn connection(text: &str) -> Option<String> {
    let mut rest = text;
    let network = run(&mut rest, is_letter);
    space(&mut rest)?;
    let kind = run(&mut rest, is_alphanumeric);
    space(&mut rest)?;
    let address = run(&mut rest, |letter| letter.is_ascii_hexdigit() || ".:".contains(letter));
    let address: IpAddr = address.parse().ok()?;
    let mut numbers = Vec::new();
    while numbers.len() < 2
        && let Some(mut after) = rest.strip_prefix('/')
    {
        let digits = run(&mut after, is_digit);
        if digits.starts_with('0') {
            break;
        }
        let number: u8 = digits.parse().ok()?;
        numbers.push(number);
        rest = after;
    }
    // A multicast address of IPv4 has a time to live.
    let lacks_ttl = address.is_ipv4() && address.is_multicast() && numbers.is_empty();
    if !rest.is_empty() || lacks_ttl {
        return None;
    }
    if address.is_ipv6() {
        numbers.truncate(1);
    }
    let mut value = format!("{network} {kind} {address}");
    for number in numbers {
        value.push_str(&format!("/{number}"));
    }
    Some(value)
}

fn bandwidth(text: &str) -> Option<String> {
    let (kind, number) = text.split_once(':')?;
    let fits =
        matches!(kind, "CT" | "AS" | "TIAS") && !number.is_empty() && number.chars().all(is_digit);
    fits.then(|| text.to_owned())
}

fn time(text: &str) -> Option<String> {
    let mut rest = text;
    let start = run(&mut rest, is_digit);
    space(&mut rest)?;
    let stop = run(&mut rest, is_digit);
    let fits = !start.is_empty() && !stop.is_empty() && rest.is_empty();
    fits.then(|| format!("{start} {stop}"))
}

fn four_times(text: &str) -> Option<String> {
    let mut rest = text;
    let is_time = |letter: char| letter.is_ascii_digit() || "dhms-".contains(letter);
    let mut parts = vec![run(&mut rest, is_time)];
    for _ in 0..3 {
        space(&mut rest)?;
        parts.push(run(&mut rest, is_time));
    }
    rest.is_empty().then(|| parts.join(" "))
}

fn attribute(text: &str) -> Option<String> {
    let mut rest = text;
    run(&mut rest, is_letter);
    (rest.is_empty() || rest.starts_with(':')).then(|| text.to_owned())
}

fn media(text: &str) -> Option<String> {
    let kinds = ["audio", "video", "text", "application", "message"];
    let kind = kinds.iter().find(|kind| text.starts_with(**kind))?;
    let mut rest = text.get(kind.len()..)?;
    space(&mut rest)?;
    let port = short_number(&mut rest)?;
    let port: u16 = port.parse().ok()?;
    let mut ports = port.to_string();
    if let Some(mut after) = rest.strip_prefix('/') {
        let count = short_number(&mut after)?;
        if let Ok(count) = count.parse::<u16>() {
            ports.push_str(&format!("/{count}"));
        }
        rest = after;
    }
    space(&mut rest)?;
    let protocols = ["udp", "RTP/AVP", "RTP/SAVP"];
    let protocol = protocols.iter().find(|protocol| rest.starts_with(**protocol))?;
    rest = rest.get(protocol.len()..)?;
    let mut formats = Vec::new();
    while !rest.is_empty() {
        space(&mut rest)?;
        let format = run(&mut rest, is_alphanumeric);
        if format.is_empty() || formats.len() >= LINES_MAX {
            return None;
        }
        formats.push(format);
    }
    let formats = formats.join(" ");
    (!formats.is_empty()).then(|| format!("{kind} {ports} {protocol} {formats}"))
}

/// One to five digits.
fn short_number<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let digits = run(rest, is_digit);
    (1..=5).contains(&digits.len()).then_some(digits)
}
