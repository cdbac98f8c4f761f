//! Events of SMTP and MIME.

/// Names of events, by their numbers.
pub(super) const EVENTS: &[&str] = &[
    "invalid_reply",
    "unable_to_match_reply_with_request",
    "max_command_line_len_exceeded",
    "max_reply_line_len_exceeded",
    "invalid_pipelined_sequence",
    "bdat_chunk_len_exceeded",
    "no_server_welcome_message",
    "tls_rejected",
    "data_command_rejected",
    "failed_protocol_change",
    "mime_parse_failed",
    "mime_invalid_base64",
    "mime_invalid_qp",
    "mime_long_line",
    "mime_long_enc_line",
    "mime_long_header_name",
    "mime_long_header_value",
    "mime_long_boundary",
    "mime_long_filename",
    "duplicate_fields",
    "unparsable_content",
    "truncated_line",
];
pub(super) const INVALID_REPLY: u8 = 0;
pub(super) const INVALID_PIPELINED_SEQUENCE: u8 = 4;
pub(super) const BDAT_CHUNK_LEN_EXCEEDED: u8 = 5;
pub(super) const NO_SERVER_WELCOME_MESSAGE: u8 = 6;
pub(super) const TLS_REJECTED: u8 = 7;
pub(super) const DATA_COMMAND_REJECTED: u8 = 8;
pub(super) const MIME_INVALID_BASE64: u8 = 11;
pub(super) const MIME_INVALID_QP: u8 = 12;
pub(super) const MIME_LONG_LINE: u8 = 13;
pub(super) const MIME_LONG_ENC_LINE: u8 = 14;
pub(super) const MIME_LONG_HEADER_NAME: u8 = 15;
pub(super) const MIME_LONG_HEADER_VALUE: u8 = 16;
pub(super) const MIME_LONG_BOUNDARY: u8 = 17;
pub(super) const MIME_LONG_FILENAME: u8 = 18;
pub(super) const DUPLICATE_FIELDS: u8 = 19;
pub(super) const UNPARSABLE_CONTENT: u8 = 20;
pub(super) const TRUNCATED_LINE: u8 = 21;
