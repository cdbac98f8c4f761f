use super::{Condition, MODULE};
use crate::parser::{Guess, Outcome};
use crate::protocol::Carrier::Tcp;
use crate::testing::{DOWN, UP, events, guess, number, play, text, walk};

fn message(id: u8, unit: u8, pdu: &[u8]) -> Vec<u8> {
    let mut all = vec![0, id, 0, 0, 0, pdu.len() as u8 + 1, unit];
    all.extend(pdu);
    all
}

fn holds(condition: &str, message: &[u8]) -> bool {
    let (parser, _) = play(&MODULE, Tcp, &[(UP, message)]);
    let buffer = text(parser.as_ref(), 0, "modbus.message", 0).expect("there is a message");
    Condition::of_text(condition).expect("it can be read").holds(&buffer)
}

#[test]
fn a_request_and_its_response_are_one_transaction() {
    let request = message(1, 10, &[1, 0, 0, 0, 1]);
    let response = message(1, 10, &[1, 1, 0]);
    let pieces = [(UP, &request[..]), (DOWN, &response[..])];
    let (parser, outcome) = play(&MODULE, Tcp, &pieces);
    assert_eq!((outcome, parser.count()), (Outcome::Done, 1));
    assert_eq!(events(&MODULE, parser.as_ref(), 0), [""; 0]);
    assert_eq!(number(parser.as_ref(), 0, "modbus"), Some(1));
    assert_eq!(parser.state(0).map(|state| state.progress), Some([1, 1]));
    for end in 1..=2 {
        walk(&MODULE, Tcp, &pieces[..end]);
    }
    let (parser, _) = play(&MODULE, Tcp, &[(DOWN, &response)]);
    assert_eq!(events(&MODULE, parser.as_ref(), 0), ["unsolicited_response"]);
    let wrong = message(1, 10, &[1, 2, 0, 0]);
    let (parser, _) = play(&MODULE, Tcp, &[(UP, &request), (DOWN, &wrong)]);
    assert_eq!(events(&MODULE, parser.as_ref(), 0), ["value_mismatch"]);
}

#[test]
fn conditions_look_at_all_parts() {
    let read = message(1, 10, &[1, 0, 0, 0, 1]);
    for condition in [
        "function 1",
        "function assigned",
        "function !user",
        "access read",
        "unit 10",
        "unit >9, access read coils, address 0<>2",
        "access read coils, address 1",
    ] {
        assert!(holds(condition, &read), "{condition}");
    }
    for condition in ["function 8", "access write", "unit 11", "access read holding", "unit <10"] {
        assert!(!holds(condition, &read), "{condition}");
    }
    let write = message(2, 1, &[16, 0, 4, 0, 2, 4, 0, 7, 1, 0]);
    assert!(holds("access write holding, address 6, value 256", &write));
    assert!(!holds("access write holding, address 5, value >7", &write));
    let diagnostic = message(3, 1, &[8, 0, 4, 0, 0]);
    assert!(holds("function 8, subfunction 4", &diagnostic));
    assert!(!holds("function 8, subfunction 5", &diagnostic));
}

#[test]
fn conditions_that_make_no_sense_are_refused() {
    for text in [
        "",
        "function 0",
        "function odd",
        "access write input",
        "access read, address 1, value 1",
        "access write, address <5, value 1",
        "address 5",
        "unit",
    ] {
        assert_eq!(Condition::of_text(text), None, "{text}");
    }
}

#[test]
fn what_is_wrong_is_an_event() {
    let cases: [(&[u8], &str); 4] = [
        (&[1, 0, 0, 0, 0], "invalid_value"),
        (&[1, 0, 0, 0, 1, 9], "invalid_length"),
        (&[0x90, 0, 0, 0, 1, 2, 0, 0], "invalid_function_code"),
        (&[5, 0, 0, 1, 1], "invalid_value"),
    ];
    for (pdu, event) in cases {
        let (parser, _) = play(&MODULE, Tcp, &[(UP, &message(1, 1, pdu))]);
        assert_eq!(events(&MODULE, parser.as_ref(), 0), [event], "{pdu:?}");
    }
    let many: Vec<u8> = (0..600).flat_map(|_| message(1, 1, &[1, 0, 0, 0, 1])).collect();
    let (parser, outcome) = play(&MODULE, Tcp, &[(UP, &many)]);
    assert_eq!((outcome, parser.count()), (Outcome::Failed, 501));
    assert_eq!(events(&MODULE, parser.as_ref(), 500), ["flooded"]);
}

#[test]
fn what_is_recognised() {
    let request = message(1, 10, &[1, 0, 0, 0, 1]);
    assert_eq!(guess(&MODULE, Tcp, UP, &request), Guess::Yes);
    assert_eq!(guess(&MODULE, Tcp, UP, &request[..9]), Guess::Unsure);
    assert_eq!(guess(&MODULE, Tcp, UP, &message(1, 1, &[99, 1])), Guess::No);
}
