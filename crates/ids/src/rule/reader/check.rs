//! What is checked of a rule when all of it is read, and what follows from it: direction, needs,
//! kind.

use super::draft::{Draft, DraftBuffer, Entry, Outcome};
use super::floor;
use crate::rule::RuleKind;
use crate::rule::buffers::{self, BufferKind};
use crate::rule::header::{Direction, Hook};
use crate::rule::matches::{Amount, BitCommand, Content, Flow, Match, PacketCheck, PacketNumber};
use crate::rule::number::Compare;
use crate::rule::protocol;

const TCP: u8 = 6;

/// Finishes a draft whose options are all read.
pub(super) fn finish(draft: &mut Draft<'_>) -> Outcome<RuleKind> {
    fill_protocols(draft);
    if let Some(Hook::FlowStart) = draft.hook
        && draft.towards.server
    {
        draft.has_flow = true;
    }
    if !draft.has_flow && !draft.towards.server && !draft.towards.client {
        (draft.towards.server, draft.towards.client) = (true, true);
    }
    normalize_buffers(draft);
    apply_uri_length(draft);
    if draft.needs_packet && draft.needs_stream {
        return Err("packet keywords exclude tcp-stream and flow:only_stream".into());
    }
    check_sizes(draft)?;
    let sides = check_buffers(draft)?;
    check_direction(draft, sides)?;
    choose_tcp_data(draft);
    check_files(draft)?;
    Ok(kind(draft))
}

/// A rule for an application protocol without a transport has those of the protocol.
fn fill_protocols(draft: &mut Draft<'_>) {
    let Some(own) = draft.protocol else { return };
    let protocols = &mut draft.header.protocols;
    if protocols.is_any {
        protocols.is_any = false;
        protocols.bits = [0; 4];
    }
    if protocols.bits == [0; 4]
        && let Some(info) = protocol::find(own)
    {
        if info.tcp {
            protocols.insert(TCP);
        }
        if info.udp {
            protocols.insert(17);
        }
    }
}

fn contents(entries: &[Entry]) -> impl Iterator<Item = &Content> {
    entries.iter().filter_map(|entry| match &entry.item {
        Match::Content(content) => Some(content),
        _ => None,
    })
}

fn contents_mut(entries: &mut [Entry]) -> impl Iterator<Item = &mut Content> {
    entries.iter_mut().filter_map(|entry| match &mut entry.item {
        Match::Content(content) => Some(content),
        _ => None,
    })
}

