//! Opening the files of a spool.

use std::collections::BTreeMap;

use super::lane::Newest;
use super::medium::Medium;
use super::record::HEAD_BYTES;
use super::recover::{self, Role};
use super::{
    Index, MESSAGES, RecordLocation, Recovery, STATES, Segment, SpoolError, file_name, segment_of,
};

/// Reads all files. Returns the index, the result of recovery, and the numbers of the newest
/// segments.
pub(super) fn load(medium: &dyn Medium) -> Result<(Index, Recovery, Newest), SpoolError> {
    let failed = |what| {
        let path = medium.describe();
        move |source| SpoolError::Io { path, what, source }
    };
    let names = medium.list().map_err(failed("list"))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|n| segment_of(n, MESSAGES)).collect();
    numbers.sort_unstable();
    let newest = Newest::of(&numbers);
    let (mut index, mut recovery) = (Index::default(), Recovery::default());
    let mut unverified_from = BTreeMap::new();
    for &number in &numbers {
        let name = file_name(number, MESSAGES);
        let messages = medium.open(&name).map_err(failed("open a file of"))?;
        let role = if newest.has(number) { Role::NewestMessages } else { Role::OlderMessages };
        let found = recover::scan(&name, &*messages, role)?;
        let state_name = file_name(number, STATES);
        let (states, state_file) = if names.contains(&state_name) {
            let file = medium.open(&state_name).map_err(failed("open a file of"))?;
            (recover::scan(&state_name, &*file, Role::States)?, Some(file))
        } else {
            (recover::Scan::nothing(0), None)
        };
        for (file, found) in [(Some(&messages), &found), (state_file.as_ref(), &states)] {
            if let (Some(file), true) = (file, found.torn_bytes > 0) {
                file.truncate(found.valid_bytes).map_err(failed("cut a torn record off in"))?;
            }
            recovery.torn_bytes += found.torn_bytes;
            recovery.damaged += found.damaged;
        }
        recover::replay(number, &found, &states, &mut index.entries);
        let valid_state_bytes = states.valid_bytes;
        // A state file whose header was torn cannot be appended to.
        let states = state_file.filter(|_| valid_state_bytes > 0).map(|file| (file, states.format));
        let bytes = found.valid_bytes;
        let state_bytes = valid_state_bytes;
        let format = found.format;
        if let Some(from) = found.unverified_from {
            unverified_from.insert(number, from);
        }
        let segment =
            Segment { messages, format, states, bytes, state_bytes, live: 0, live_bytes: 0 };
        index.segments.insert(number, segment);
    }
    for entry in index.entries.values() {
        if let Some(segment) = index.segments.get_mut(&entry.location.segment) {
            segment.live += 1;
            segment.live_bytes += u64::from(entry.location.bytes) + HEAD_BYTES as u64;
        }
    }
    for name in &names {
        // The message file is removed first; a state file alone is left from an interrupted
        // removal.
        if segment_of(name, STATES).is_some_and(|n| !index.segments.contains_key(&n)) {
            medium.remove(name).map_err(failed("remove a file of"))?;
        }
    }
    let is_unverified = |location: &RecordLocation| {
        unverified_from.get(&location.segment).is_some_and(|from| location.offset >= *from)
    };
    let unverified = index.entries.iter().filter(|(_, entry)| is_unverified(&entry.location));
    recovery.unverified = unverified.map(|(id, _)| *id).collect();
    recovery.messages = index.entries.iter().map(|(id, entry)| (*id, entry.due)).collect();
    Ok((index, recovery, newest))
}
