//! Any bytes as the begin of a TLS stream. Shared with the fuzz target
//! `fuzz/fuzz_targets/client_hello.rs`.

use gauntlet_proxy::client_hello::{HELLO_BYTES_MAX, READ_BYTES_MAX, Reading, read};

/// Bytes of a header of a record, and of a header of a message.
const RECORD: usize = 5;
const MESSAGE: usize = 4;

/// Reads the bytes as a whole and as they come: more of them never change what was said.
pub(crate) fn feed(input: &[u8]) {
    let whole = read(input);
    let cuts = (0..input.len().min(600)).chain((600..input.len()).step_by(97));
    for cut in cuts {
        let early = read(&input[..cut]);
        assert!(early == Reading::NeedsMore || early == whole, "{cut}: {early:?}, {whole:?}");
    }
    assert!(input.len() < READ_BYTES_MAX || whole != Reading::NeedsMore);
    let Reading::Hello(hello) = &whole else { return };
    assert!(hello.size <= input.len() && hello.size <= READ_BYTES_MAX);
    if let Some(name) = &hello.sni {
        assert!(!name.is_empty() && name.len() <= 253);
        assert!(name.bytes().all(|b| b.is_ascii_graphic() && !b.is_ascii_uppercase()));
    }
    // However it is cut into records, it is the same.
    let message = content(&input[..hello.size]);
    assert!(message.len() <= HELLO_BYTES_MAX + MESSAGE);
    for pieces in [1, 2, 60] {
        let length = message.len().div_ceil(pieces).min(1 << 14);
        let mut cut = records(&message, length);
        cut.extend_from_slice(&input[hello.size..]);
        let Reading::Hello(again) = read(&cut) else { panic!("cut into pieces of {length}") };
        let size = message.len() + message.len().div_ceil(length) * RECORD;
        assert_eq!((again.size, &again.sni), (size, &hello.sni));
        assert_eq!((&again.alpn, &again.versions), (&hello.alpn, &hello.versions));
        assert_eq!(again.ech, hello.ech);
    }
}

/// A message in records of at most so many bytes.
pub(crate) fn records(message: &[u8], length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for piece in message.chunks(length) {
        bytes.extend_from_slice(&[22, 3, 1]);
        bytes.extend_from_slice(&(piece.len() as u16).to_be_bytes());
        bytes.extend_from_slice(piece);
    }
    bytes
}

/// What records hold.
fn content(mut records: &[u8]) -> Vec<u8> {
    let mut content = Vec::new();
    while let [_, _, _, high, low, rest @ ..] = records {
        let (piece, after) = rest.split_at(usize::from(u16::from_be_bytes([*high, *low])));
        content.extend_from_slice(piece);
        records = after;
    }
    content
}