fn name_of(draft: &Draft<'_>, buffer: &DraftBuffer) -> &'static str {
    draft.shared.buffer_use(buffer.key).map_or("", |used| used.name)
}

/// Hashes are compared in lower case, serial numbers in upper case, whatever the rule writes.
fn normalize_buffers(draft: &mut Draft<'_>) {
    for at in 0..draft.buffers.len() {
        let Some(name) = draft.buffers.get(at).map(|buffer| name_of(draft, buffer)) else { return };
        let Some(buffer) = draft.buffers.get_mut(at) else { return };
        for content in contents_mut(&mut buffer.entries) {
            let before = content.bytes.clone();
            match name {
                "ja3.hash"
                | "ja3s.hash"
                | "ssh.hassh"
                | "ssh.hassh.server"
                | "tls.cert_fingerprint" => content.bytes.make_ascii_lowercase(),
                "tls.cert_serial" => content.bytes.make_ascii_uppercase(),
                _ => continue,
            }
            if content.bytes != before {
                content.bytes.make_ascii_lowercase();
                content.nocase = true;
            }
        }
    }
}

/// `urilen` bounds the place of contents of the URI.
fn apply_uri_length(draft: &mut Draft<'_>) {
    for at in 0..draft.buffers.len() {
        let name = draft.buffers.get(at).map_or("", |buffer| name_of(draft, buffer));
        if !matches!(name, "http_uri" | "http_raw_uri") {
            continue;
        }
        let Some(buffer) = draft.buffers.get_mut(at) else { return };
        let mut high = None;
        for entry in &buffer.entries {
            if let Match::UriLength(compare) = &entry.item {
                high = match *compare {
                    Compare::Less(n) => Some(n + 1),
                    Compare::AtMost(n) | Compare::Equal(n) => Some(n),
                    Compare::Between(_, n) => Some(n + 1),
                    _ => None,
                };
            }
        }
        let Some(high) = high.filter(|&high| high < u64::from(u16::MAX)) else { continue };
        for content in contents_mut(&mut buffer.entries) {
            let depth = match content.depth {
                Some(Amount::Fixed(depth)) if depth > 0 => Some(depth),
                Some(Amount::Variable(_)) => continue,
                _ => None,
            };
            if depth.is_none_or(|depth| depth > high as i64) {
                content.depth = Some(Amount::Fixed(high as i64));
            }
        }
    }
}

/// Bytes that the contents of a list need, at least, and the largest offset among them.
fn required(entries: &[Entry], size_max: u64) -> (i64, i64) {
    let (mut total, mut offset, mut is_first) = (0_i64, 0_i64, true);
    let fixed = |amount: Option<Amount>| match amount {
        Some(Amount::Fixed(amount)) => amount,
        Some(Amount::Variable(number)) => i64::from(number),
        None => 0,
    };
    for content in contents(entries) {
        let distance = fixed(content.distance);
        if !is_first {
            if !content.is_relative() {
                continue;
            }
            if content.negated {
                let check = total + distance + fixed(content.within);
                if check > size_max as i64 {
                    return (check, 0);
                }
                continue;
            }
        }
        total += content.bytes.len() as i64 + distance;
        offset = offset.max(fixed(content.offset));
        is_first = false;
    }
    (total, offset)
}

fn check_sizes(draft: &mut Draft<'_>) -> Outcome {
    let size = draft.packet.iter().find_map(|entry| match &entry.item {
        Match::Number(PacketNumber::PayloadSize, compare) => Some(*compare),
        _ => None,
    });
    let most = match size {
        Some(Compare::Less(n) | Compare::Equal(n) | Compare::NotEqual(n)) => Some(n),
        Some(Compare::Between(_, n)) => Some(n),
        _ => None,
    };
    if let Some(most) = most {
        check_fits(&draft.payload, most, "dsize")?;
    }
    for buffer in &draft.buffers {
        let size = buffer.entries.iter().find_map(|entry| match &entry.item {
            Match::BufferSize(compare) => Some(*compare),
            _ => None,
        });
        if let Some(Compare::Less(most) | Compare::Equal(most) | Compare::Between(_, most)) = size {
            check_fits(&buffer.entries, most, "bsize")?;
        }
    }
    // Before `dsize` bounds contents: those that it bounds have no condition of their own.
    floor::apply(draft);
    if let Some(most) = most {
        bound(&mut draft.payload, most as i64);
    }
    Ok(())
}

/// Contents of a payload of so many bytes at most end within them.
fn bound(entries: &mut [Entry], most: i64) {
    for content in contents_mut(entries) {
        let depth = match content.depth {
            Some(Amount::Fixed(depth)) if depth > 0 => Some(depth),
            Some(Amount::Variable(_)) => continue,
            _ => None,
        };
        if depth.is_none_or(|depth| depth >= most) {
            content.depth = Some(Amount::Fixed(most));
        }
    }
}

fn check_fits(entries: &[Entry], most: u64, keyword: &str) -> Outcome {
    let (length, offset) = required(entries, most);
    let most = i64::try_from(most).unwrap_or(i64::MAX);
    if length > most || length + offset > most {
        let needed = if length > most { length } else { length + offset };
        return Err(format!("{needed} bytes of content exceed {keyword} {most}").into());
    }
    Ok(())
}

/// How many buffers are of one side alone, and of both.
#[derive(Default, Clone, Copy)]
struct Sides {
    server: usize,
    client: usize,
    both: usize,
}

fn check_buffers(draft: &Draft<'_>) -> Outcome<Sides> {
    if draft.has_open_transforms() {
        return Err("no match follows the transforms".into());
    }
    let (mut has_frame, mut has_app, mut has_packet) = (false, false, false);
    let mut sides = Sides::default();
    let mut per_key: Vec<(crate::rule::BufferKey, bool, bool)> = Vec::new();
    for buffer in &draft.buffers {
        let name = name_of(draft, buffer);
        if buffer.entries.is_empty() {
            return Err(format!("no matches in the sticky buffer {name}").into());
        }
        let kind = draft.kind(buffer.key);
        has_frame |= kind == BufferKind::Frame;
        has_packet |= kind == BufferKind::Packet;
        has_app |= !matches!(kind, BufferKind::Frame | BufferKind::Packet);
        if draft.needs_packet && kind != BufferKind::Packet {
            let what = "packet keywords (dsize, flags, ttl ...) exclude the buffer";
            return Err(format!("{what} {name}").into());
        }
        count_sides(draft, buffer, &mut sides, &mut per_key)?;
        check_contents(draft, buffer, name)?;
    }
    if has_frame && (has_app || has_packet || !draft.payload.is_empty()) {
        return Err("frames exclude contents of payloads and other buffers".into());
    }
    for (_, server, client) in per_key {
        match (server, client) {
            (true, true) => sides.both += 1,
            (true, false) => sides.server += 1,
            (false, true) => sides.client += 1,
            (false, false) => {}
        }
    }
    Ok(sides)
}

fn count_sides(
    draft: &Draft<'_>,
    buffer: &DraftBuffer,
    sides: &mut Sides,
    per_key: &mut Vec<(crate::rule::BufferKey, bool, bool)>,
) -> Outcome {
    let Some(info) = buffers::buffer(name_of(draft, buffer)) else { return Ok(()) };
    for engine in &info.engines {
        let applies = draft.protocol.is_none_or(|own| protocol::applies(own, engine.protocol));
        if !applies {
            continue;
        }
        let is_server = engine.direction == Direction::ToServer;
        match buffer.only {
            Some(only) if only == engine.direction => {
                let count = if is_server { &mut sides.server } else { &mut sides.client };
                *count += 1;
            }
            Some(_) => {}
            None => {
                let found = per_key.iter_mut().find(|(key, ..)| *key == buffer.key);
                match found {
                    Some((_, server, client)) => {
                        *server |= is_server;
                        *client |= !is_server;
                    }
                    None => per_key.push((buffer.key, is_server, !is_server)),
                }
            }
        }
        if let Some(Hook::Transaction { direction, progress }) = &draft.hook
            && *direction == engine.direction
            && draft.protocol == Some(engine.protocol)
            && *progress != engine.progress
        {
            return Err("the buffer is inspected at another progress than the hook's".into());
        }
    }
    Ok(())
}

/// Conditions on contents of particular buffers that could never match.
fn check_contents(draft: &Draft<'_>, buffer: &DraftBuffer, name: &str) -> Outcome {
    let is_plain = draft.shared.buffer_use(buffer.key).is_some_and(|u| u.transforms.is_empty());
    let has = |wanted: fn(&Match) -> bool| buffer.entries.iter().any(|e| wanted(&e.item));
    let alone = has(|item| matches!(item, Match::Absent { or_else: false }));
    let or_else = has(|item| matches!(item, Match::Absent { or_else: true }));
    if alone && buffer.entries.len() > 1 {
        return Err("a buffer that is absent cannot match anything else".into());
    }
    if or_else && buffer.entries.len() == 1 {
        return Err("absent: or_else needs another match on its buffer".into());
    }
    for content in contents(&buffer.entries) {
        if (alone || or_else) && content.fast_pattern.is_some() {
            return Err("absent excludes fast_pattern in its buffer".into());
        }
        if is_plain && let Some(reason) = never_matches(name, content) {
            return Err(format!("{}: {reason}", keyword_of(name)).into());
        }
    }
    let both = draft.towards.server && draft.towards.client;
    if is_plain && name == "http_raw_header" && both {
        let keyword = keyword_of(name);
        return Err(format!("{keyword} needs flow:to_server or to_client").into());
    }
    Ok(())
}

/// The keyword of today of a buffer whose name is that of an older one. A rule may have written
/// either; the newer one is found in the documentation.
fn keyword_of(buffer: &str) -> &str {
    match buffer {
        "http_host" => "http.host",
        "http_method" => "http.method",
        "http_protocol" => "http.protocol",
        "http_raw_header" => "http.header.raw",
        "http_raw_uri" => "http.uri.raw",
        "http_uri" => "http.uri",
        other => other,
    }
}

fn never_matches(name: &str, content: &Content) -> Option<&'static str> {
    let bytes = content.bytes.as_slice();
    match name {
        "http_host" if content.nocase => {
            Some("the buffer is in lower case, so that the pattern needs no nocase")
        }
        "http_host" if bytes.iter().any(u8::is_ascii_uppercase) => {
            Some("the buffer is in lower case, so the pattern must be, too")
        }
        "http_method" if matches!(bytes, [b' ' | b'\t', ..] | [.., b' ' | b'\t']) => {
            Some("a method has no space around it")
        }
        "http_protocol" if bytes.contains(&b' ') => Some("it has no spaces"),
        "http_uri" | "http_raw_uri" | "sip.uri" => match content.depth {
            Some(Amount::Fixed(depth)) if depth > 0 && depth < bytes.len() as i64 => {
                Some("depth or urilen is less than the content")
            }
            _ => None,
        },
        "ja3.hash" | "ja3s.hash" | "ssh.hassh" | "ssh.hassh.server" | "quic.cyu.hash" => {
            let is_hash = bytes.len() == 32 && bytes.iter().all(u8::is_ascii_hexdigit);
            (!is_hash).then_some("it is 32 hex digits")
        }
        "tls.cert_fingerprint" => {
            let is_hash = bytes.len() == 59 && bytes.contains(&b':');
            (!is_hash).then_some("it is 20 pairs of hex digits with colons")
        }
        "tls.cert_serial" => {
            let is_serial = bytes.len() <= 2 || bytes.contains(&b':');
            (!is_serial).then_some("it is pairs of hex digits with colons")
        }
        _ => None,
    }
}

