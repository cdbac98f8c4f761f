//! Everything of the facts that reads bytes of others, fed with any bytes: nothing may panic, and
//! what is said of the results must hold.

use gauntlet_gateway::facts::auth_results::stamp;
use gauntlet_gateway::facts::dmarc::Policy;
use gauntlet_gateway::facts::key_record::key_bits;
use gauntlet_gateway::facts::spf::macros::{Template, Values};
use gauntlet_gateway::facts::spf::record::{Record, is_record};
use gauntlet_gateway::facts::tags;
use gauntlet_mail::Envelope;
use gauntlet_mail::auth_results::{apply, of_trusted};
use gauntlet_mail::facts::{AuthResult, Facts};

/// Feeds the input to every reader.
pub(crate) fn ask(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if is_record(input) {
        let _any_result_is_fine = Record::parse(input);
    }
    for explains in [false, true] {
        if let Ok(template) = Template::parse_text(&text, explains) {
            let values = Values {
                sender: "a.b@c.example",
                domain: "c.example",
                client: [192, 0, 2, 1].into(),
                helo: &text,
                validated: "unknown",
                host: "h.example",
                now: 0,
            };
            assert!(template.expand_name(&values).len() <= 253);
        }
    }
    let _any_policy_is_fine = Policy::parse(input);
    assert!(tags::read(&text).count() <= text.len());
    let _any_bits_are_fine = key_bits(input);
    let facts = Facts { spf: AuthResult::Pass, ..Facts::default() };
    let envelope = Envelope { mail_from: text.clone().into_owned(), ..Envelope::default() };
    let stamped = stamp(input, &text, &facts, &envelope).expect("there is something to say");
    // Our field adds one field and no empty line, whatever stands in names and addresses.
    let ours = stamped.split(|b| *b == b'\n').take_while(|line| line.len() > 1);
    assert!(ours.count() >= 2 || input.starts_with(b"From "));
    read_by_another_node(input, &envelope);
}

/// A node that believes this one reads what it found, whatever sender and message say.
fn read_by_another_node(input: &[u8], envelope: &Envelope) {
    let facts = Facts { spf: AuthResult::Fail, dmarc: AuthResult::Fail, ..Facts::default() };
    // As a node has it: what a sender begins with white space goes on with our trace field.
    let received = [b"Received: from x by gw.example\r\n", input].concat();
    let stamped = stamp(&received, "gw.example", &facts, envelope).expect("something to say");
    let (server, results) = of_trusted(&stamped, &["gw.example".to_owned()]).expect("our field");
    assert_eq!(server, "gw.example");
    let found: Vec<_> = results.iter().map(|r| (r.method.as_str(), r.result)).collect();
    assert_eq!(
        found,
        [("spf", AuthResult::Fail), ("dmarc", AuthResult::Fail)],
        "{}",
        stamped.escape_ascii()
    );
    let mut read = Facts::default();
    apply(&results, &["bank.example".to_owned()], &mut read);
    assert!(read.dmarc != AuthResult::Pass);
    // Of a bounce the name in HELO was checked.
    assert!([read.spf, read.spf_helo].contains(&AuthResult::Fail));
}
