//! The connection that a transfer of FTP uses: one file, or a list.

use gauntlet_packet::Direction;

use crate::buffer::{Buffer, Bytes, Kind, to_client, to_server};
use crate::files::{self, HashSettings, Opening};
use crate::parser::{At, Expectation, Input, Module, Outcome, Parser, Wishes};
use crate::protocol::Protocol;
use crate::record::Fields;
use crate::rooms;
use crate::tables::{TWO_STATES, row, single_transaction};
use crate::transaction::State;

/// Bytes of the command at the beginning of an announcement.
const COMMAND_BYTES: usize = 4;

/// The command of the transfer in lower case (`retr`, `stor` ...): what the keyword
/// `ftpdata_command` is compared with.
const COMMAND: Buffer = Buffer::new(rooms::FTP_DATA, 0);

pub(crate) static MODULE: Module = Module {
    protocol: Protocol::FtpData,
    events: &[],
    states: TWO_STATES,
    buffers: &[row(
        COMMAND,
        "ftpdata.command",
        Kind::Single,
        &[to_server(Protocol::FtpData, 0), to_client(Protocol::FtpData, 0)],
    )],
    numbers: &[],
    patterns: &[],
    probes: &[],
    accepts_gaps: false,
    first: None,
    make: |settings, _| Some(Box::new(FtpData::new(settings.hashes))),
};

struct FtpData {
    state: State,
    removed: bool,
    hashes: HashSettings,
    /// The way the data goes; unknown until it is announced.
    direction: Option<Direction>,
    command: Vec<u8>,
    file_name: Vec<u8>,
    begun: bool,
}

impl FtpData {
    fn new(hashes: HashSettings) -> Self {
        Self {
            state: State { progress: [1, 1], ..State::default() },
            removed: false,
            hashes,
            direction: None,
            command: Vec::new(),
            file_name: Vec::new(),
            begun: false,
        }
    }

    fn begin(&mut self, direction: Direction) {
        self.begun = true;
        self.state.progress = match direction {
            Direction::ToServer => [0, 1],
            Direction::ToClient => [1, 0],
        };
        if self.file_name.is_empty() {
            return;
        }
        let name = self.file_name.as_slice();
        let opening = Opening { name, hashes: self.hashes, ..Opening::default() };
        if let Some(list) = self.state.files.get_mut(direction.index()) {
            files::add(list, opening);
        }
    }
}

impl Parser for FtpData {
    fn announced(&mut self, announcement: &Expectation) {
        let (command, name) =
            announcement.about.split_at(COMMAND_BYTES.min(announcement.about.len()));
        self.command = command.to_ascii_lowercase();
        self.file_name = name.to_vec();
        self.direction =
            Some(if announcement.upload { Direction::ToServer } else { Direction::ToClient });
    }

    fn parse(&mut self, input: Input<'_>, _: &mut Wishes) -> Outcome {
        self.state.touch(input.direction);
        let Some(direction) = self.direction else {
            let empty = input.bytes.is_empty();
            return if empty { Outcome::Done } else { Outcome::Failed };
        };
        if direction != input.direction {
            return Outcome::Done;
        }
        if !self.begun {
            if input.bytes.is_empty() {
                return Outcome::Done;
            }
            self.begin(direction);
        }
        let list = self.state.files.get_mut(direction.index());
        if let Some(file) = list.and_then(|list| list.last_mut()) {
            file.append(input.bytes);
            if input.end {
                file.close(false);
            }
        }
        if input.end {
            self.state.advance(direction, 1);
        }
        Outcome::Done
    }

    single_transaction!(state, removed);

    fn buffer(&self, _: usize, at: At, _: usize) -> Option<Bytes<'_>> {
        (at.buffer == COMMAND && self.begun).then(|| Bytes::whole(&self.command))
    }

    fn record(&self, _: usize, fields: &mut Fields) {
        let mut data = Fields::default();
        if !self.file_name.is_empty() {
            data.text("filename", &self.file_name);
        }
        if self.begun {
            data.text("command", &self.command.to_ascii_uppercase());
        }
        fields.object("ftp_data", data);
    }
}
