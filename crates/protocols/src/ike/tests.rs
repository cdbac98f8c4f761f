use super::MODULE;
use crate::parser::{Guess, Outcome};
use crate::protocol::Carrier::Udp;
use crate::testing::{DOWN, UP, events, guess, number, play, text, walk};

fn message(responder: u64, next: u8, version: u8, exchange: u8, payloads: &[u8]) -> Vec<u8> {
    let mut all = 0x0102_0304_0506_0708_u64.to_be_bytes().to_vec();
    all.extend(responder.to_be_bytes());
    all.extend([next, version, exchange, 0, 0, 0, 0, 0]);
    all.extend((28 + payloads.len() as u32).to_be_bytes());
    all.extend(payloads);
    all
}

fn payload(next: u8, data: &[u8]) -> Vec<u8> {
    let mut all = vec![next, 0];
    all.extend((data.len() as u16 + 4).to_be_bytes());
    all.extend(data);
    all
}

/// An association with one proposal with so many transforms of AES-128 with SHA-1.
fn association_v1(next: u8, transforms: usize) -> Vec<u8> {
    let attributes =
        [0x80, 1, 0, 7, 0x80, 14, 0, 128, 0x80, 2, 0, 2, 0, 12, 0, 4, 0, 1, 0x51, 0x80];
    let transform = payload(3, &[&[1, 1, 0, 0][..], &attributes].concat());
    let proposal = [&[1, 1, 0, 1][..], &transform.repeat(transforms)].concat();
    payload(next, &[&[0, 0, 0, 1, 0, 0, 0, 1][..], &payload(0, &proposal)].concat())
}

#[test]
fn version_1_shows_its_payloads() {
    let first =
        [association_v1(13, 1), payload(10, b"VID"), payload(4, b"nonce"), payload(0, b"k")];
    let request = message(0, 1, 0x10, 2, &first.concat());
    let (parser, outcome) = play(&MODULE, Udp, &[(UP, &request)]);
    assert_eq!(outcome, Outcome::Done);
    let parser = parser.as_ref();
    assert_eq!(text(parser, 0, "ike.init_spi", 0).as_deref(), Some(&b"0102030405060708"[..]));
    assert_eq!(text(parser, 0, "ike.vendor", 0).as_deref(), Some(&b"564944"[..]));
    assert_eq!(text(parser, 0, "ike.vendor", 1), None);
    assert_eq!(text(parser, 0, "ike.nonce_payload", 0).as_deref(), Some(&b"nonce"[..]));
    assert_eq!(text(parser, 0, "ike.key_exchange_payload", 0).as_deref(), Some(&b"k"[..]));
    assert_eq!(number(parser, 0, "ike.nonce_payload_length"), Some(5));
    assert_eq!(number(parser, 0, "ike.exchtype"), Some(2));
    assert_eq!(number(parser, 0, "ike.chosen_sa_attribute:alg_enc"), Some(7));
    assert_eq!(number(parser, 0, "ike.chosen_sa_attribute:sa_life_duration"), Some(86_400));
    assert_eq!(number(parser, 0, "ike.chosen_sa_attribute:alg_dh"), None);
    walk(&MODULE, Udp, &[(UP, &request)]);
}

#[test]
fn a_server_chooses_one_proposal() {
    let request = message(0, 1, 0x10, 2, &association_v1(0, 2));
    let response = message(9, 1, 0x10, 2, &[association_v1(0, 2), vec![1]].concat());
    let (parser, _) = play(&MODULE, Udp, &[(UP, &request), (DOWN, &response)]);
    let found = events(&MODULE, parser.as_ref(), 0);
    assert_eq!(found, ["multiple_server_proposal", "payload_extra_data"]);
}

fn association_v2(transforms: &[(u8, u8)]) -> Vec<u8> {
    let mut proposal =
        vec![0, 0, 0, 8 + 8 * transforms.len() as u8, 1, 1, 0, transforms.len() as u8];
    for (kind, number) in transforms {
        proposal.extend([0, 0, 0, 8, *kind, 0, 0, *number]);
    }
    payload(34, &proposal)
}

#[test]
fn version_2_warns_of_weak_algorithms() {
    let weak = [association_v2(&[(1, 2), (2, 2), (3, 1), (4, 2)]), payload(0, &[0, 2, 0, 0, 1])];
    let request = message(0, 33, 0x20, 34, &weak.concat());
    let (parser, _) = play(&MODULE, Udp, &[(UP, &request)]);
    assert_eq!(
        events(&MODULE, parser.as_ref(), 0),
        ["weak_crypto_enc", "weak_crypto_prf", "weak_crypto_auth", "weak_crypto_dh"]
    );
    let bare = [association_v2(&[(1, 12)]), payload(0, &[0, 2, 0, 0, 1])];
    let response = message(7, 33, 0x20, 34, &bare.concat());
    let (parser, _) = play(&MODULE, Udp, &[(DOWN, &response)]);
    let found = events(&MODULE, parser.as_ref(), 0);
    assert_eq!(found, ["weak_crypto_no_dh", "weak_crypto_no_auth"]);
    assert_eq!(number(parser.as_ref(), 0, "ike.chosen_sa_attribute:alg_enc"), Some(12));
    walk(&MODULE, Udp, &[(UP, &request)]);
}

#[test]
fn what_is_recognised() {
    let request = message(0, 33, 0x20, 34, &[]);
    assert_eq!(guess(&MODULE, Udp, UP, &request), Guess::Yes);
    assert_eq!(guess(&MODULE, Udp, DOWN, &request), Guess::Reversed);
    assert_eq!(guess(&MODULE, Udp, UP, &message(0, 33, 0x20, 38, &[])), Guess::No);
    assert_eq!(guess(&MODULE, Udp, UP, &message(0, 33, 0x30, 34, &[])), Guess::No);
    assert_eq!(guess(&MODULE, Udp, UP, &request[..27]), Guess::No);
    let (_, outcome) = play(&MODULE, Udp, &[(UP, &message(0, 33, 0x30, 34, &[]))]);
    assert_eq!(outcome, Outcome::Failed);
}

#[test]
fn payloads_within_payloads_end_somewhere() {
    let mut nested = Vec::new();
    for _ in 0..200 {
        let inner = [&[1, 1, 0, 0][..], &nested].concat();
        let proposal = payload(1, &inner);
        nested = payload(2, &[&[0, 0, 0, 1, 0, 0, 0, 1][..], &proposal].concat());
    }
    let request = message(0, 1, 0x10, 2, &nested);
    let (_, outcome) = play(&MODULE, Udp, &[(UP, &request)]);
    assert_eq!(outcome, Outcome::Done);
}
