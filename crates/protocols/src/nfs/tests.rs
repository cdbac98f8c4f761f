use super::MODULE;
use crate::files::FileState;
use crate::frames::FrameNote;
use crate::parser::{Guess, Input, Outcome, Wishes};
use crate::protocol::Carrier::{Tcp, Udp};
use crate::testing::{DOWN, UP, events, guess, number, play, walk};

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Bytes with their length before them, filled to whole words.
fn opaque(bytes: &[u8]) -> Vec<u8> {
    let mut all = words(&[bytes.len() as u32]);
    all.extend(bytes);
    all.resize(all.len().next_multiple_of(4), 0);
    all
}

fn framed(body: &[u8]) -> Vec<u8> {
    [words(&[0x8000_0000 | body.len() as u32]), body.to_vec()].concat()
}

fn call(id: u32, version: u32, procedure: u32, arguments: &[u8]) -> Vec<u8> {
    let head = words(&[id, 0, 2, 100_003, version, procedure, 0, 0, 0, 0]);
    [head, arguments.to_vec()].concat()
}

fn reply(id: u32, results: &[u8]) -> Vec<u8> {
    [words(&[id, 1, 0, 0, 0, 0]), results.to_vec()].concat()
}

const HANDLE: &[u8] = b"handle-8";

fn lookup() -> [Vec<u8>; 2] {
    let asked = [opaque(b"root"), opaque(b"notes.txt")].concat();
    [framed(&call(1, 3, 3, &asked)), framed(&reply(1, &[words(&[0]), opaque(HANDLE)].concat()))]
}

fn read() -> [Vec<u8>; 2] {
    let asked = [opaque(HANDLE), words(&[0, 0, 4096])].concat();
    let mut results = words(&[0, 1]);
    results.extend([0; 84]);
    results.extend(words(&[600, 1, 600]));
    results.extend([b'x'; 600]);
    [framed(&call(2, 3, 6, &asked)), framed(&reply(2, &results))]
}

#[test]
fn files_are_read_by_their_names() {
    let ([asked, told], [ask, data]) = (lookup(), read());
    // The reply of the read comes in two pieces.
    let (begin, end) = data.split_at(520);
    let pieces = [(UP, &asked[..]), (DOWN, &told), (UP, &ask), (DOWN, begin), (DOWN, end)];
    let (parser, outcome) = play(&MODULE, Tcp, &pieces);
    assert_eq!((outcome, parser.count()), (Outcome::Done, 2));
    assert_eq!(number(parser.as_ref(), 0, "nfs_procedure"), Some(3));
    assert_eq!(number(parser.as_ref(), 1, "nfs_procedure"), Some(6));
    assert_eq!(number(parser.as_ref(), 1, "nfs.version"), Some(3));
    let state = parser.state(1).expect("there is a file");
    assert_eq!(state.progress, [1, 1]);
    let [file] = &state.files[1][..] else { panic!("one file") };
    assert_eq!((file.name.as_slice(), file.size), (&b"notes.txt"[..], 600));
    assert_eq!(file.state, FileState::Closed);
    for end in 1..=4 {
        walk(&MODULE, Tcp, &pieces[..end]);
    }
}

#[test]
fn files_are_written_in_pieces() {
    let write = |id: u32, offset: u32, stable: u32, data: &[u8]| {
        let count = data.len() as u32;
        let head = [opaque(HANDLE), words(&[0, offset, count, stable])].concat();
        framed(&call(id, 3, 7, &[head, opaque(data)].concat()))
    };
    let (first, second) = (write(1, 0, 0, b"hello "), write(2, 6, 0, b"world"));
    let commit = framed(&call(3, 3, 21, &[opaque(HANDLE), words(&[0, 0, 0])].concat()));
    let pieces = [(UP, &first[..]), (UP, &second), (UP, &commit)];
    let (parser, _) = play(&MODULE, Tcp, &pieces);
    assert_eq!(parser.count(), 1);
    let state = parser.state(0).expect("there is a file");
    assert_eq!(state.files[0].first().map(|file| file.size), Some(11));
    let commit = parser.number(0, super::PROCEDURE, UP, 1);
    assert_eq!(commit, Some(21));
    for end in 1..=3 {
        walk(&MODULE, Tcp, &pieces[..end]);
    }
    // The rest of a large one is not waited for.
    let large = write(4, 0, 2, &[b'y'; 2000]);
    let (begin, end) = large.split_at(700);
    let (parser, outcome) = play(&MODULE, Tcp, &[(UP, begin), (UP, end)]);
    assert_eq!((outcome, parser.count()), (Outcome::Done, 1));
    let state = parser.state(0).expect("there is a file");
    assert_eq!(state.files[0].first().map(|file| file.size), Some(2000));
}

