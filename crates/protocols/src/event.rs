//! Events that rules ask for with `app-layer-event`.

use crate::protocol::Protocol;

/// An event of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Event {
    /// Of which protocol.
    pub protocol: Protocol,
    /// Its number, as in [`crate::State::events`].
    pub number: u8,
}

/// An event of protocol detection: it belongs to the packet whose data was handed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PacketEvent {
    /// Client and server speak different protocols.
    MismatchProtocolBothDirections,
    /// The one spoke first who should not have.
    WrongDirectionFirstData,
    /// Only one direction was recognised.
    DetectProtocolOnlyOneDirection,
    /// Detection was given up for want of data.
    ProtoDetectionSkipped,
    /// STARTTLS, and then no TLS.
    NoTlsAfterStarttls,
    /// After a change of protocol came another one than announced.
    UnexpectedProtocol,
}

impl PacketEvent {
    /// All, with their names in rules.
    pub const NAMES: &'static [(Self, &'static str)] = &[
        (Self::MismatchProtocolBothDirections, "applayer_mismatch_protocol_both_directions"),
        (Self::WrongDirectionFirstData, "applayer_wrong_direction_first_data"),
        (Self::DetectProtocolOnlyOneDirection, "applayer_detect_protocol_only_one_direction"),
        (Self::ProtoDetectionSkipped, "applayer_proto_detection_skipped"),
        (Self::NoTlsAfterStarttls, "applayer_no_tls_after_starttls"),
        (Self::UnexpectedProtocol, "applayer_unexpected_protocol"),
    ];

    /// Of the name behind `app-layer-event:`.
    pub fn of_name(name: &str) -> Option<Self> {
        let mut names = Self::NAMES.iter();
        names.find(|(_, other)| other.eq_ignore_ascii_case(name)).map(|(event, _)| *event)
    }
}