fn check_direction(draft: &mut Draft<'_>, sides: Sides) -> Outcome {
    if draft.is_bidirectional {
        if sides.server == 0 || sides.client == 0 {
            return Err("a rule with => needs buffers of both directions".into());
        }
        if sides.both > 0 {
            return Err("a rule with => cannot use buffers of either direction".into());
        }
        return Ok(());
    }
    let only = match (sides.server > 0, sides.client > 0) {
        (true, true) => return Err("its buffers are of opposite directions".into()),
        (true, false) => Direction::ToServer,
        (false, true) => Direction::ToClient,
        (false, false) => return Ok(()),
    };
    let towards = &mut draft.towards;
    let (own, other) = match only {
        Direction::ToServer => (&mut towards.server, &mut towards.client),
        Direction::ToClient => (&mut towards.client, &mut towards.server),
    };
    if *other && !*own {
        return Err("its buffers are of the other direction than its flow".into());
    }
    (*own, *other) = (true, false);
    Ok(())
}

/// Contents of TCP are searched in the stream, and in packets too if their place counts.
fn choose_tcp_data(draft: &mut Draft<'_>) {
    let is_tcp = draft.header.protocols.contains(TCP);
    if !is_tcp || draft.payload.is_empty() || draft.needs_packet || draft.needs_stream {
        return;
    }
    draft.needs_stream = true;
    let has_place = |c: &Content| c.depth.is_some() || c.offset.is_some();
    // An offset of a relative content is no condition that the rule names.
    let is_placed = contents(&draft.payload).any(|c| !c.is_relative() && has_place(c));
    let is_size = |item: &Match| matches!(item, Match::Packet(PacketCheck::StreamSize { .. }));
    let has_size = draft.packet.iter().any(|entry| is_size(&entry.item));
    draft.needs_packet = is_placed || has_size;
}

