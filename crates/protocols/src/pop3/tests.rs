use super::MODULE;
use crate::parser::{Guess, Outcome};
use crate::protocol::Carrier::Tcp;
use crate::testing::{DOWN, Piece, UP, events, guess, play, walk};

#[test]
fn commands_and_responses_are_transactions() {
    let pieces: [Piece<'_>; 7] = [
        (DOWN, b"+OK hello\r\n"),
        (UP, b"USER me\r\n"),
        (DOWN, b"+OK\r\n"),
        (UP, b"LIST\r\n"),
        (DOWN, b"+OK 2 messages\r\n1 120\r\n2 200\r\n.\r\n"),
        (UP, b"RETR 1\r\n"),
        (DOWN, b"+OK 9 octets\r\na\r\n.\r\nb\r\n.\r\n"),
    ];
    let (parser, outcome) = play(&MODULE, Tcp, &pieces);
    assert_eq!(outcome, Outcome::Done);
    assert_eq!(parser.count(), 4);
    assert!((0..4).all(|place| parser.state(place).is_some_and(|s| s.progress[1] == 1)));
    for end in 1..=pieces.len() {
        walk(&MODULE, Tcp, &pieces[..end]);
    }
}

#[test]
fn a_list_is_waited_for() {
    let pieces: [Piece<'_>; 2] = [(UP, b"LIST\r\n"), (DOWN, b"+OK\r\n1 120\r\n")];
    let (parser, outcome) = play(&MODULE, Tcp, &pieces);
    assert_eq!(outcome, Outcome::Incomplete { consumed: 0, needed: 13 });
    assert_eq!(parser.state(0).map(|state| state.progress), Some([1, 0]));
}

#[test]
fn authentication_goes_on_without_commands() {
    let pieces: [Piece<'_>; 3] =
        [(UP, b"AUTH PLAIN\r\n"), (DOWN, b"+ \r\n"), (UP, b"AGEAYg==\r\n")];
    let (parser, outcome) = play(&MODULE, Tcp, &pieces);
    assert_eq!((outcome, parser.count()), (Outcome::Done, 2));
    walk(&MODULE, Tcp, &pieces);
}

#[test]
fn what_is_wrong_is_an_event() {
    let long = format!("PASS {}\r\n", "x".repeat(300));
    let cases: [(&[u8], &str); 3] = [
        (b"DELE\r\n", "incorrect_argument_count"),
        (b"HELLO you\r\n", "unknown_command"),
        (long.as_bytes(), "request_too_long"),
    ];
    for (bytes, event) in cases {
        let (parser, _) = play(&MODULE, Tcp, &[(UP, bytes)]);
        assert_eq!(events(&MODULE, parser.as_ref(), 0), [event]);
    }
    let many = b"NOOP\r\n".repeat(300);
    let (parser, outcome) = play(&MODULE, Tcp, &[(UP, &many)]);
    assert_eq!((outcome, parser.count()), (Outcome::Failed, 257));
    assert_eq!(events(&MODULE, parser.as_ref(), 0), ["too_many_transactions"]);
    assert_eq!(play(&MODULE, Tcp, &[(UP, b"USER")]).1, Outcome::Failed);
}

#[test]
fn what_is_recognised() {
    assert_eq!(guess(&MODULE, Tcp, UP, b"USER me\r\n"), Guess::Yes);
    assert_eq!(guess(&MODULE, Tcp, UP, b"USER"), Guess::Unsure);
    assert_eq!(guess(&MODULE, Tcp, UP, b"USER me"), Guess::No);
    assert_eq!(guess(&MODULE, Tcp, DOWN, b"+OK hi\r\n"), Guess::Yes);
    assert_eq!(guess(&MODULE, Tcp, DOWN, b"* OK hi\r\n"), Guess::No);
}
