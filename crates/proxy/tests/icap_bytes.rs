//! Any bytes as what an ICAP client sends: through every reader, whole and in pieces. The fuzz
//! target `icap` includes this file.

use bytes::BytesMut;
use gauntlet_proxy::icap::chunks::{ChunkDecoder, Piece};
use gauntlet_proxy::icap::codec::{CodecError, CodecLimits, HeadEnd, IcapRequest, read_request};
use gauntlet_proxy::icap::http_head;

const LENGTH: &str = "content-length";

const LIMITS: CodecLimits = CodecLimits {
    header_bytes_max: 4096,
    header_fields_max: 50,
    chunk_line_bytes_max: 64,
    preview_bytes_max: 1024,
};

/// Reads one request after another, as a connection does, and holds what is read to its limits.
pub(crate) fn feed(input: &[u8]) {
    let mut rest = input;
    while let Ok(Some(end)) = HeadEnd::default().find(rest, LIMITS.header_bytes_max) {
        assert!(end <= LIMITS.header_bytes_max);
        let (head, behind) = rest.split_at(end);
        let Ok(request) = read_request(head, &LIMITS) else { break };
        assert_eq!(in_pieces(rest), Some(end), "a header ends where it ends");
        let Some((heads, body)) = behind.split_at_checked(request.encapsulated.head_bytes) else {
            break;
        };
        read_heads(&request, heads);
        let decoder = || match request.encapsulated.has_body {
            true => ChunkDecoder::new(LIMITS, request.preview),
            false => ChunkDecoder::ended(LIMITS),
        };
        let (whole, left) = read_body(decoder(), body, body.len());
        let (pieces, _) = read_body(decoder(), body, 1);
        assert_eq!(whole, pieces, "a body is the same however it comes");
        if whole.is_err() || left >= rest.len() {
            break;
        }
        rest = rest.get(rest.len() - left..).unwrap_or_default();
    }
    // What is no request may still be a body or a header.
    let _ = http_head::fields(input, &LIMITS);
    let _ = http_head::read_request(input, &LIMITS);
    let _ = http_head::read_response(input, &LIMITS);
    for preview in [None, Some(0), Some(16)] {
        let whole = read_body(ChunkDecoder::new(LIMITS, preview), input, input.len());
        let pieces = read_body(ChunkDecoder::new(LIMITS, preview), input, 1);
        assert_eq!(whole.0, pieces.0);
    }
}

fn in_pieces(bytes: &[u8]) -> Option<usize> {
    let mut end = HeadEnd::default();
    (0..=bytes.len()).find_map(|n| end.find(&bytes[..n], LIMITS.header_bytes_max).ok().flatten())
}

fn read_heads(request: &IcapRequest, heads: &[u8]) {
    let encapsulated = &request.encapsulated;
    if let Some(range) = &encapsulated.request {
        let _ = http_head::read_request(&heads[range.clone()], &LIMITS);
    }
    if let Some(range) = &encapsulated.response {
        let head = &heads[range.clone()];
        if let Ok((_, fields)) = http_head::read_response(head, &LIMITS) {
            let left = http_head::without(head, LENGTH);
            let (_, left) = http_head::read_response(&left, &LIMITS).expect("it is still a header");
            let lengths = fields.get_all(LENGTH).iter().count();
            assert_eq!(left.len() + lengths, fields.len());
            assert!(!left.contains_key(LENGTH));
        }
    }
}

/// Data and trailers of a body, or why there are none; and how many bytes are left behind it.
fn read_body(
    mut decoder: ChunkDecoder,
    bytes: &[u8],
    step: usize,
) -> (Result<(Vec<u8>, usize), CodecError>, usize) {
    let (mut buffer, mut data) = (BytesMut::new(), Vec::new());
    let mut unread = bytes.len();
    for piece in bytes.chunks(step.max(1)).chain([&[][..]]) {
        buffer.extend_from_slice(piece);
        unread -= piece.len();
        loop {
            match decoder.next(&mut buffer) {
                Ok(None) => break,
                Ok(Some(Piece::Data(some))) => data.extend_from_slice(&some),
                Ok(Some(Piece::PreviewEnd)) => {
                    assert!(data.len() <= LIMITS.preview_bytes_max);
                    decoder.go_on();
                }
                Ok(Some(Piece::End(trailers))) => {
                    return (Ok((data, trailers.len())), buffer.len() + unread);
                }
                Err(error) => return (Err(error), 0),
            }
        }
    }
    (Ok((data, usize::MAX)), 0)
}

#[test]
fn readers_hold_what_they_promise_on_every_damaged_request() {
    let seed = "RESPMOD icap://h/respmod ICAP/1.0\r\nHost: h\r\nAllow: 204\r\nPreview: 4\r\n\
                Encapsulated: req-hdr=0, res-hdr=41, res-body=79\r\n\r\n\
                GET http://x/ HTTP/1.1\r\nHost: x.example\r\n\r\n\
                HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n\
                4\r\nsome\r\n0\r\n\r\n5;x=\"y\"\r\n text\r\n0\r\nX: y\r\n\r\n\
                OPTIONS icap://h/ ICAP/1.0\r\n\r\n";
    feed(seed.as_bytes());
    for at in 0..seed.len() {
        for byte in [0, b'\r', b'\n', b' ', b'0', b'9', b'f', b',', b'=', b':', b'-', 0xff] {
            let mut damaged = seed.as_bytes().to_vec();
            damaged[at] = byte;
            feed(&damaged);
            damaged.insert(at, byte);
            feed(&damaged);
        }
        feed(&seed.as_bytes()[..at]);
        feed(&seed.as_bytes()[at..]);
    }
}
