//! Bytes that nobody should send.

use crate::conversation_bytes::play;

/// Plays bytes of client and server in pieces of so many bytes, through the same door as the fuzz
/// target.
fn wrap(head: [u8; 3], pieces: &[(u8, &[u8])], size: usize) -> Vec<u8> {
    let mut all = head.to_vec();
    for (way, bytes) in pieces {
        for piece in bytes.chunks(size) {
            all.extend_from_slice(&[*way, piece.len() as u8]);
            all.extend_from_slice(piece);
        }
        all.extend_from_slice(&[*way | 0x1e, 0]);
    }
    all
}

const EXCHANGES: [(&[u8], &[u8]); 4] = [
    (
        b"POST /a?b=c HTTP/1.1\r\nHost: h\r\nContent-Type: multipart/form-data; boundary=q\r\n\
          Content-Length: 80\r\n\r\n--q\r\nContent-Disposition: form-data; filename=\"f\"\r\n\r\n\
          data\r\n--q--\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n\
          a\r\n\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\r\n2\r\n\x03\x00\r\n0\r\n\r\n",
    ),
    (
        b"GET http://u:p@h:1/%u0041/..%2f HTTP/1.1\r\nHost: h\r\n folded\r\nno colon\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 206 Part\r\nContent-Range: bytes 0-1/9\r\n\
          Content-Length: 2\r\n\r\nab",
    ),
    (
        b"CONNECT h:443 HTTP/1.1\r\nHost: h\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 404 No\r\n\r\n",
    ),
    (
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64\
          \x00\x00\x0d\x01\x05\x00\x00\x00\x01\x82\x84\x86\x41\x08\x61\x2e\x65\x78\x61\x6d\x70\x6c",
        b"\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x01\x01\x04\x00\x00\x00\x01\x88\
          \x00\x00\x02\x00\x01\x00\x00\x00\x01ok",
    ),
];

#[test]
fn every_prefix_and_every_size_of_pieces_is_taken() {
    for (request, response) in EXCHANGES {
        for size in [1, 2, 3, 5, 250] {
            for end in 0..=request.len() {
                let cut = request.get(..end).expect("it is shorter");
                play(&wrap([0, 0, 0], &[(0, cut), (1, response)], size));
            }
            for end in 0..=response.len() {
                let cut = response.get(..end).expect("it is shorter");
                play(&wrap([4, 0, 0], &[(0, request), (1, cut)], size));
                play(&wrap([2, 0, 0], &[(1, cut), (0, request)], size));
            }
        }
    }
}

#[test]
fn every_byte_may_be_another() {
    for (request, response) in EXCHANGES {
        for place in 0..request.len() + response.len() {
            for value in [0, b'\n', b'\r', b' ', b':', b'%', 0xff] {
                let (mut request, mut response) = (request.to_vec(), response.to_vec());
                let len = request.len();
                match place.checked_sub(len) {
                    None => request[place] = value,
                    Some(place) => response[place] = value,
                }
                play(&wrap([0, 0, 0], &[(0, &request), (1, &response)], 250));
            }
        }
    }
}

#[test]
fn every_protocol_takes_noise() {
    let mut noise = 1_u64;
    for round in 0..600_u32 {
        let mut bytes =
            vec![8 | (round & 1) as u8 | (round >> 4 & 16) as u8, round as u8, (round / 3) as u8];
        for _ in 0..400 {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            bytes.push((noise >> 33) as u8);
        }
        play(&bytes);
    }
}
