//! Events of HTTP/2.

/// An event: a place in [`NAMES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    InvalidClientMagic = 1,
    InvalidFrameData = 2,
    InvalidHeader = 3,
    InvalidFrameLength = 4,
    LongFrameData = 6,
    StreamIdReuse = 7,
    InvalidHttp1Settings = 8,
    FailedDecompression = 9,
    InvalidRange = 10,
    TooManyStreams = 12,
    AuthorityHostMismatch = 13,
    UserinfoInUri = 14,
    ReassemblyLimitReached = 15,
    DnsRequestTooLong = 16,
    DnsResponseTooLong = 17,
    DataStreamZero = 18,
    TooManyFrames = 19,
    CompressionBomb = 20,
}

/// Names in rules.
pub(super) static NAMES: &[&str] = &[
    "invalid_frame_header",
    "invalid_client_magic",
    "invalid_frame_data",
    "invalid_header",
    "invalid_frame_length",
    "extra_header_data",
    "long_frame_data",
    "stream_id_reuse",
    "invalid_http1_settings",
    "failed_decompression",
    "invalid_range",
    "header_integer_overflow",
    "too_many_streams",
    "authority_host_mismatch",
    "userinfo_in_uri",
    "reassembly_limit_reached",
    "dns_request_too_long",
    "dns_response_too_long",
    "data_stream_zero",
    "too_many_frames",
    "compression_bomb",
];
