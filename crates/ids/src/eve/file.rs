//! Records of files (`fileinfo`).

use gauntlet_packet::Direction;
use gauntlet_protocols::{File, FileState, Protocol};

use super::head::{self, Ends, Way};
use super::line::Line;
use super::settings::Settings;
use super::{forwarded, transaction};
use crate::pipeline::observer::FilePart;
use crate::rule::RuleSet;

/// What is known of a file. `stored`: its number in the store, if it was written there.
pub(super) fn fields(file: &File, transaction: u64, stored: Option<u64>, line: &mut Line) {
    line.string("filename", &gauntlet_protocols::text_of(&file.name));
    if !file.stored_for.is_empty() {
        line.numbers("sid", file.stored_for.iter().map(|sid| u64::from(*sid)));
    }
    // Known only if a rule asks for it, or the settings do.
    line.optional("magic", file.magic.as_deref());
    line.truth("gaps", file.gaps);
    line.string("state", file.state.name());
    if file.state == FileState::Closed {
        line.optional("md5", file.md5.map(|hash| hex(&hash)).as_deref());
        line.optional("sha1", file.sha1.map(|hash| hex(&hash)).as_deref());
    }
    line.optional("sha256", file.sha256.map(|hash| hex(&hash)).as_deref());
    line.truth("stored", stored.is_some());
    match stored {
        Some(number) => line.number("file_id", number),
        None if file.store => line.truth("storing", true),
        None => {}
    }
    line.number("size", file.size);
    if let Some((start, end)) = file.range.filter(|(_, end)| *end > 0) {
        line.number("start", start);
        line.number("end", end);
    }
    line.number("tx_id", transaction);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The record of a file that ended.
pub(super) fn record(
    settings: &Settings,
    rules: &RuleSet,
    part: &FilePart<'_>,
    stored: Option<u64>,
) -> Line {
    let way = if part.direction == Direction::ToClient { Way::ToClient } else { Way::Flow };
    let moment = &part.moment;
    let packet_way = moment.flow.map(|flow| flow.direction);
    let mut ends = Ends::of(moment.packet, packet_way, way);
    let behind = settings.forwarded_of("files");
    let is_http = part.protocol == Protocol::Http1;
    let client = behind.as_ref().filter(|_| is_http);
    let client = client.and_then(|it| forwarded::address(it, part.conversation, part.place));
    let overwrites = behind.as_ref().is_some_and(|it| it.overwrites);
    if let Some(address) = client.clone().filter(|_| overwrites) {
        if packet_way == Some(Direction::ToClient) {
            ends.destination = Some(address);
        } else {
            ends.source = Some(address);
        }
    }
    let mut line = head::of_packet(settings, rules, moment, ("fileinfo", way), Some(&ends));
    transaction::of_file(part.conversation, part.place, &mut line);
    line.string("app_proto", part.protocol.eve_name());
    line.object("fileinfo", |line| fields(part.file, part.state.id, stored, line));
    line.optional("xff", client.as_deref().filter(|_| !overwrites));
    line
}