fn check_files(draft: &Draft<'_>) -> Outcome {
    if !(draft.stores_files || draft.uses_file_data || draft.uses_file_name) {
        return Ok(());
    }
    let has_files = |name: &str| protocol::find(name).is_some_and(|info| info.has_files);
    if let Some(own) = draft.protocol
        && !has_files(own)
    {
        return Err(format!("{own} carries no files").into());
    }
    if !draft.protocols.is_empty() && !draft.protocols.iter().any(|own| has_files(own)) {
        return Err("none of its protocols carries files".into());
    }
    if draft.protocol == Some("http2") && draft.uses_file_name {
        return Err("HTTP/2 has no names of files".into());
    }
    Ok(())
}

/// Sets bits: allowed in rules on addresses alone.
fn is_set_only(item: &Match) -> Option<bool> {
    match item {
        Match::FlowBits(bits) => Some(bits.command == BitCommand::Set),
        Match::HostBits(_) => Some(true),
        Match::Packet(PacketCheck::Reputation { .. }) => Some(true),
        _ => None,
    }
}

fn kind(draft: &Draft<'_>) -> RuleKind {
    if let Some(Hook::Transaction { .. }) = draft.hook {
        return RuleKind::Transaction;
    }
    let is_bare = draft.hook.is_none()
        && draft.protocol.is_none()
        && draft.payload.is_empty()
        && draft.buffers.is_empty();
    if is_bare && is_protocol_detection_only(draft) {
        return RuleKind::ProtocolDetectionOnly;
    }
    let both = draft.towards.server == draft.towards.client;
    let harmless = |entry: &Entry| is_set_only(&entry.item) == Some(true);
    let addresses_only = is_bare
        && !draft.is_app_layer
        && both
        && draft.packet.iter().all(harmless)
        && draft.post.iter().all(harmless)
        && !has_post_captures(draft);
    if addresses_only {
        let negated = draft.has_negated_addresses;
        return if negated { RuleKind::LikeIpOnly } else { RuleKind::IpOnly };
    }
    let is_decode = |name: &str| name.starts_with("decoder.");
    let events_only = is_bare
        && !draft.packet.is_empty()
        && draft
            .packet
            .iter()
            .all(|entry| matches!(&entry.item, Match::EngineEvent(name) if is_decode(name)));
    if events_only {
        return RuleKind::DecodeEventOnly;
    }
    data_kind(draft)
}

