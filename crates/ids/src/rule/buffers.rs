//! Buffers, the keywords that choose them, and other names that rules may use: facts of Suricata
//! 8.0.6, read from three tables beside this file.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::header::Direction;

/// What a buffer is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferKind {
    /// A packet's header.
    Packet,
    /// A transaction's bytes.
    Transaction,
    /// No bytes: keywords that compare facts of a transaction.
    Generic,
    /// Bytes of files.
    File,
    /// No bytes: keywords that compare facts of files (`filesize`, `filemd5`, `filestore`).
    Files,
    /// Frames of a stream.
    Frame,
}

/// Where a buffer of a transaction is inspected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineInfo {
    /// Protocol; empty for any.
    pub protocol: &'static str,
    /// Whose side.
    pub direction: Direction,
    /// Least progress of that side.
    pub progress: u8,
}

/// A buffer.
#[derive(Debug)]
pub struct BufferInfo {
    /// Its name in Suricata.
    pub name: &'static str,
    /// What it is of.
    pub kind: BufferKind,
    /// Patterns of buffers with a lower rank are preferred for the prefilter; `None`: it has none.
    pub pattern_rank: Option<u8>,
    /// A rule may ask for several of its values.
    pub is_multi: bool,
    /// Where it is inspected.
    pub engines: Vec<EngineInfo>,
    /// Its place in Suricata's order.
    pub order: u16,
}

/// A keyword that chooses a buffer.
#[derive(Debug)]
pub struct StickyInfo {
    /// The buffer.
    pub buffer: &'static str,
    /// It changes the content before it (`http_uri`) instead of what follows.
    pub is_modifier: bool,
    /// Protocols of which the rule's must be one; empty for any.
    pub protocols: Vec<&'static str>,
}

/// Events and frames by protocol.
#[derive(Debug, Default)]
pub struct Names {
    /// Events of packets, with `decoder.` or `stream.` before them.
    pub packet_events: Vec<&'static str>,
    /// Events of application protocols.
    pub app_events: HashMap<&'static str, Vec<&'static str>>,
    /// Frames.
    pub frames: HashMap<&'static str, Vec<&'static str>>,
}

static BUFFERS: LazyLock<HashMap<&'static str, BufferInfo>> = LazyLock::new(read_buffers);
static STICKY: LazyLock<HashMap<&'static str, StickyInfo>> = LazyLock::new(read_sticky);
static NAMES: LazyLock<Names> = LazyLock::new(read_names);

/// A buffer by its name in Suricata.
pub fn buffer(name: &str) -> Option<&'static BufferInfo> {
    BUFFERS.get(name)
}

/// All buffers, in no order.
pub fn all() -> impl Iterator<Item = &'static BufferInfo> {
    BUFFERS.values()
}

/// What a keyword in lower case chooses.
pub fn sticky(keyword: &str) -> Option<&'static StickyInfo> {
    STICKY.get(keyword)
}

/// All keywords that choose buffers, in no order.
pub fn sticky_keywords() -> impl Iterator<Item = &'static str> {
    STICKY.keys().copied()
}

/// Names of events and frames.
pub fn names() -> &'static Names {
    &NAMES
}

fn lines(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    text.lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty())
        .map(|line| line.split(' ').collect())
}

fn read_buffers() -> HashMap<&'static str, BufferInfo> {
    let mut buffers = HashMap::new();
    for (order, fields) in lines(include_str!("buffers.txt")).enumerate() {
        let [name, kind, rank, multi, engines @ ..] = fields.as_slice() else { continue };
        let kind = match *kind {
            "packet" => BufferKind::Packet,
            "generic" => BufferKind::Generic,
            "file" => BufferKind::File,
            "files" => BufferKind::Files,
            "frame" => BufferKind::Frame,
            _ => BufferKind::Transaction,
        };
        let info = BufferInfo {
            name,
            kind,
            pattern_rank: rank.parse().ok().filter(|&rank| rank > 0),
            is_multi: *multi == "multi",
            engines: engines.iter().filter_map(|text| engine(text)).collect(),
            order: order as u16,
        };
        buffers.insert(*name, info);
    }
    buffers
}

fn engine(text: &'static str) -> Option<EngineInfo> {
    let (direction, (protocol, progress)) = match text.split_once('>') {
        Some(parts) => (Direction::ToServer, parts),
        None => (Direction::ToClient, text.split_once('<')?),
    };
    let protocol = if protocol == "*" { "" } else { protocol };
    Some(EngineInfo { protocol, direction, progress: progress.parse().ok()? })
}

fn read_sticky() -> HashMap<&'static str, StickyInfo> {
    let mut keywords = HashMap::new();
    for fields in lines(include_str!("sticky.txt")) {
        let [keyword, buffer, mode, protocols] = fields.as_slice() else { continue };
        let protocols = match *protocols {
            "-" => Vec::new(),
            names => names.split(',').collect(),
        };
        let is_modifier = *mode == "modifier";
        keywords.insert(*keyword, StickyInfo { buffer, is_modifier, protocols });
    }
    keywords
}

fn read_names() -> Names {
    let mut names = Names::default();
    for fields in lines(include_str!("names.txt")) {
        let [kind, protocol, list @ ..] = fields.as_slice() else { continue };
        match *kind {
            "packet-event" => names.packet_events.extend(list),
            "app-event" => names.app_events.entry(protocol).or_default().extend(list),
            _ => names.frames.entry(protocol).or_default().extend(list),
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_whole() {
        assert!(BUFFERS.len() > 220, "{}", BUFFERS.len());
        for keyword in sticky_keywords() {
            let info = sticky(keyword).expect("it is there");
            assert!(buffer(info.buffer).is_some(), "{keyword}: {}", info.buffer);
        }
        let uri = buffer("http_uri").expect("there");
        assert_eq!(uri.pattern_rank, Some(2));
        assert_eq!(uri.engines.len(), 2);
        let to_client = buffer("http_stat_code").expect("there").engines[0];
        assert_eq!((to_client.protocol, to_client.progress), ("http1", 1));
        assert_eq!(to_client.direction, Direction::ToClient);
        assert!(names().packet_events.contains(&"decoder.ipv4.trunc_pkt"));
        assert!(names().app_events["http"].contains(&"missing_host_header"));
    }

    #[test]
    fn buffers_are_looked_at_when_suricata_does() {
        use gauntlet_protocols::{Buffer, Protocol};
        let mut other = Vec::new();
        for info in BUFFERS.values() {
            let Some(buffer) = Buffer::of_keyword(info.name) else { continue };
            let spec = buffer.spec();
            let own = spec.engines.iter().filter(|engine| engine.protocol != Protocol::Doh2);
            let mut own: Vec<_> =
                own.map(|e| (e.protocol.name(), e.direction.index() == 0, e.progress)).collect();
            let mut theirs: Vec<_> = info
                .engines
                .iter()
                .map(|e| (e.protocol, e.direction == Direction::ToServer, e.progress))
                .collect();
            own.sort_unstable();
            theirs.sort_unstable();
            if own != theirs {
                other.push(format!("{}: {own:?} instead of {theirs:?}", info.name));
            }
        }
        assert!(other.is_empty(), "{}", other.join("\n"));
    }
}