#[test]
fn datagrams_are_calls_of_older_versions() {
    let asked = [[7; 32].to_vec(), words(&[0, 4096, 0])].concat();
    let ask = call(9, 2, 6, &asked);
    let mut results = words(&[0]);
    results.extend(words(&[1, 0, 0, 0, 0, 5]));
    results.extend([0; 44]);
    results.extend(opaque(b"abcde"));
    let told = reply(9, &results);
    let pieces = [(UP, &ask[..]), (DOWN, &told)];
    let (parser, _) = play(&MODULE, Udp, &pieces);
    assert_eq!(parser.count(), 1);
    let state = parser.state(0).expect("there is a file");
    assert_eq!(state.files[1].first().map(|file| file.size), Some(5));
    walk(&MODULE, Udp, &pieces);
    assert_eq!(guess(&MODULE, Udp, UP, &ask), Guess::Yes);
    assert_eq!(guess(&MODULE, Udp, UP, &ask[..40]), Guess::No);
}

#[test]
fn parts_of_records_are_frames() {
    let mut wishes = Wishes { frames_wanted: true, ..Wishes::default() };
    let (mut parser, _) = play(&MODULE, Tcp, &[]);
    let [asked, told] = lookup();
    parser.parse(Input { direction: UP, bytes: &asked, end: false }, &mut wishes);
    let frame = |name, at, len| FrameNote::Open { name, at, len: Some(len), transaction: None };
    let all = asked.len() as u64;
    assert_eq!(
        wishes.frames,
        [frame("rpc.pdu", 0, all), frame("rpc.creds", 28, 8), frame("nfs.pdu", 44, all - 44)]
    );
    wishes.frames.clear();
    parser.parse(Input { direction: DOWN, bytes: &told, end: false }, &mut wishes);
    let all = told.len() as u64;
    assert_eq!(
        wishes.frames,
        [
            frame("rpc.pdu", 0, all),
            frame("rpc.hdr", 0, 12),
            frame("rpc.data", 12, all - 12),
            frame("nfs.pdu", 28, all - 28),
            frame("nfs.status", 28, 4),
        ]
    );
}

#[test]
fn what_is_wrong_is_told_and_gaps_are_passed() {
    let [asked, _] = lookup();
    let bad = framed(&call(5, 3, 6, &words(&[900])));
    let (parser, outcome) = play(&MODULE, Tcp, &[(UP, &asked), (UP, &bad)]);
    assert_eq!(outcome, Outcome::Done);
    assert_eq!(events(&MODULE, parser.as_ref(), 0), ["malformed_data"]);
    assert_eq!(play(&MODULE, Tcp, &[(UP, &[0; 40])]).1, Outcome::Failed);
    let (mut parser, _) = play(&MODULE, Tcp, &[(UP, &asked)]);
    parser.gap(UP, 100, &mut Wishes::default());
    let bytes = [vec![0xff; 50], asked.clone()].concat();
    let input = Input { direction: UP, bytes: &bytes, end: false };
    assert_eq!(parser.parse(input, &mut Wishes::default()), Outcome::Done);
    assert_eq!(parser.count(), 2);
    assert_eq!(guess(&MODULE, Tcp, UP, &asked), Guess::Yes);
    assert_eq!(guess(&MODULE, Tcp, UP, &asked[..30]), Guess::Unsure);
    // Calls that nobody answers.
    let flood: Vec<u8> = (0..1100).flat_map(|id| framed(&call(id, 3, 0, &[]))).collect();
    let (parser, _) = play(&MODULE, Tcp, &[(UP, &flood)]);
    assert_eq!(events(&MODULE, parser.as_ref(), 0), ["too_many_transactions"]);
}