/// Captures of the payload are stored after a match.
fn has_post_captures(draft: &Draft<'_>) -> bool {
    draft.payload.iter().any(|entry| match &entry.item {
        Match::Pcre(pattern) => !pattern.captures.is_empty(),
        _ => false,
    })
}

fn is_protocol_detection_only(draft: &Draft<'_>) -> bool {
    let mut found = false;
    for entry in &draft.packet {
        match &entry.item {
            Match::AppProtocol(_) => found = true,
            Match::Packet(PacketCheck::Flow(flow)) => {
                let direction = Flow { direction: flow.direction, ..Flow::default() };
                if *flow != direction {
                    return false;
                }
            }
            item if is_set_only(item) == Some(true) => {}
            _ => return false,
        }
    }
    found
}

fn data_kind(draft: &Draft<'_>) -> RuleKind {
    let kinds = || draft.buffers.iter().map(|buffer| draft.kind(buffer.key));
    if kinds().any(|kind| kind == BufferKind::Packet) {
        RuleKind::Packet
    } else if !draft.buffers.is_empty() {
        RuleKind::Transaction
    } else if !draft.payload.is_empty() {
        match (draft.needs_packet, draft.needs_stream) {
            (true, false) => RuleKind::Packet,
            (false, true) => RuleKind::Stream,
            _ => RuleKind::PacketStream,
        }
    } else if !draft.packet.is_empty() {
        RuleKind::Packet
    } else if draft.is_app_layer {
        RuleKind::AppLayer
    } else {
        RuleKind::Packet
    }
}
