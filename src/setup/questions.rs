//! Questions to a person: one line each, with a default in brackets. They go to standard error, so
//! that standard output has the result alone, and the answers are plain lines, so that they come as
//! well over a serial console or from a file.

use std::io::{BufRead, Write};
use std::path::Path;

use anyhow::bail;
use clap::ValueEnum;

use super::answers::{Answers, everywhere};
use super::given::{Given, Keeper, Mta, Purpose};
use super::host::Host;

/// Wrong answers to one question before it is given up.
const WRONG_MAX: usize = 5;
/// Longest line that is read, in bytes: a token of an array is the longest answer.
const LINE_BYTES_MAX: u64 = 128 << 10;

/// A question that is open.
pub(super) struct Question {
    /// The flag that answers it.
    pub(super) flag: &'static str,
    text: &'static str,
    /// What an empty line means; none if there is no default.
    default: Option<String>,
    set: fn(&mut Given, &str),
}

impl Question {
    /// Nothing can be set up without an answer.
    pub(super) fn is_required(&self) -> bool {
        self.default.is_none()
    }
}

/// What the node is for, the first question.
const PURPOSE: &str = "What is this node for? trial (look at it here), milter (for a Postfix or \
                       Exim that stays the MX), front (be the MX in front of another mail server), \
                       array (the same, one of several)";

/// Questions that nobody has answered yet. The answer to one can open another.
pub(super) fn open(given: &Given, host: &Host) -> Vec<Question> {
    let Some(purpose) = given.purpose() else {
        let set: fn(&mut Given, &str) =
            |given, text| given.purpose = Purpose::from_str(text, true).ok();
        let default = Some("trial".to_owned());
        return vec![Question { flag: "--for", text: PURPOSE, default, set }];
    };
    let mut list = List { given, all: Vec::new() };
    if purpose != Purpose::Trial {
        list.text(
            given.name.is_none(),
            ("--name", "Full host name of this node"),
            host.name.clone(),
            |given, text| given.name = Some(text.to_owned()),
        );
    }
    match purpose {
        Purpose::Trial => {}
        Purpose::Milter => milter(&mut list, host),
        Purpose::Front => front(&mut list, host),
        Purpose::Array => {
            front(&mut list, host);
            array(&mut list);
        }
    }
    list.all
}

fn milter(list: &mut List<'_>, host: &Host) {
    let given = list.given;
    let none = || Some(String::new());
    list.text(
        given.mta.is_none(),
        ("--mta", "Which mail server asks for verdicts: postfix or exim"),
        Some("postfix".to_owned()),
        |given, text| given.mta = Mta::from_str(text, true).ok(),
    );
    let is_postfix = given.mta != Some(Mta::Exim);
    list.text(
        is_postfix && given.held_by.is_none(),
        ("--held-by", "Who keeps held mail: mta (Postfix' hold queue) or node (our quarantine)"),
        Some("mta".to_owned()),
        |given, text| given.held_by = Keeper::from_str(text, true).ok(),
    );
    list.text(
        given.network.is_empty(),
        ("--network", "Networks of your own servers, separated by commas (none: empty)"),
        none(),
        |given, text| given.network = parts(text),
    );
    list.text(
        is_postfix && given.domain.is_empty() && !given.no_dkim,
        ("--domain", "Domains whose outbound mail is to be signed, by commas (none: empty)"),
        none(),
        |given, text| given.domain = parts(text),
    );
    list.text(
        is_postfix && !given.apply_postfix && host.postconf.is_some(),
        ("--apply-postfix", "Set the lines in the Postfix of this machine now? yes or no"),
        Some("no".to_owned()),
        |given, text| given.apply_postfix = is_yes(text),
    );
}

fn front(list: &mut List<'_>, host: &Host) {
    let given = list.given;
    let none = || Some(String::new());
    list.text(
        given.domain.is_empty(),
        ("--domain", "Domains that mail is taken for, separated by commas"),
        None,
        |given, text| given.domain = parts(text),
    );
    list.text(
        given.listen.is_empty(),
        ("--listen", "Address and port for mail from the internet"),
        Some(everywhere(host, 25)),
        |given, text| given.listen = parts(text),
    );
    list.text(
        given.next_hop.is_empty(),
        ("--next-hop", "Mail server behind this node, host:port; spares after a comma"),
        None,
        |given, text| given.next_hop = parts(text),
    );
    list.text(
        !given.lmtp,
        ("--lmtp", "Does it use LMTP, as Dovecot does? yes or no"),
        Some("no".to_owned()),
        |given, text| given.lmtp = is_yes(text),
    );
    list.text(
        given.recipients.is_none(),
        ("--recipients", "Which recipients exist: probe (ask the next hop), all, or a file"),
        Some("probe".to_owned()),
        |given, text| given.recipients = Some(text.to_owned()),
    );
    certificate(list);
    list.text(
        given.network.is_empty() && given.outbound.is_none(),
        ("--network", "Networks of your servers that send through this node (none: empty)"),
        none(),
        |given, text| given.network = parts(text),
    );
    list.text(
        !given.network.is_empty() && given.outbound.is_none(),
        ("--outbound", "Address and port where they hand their mail over"),
        None,
        |given, text| given.outbound = Some(text.to_owned()),
    );
    list.text(
        given.submission.is_none(),
        (
            "--submission",
            "Address and port where people send after a login, such as \
                          0.0.0.0:587 (nobody: empty)",
        ),
        none(),
        |given, text| given.submission = some(text),
    );
}

fn certificate(list: &mut List<'_>) {
    let given = list.given;
    let none = || Some(String::new());
    let no_certificate = given.certificate.is_none() && given.acme.is_none();
    list.text(
        no_certificate,
        (
            "--acme",
            "Certificate by ACME (Let's Encrypt, whose terms you agree to): your mail \
                    address (none: empty)",
        ),
        none(),
        |given, text| given.acme = some(text),
    );
    list.text(
        no_certificate,
        (
            "--certificate",
            "Or a PEM file with your own certificate (none, signed by itself: empty)",
        ),
        none(),
        |given, text| given.certificate = some(text).map(Into::into),
    );
    list.text(
        given.certificate.is_some() && given.key.is_none(),
        ("--key", "PEM file with its private key"),
        None,
        |given, text| given.key = Some(text.into()),
    );
}

fn array(list: &mut List<'_>) {
    let given = list.given;
    list.text(
        given.token.is_none() && given.database.is_none(),
        ("--token", "What `gauntlet array token` printed on the manager (later: empty)"),
        Some(String::new()),
        |given, text| given.token = some(text),
    );
}

fn parts(text: &str) -> Vec<String> {
    let parts = text.split([',', ' ']).map(str::trim);
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned()).filter(|text| !text.is_empty())
}

fn is_yes(text: &str) -> bool {
    matches!(text.to_ascii_lowercase().as_str(), "yes" | "y")
}

struct List<'g> {
    given: &'g Given,
    all: Vec<Question>,
}

impl List<'_> {
    fn text(
        &mut self,
        is_open: bool,
        (flag, text): (&'static str, &'static str),
        default: Option<String>,
        set: fn(&mut Given, &str),
    ) {
        if is_open {
            self.all.push(Question { flag, text, default, set });
        }
    }
}

/// Asks what is open, one question after the other.
///
/// # Errors
/// The input ends, or an answer is wrong again and again.
pub(super) fn ask(
    given: &mut Given,
    host: &Host,
    input: &mut (impl BufRead + ?Sized),
    output: &mut (impl Write + ?Sized),
) -> anyhow::Result<()> {
    let mut asked: Vec<(Option<Purpose>, &str)> = Vec::new();
    loop {
        let purpose = given.purpose();
        let next = open(given, host).into_iter().find(|q| !asked.contains(&(purpose, q.flag)));
        let Some(question) = next else { return Ok(()) };
        asked.push((purpose, question.flag));
        one(&question, given, host, input, output)?;
    }
}

fn one(
    question: &Question,
    given: &mut Given,
    host: &Host,
    input: &mut (impl BufRead + ?Sized),
    output: &mut (impl Write + ?Sized),
) -> anyhow::Result<()> {
    for _ in 0..WRONG_MAX {
        match question.default.as_deref() {
            None | Some("") => write!(output, "{}: ", question.text)?,
            Some(default) => write!(output, "{} [{default}]: ", question.text)?,
        }
        output.flush()?;
        let line = read_line(input, question.flag)?;
        let answer = match (line.as_str(), &question.default) {
            ("", Some(default)) => default.clone(),
            ("", None) => {
                writeln!(output, "  an answer is needed")?;
                continue;
            }
            _ => line,
        };
        let mut changed = given.clone();
        (question.set)(&mut changed, &answer);
        match wrong((given, &changed), question, &answer, host) {
            None => {
                *given = changed;
                return Ok(());
            }
            Some(problem) => writeln!(output, "  {problem}")?,
        }
    }
    bail!("{}: no answer that fits in {WRONG_MAX} attempts", question.flag)
}

/// What is wrong with an answer: what there was nothing about before it.
fn wrong(
    (before, given): (&Given, &Given),
    question: &Question,
    answer: &str,
    host: &Host,
) -> Option<String> {
    let yes_or_no = matches!(question.flag, "--lmtp" | "--apply-postfix");
    if yes_or_no && !matches!(answer.to_ascii_lowercase().as_str(), "yes" | "no" | "y" | "n") {
        return Some("say yes or no".to_owned());
    }
    let unknown = match question.flag {
        "--for" => given.purpose().is_none(),
        "--mta" => given.mta.is_none(),
        "--held-by" => given.held_by.is_none(),
        _ => false,
    };
    if unknown {
        return Some(format!("{answer:?} is none of them"));
    }
    let recipients = question.flag == "--recipients" && !matches!(answer, "probe" | "all");
    if recipients && !host.here.join(Path::new(answer)).is_file() {
        return Some(format!("{answer:?} is neither probe, all, nor a file"));
    }
    let problems = |given: &Given| {
        let found = given.purpose().map(|purpose| Answers::of(given, purpose, host));
        found.and_then(Result::err).unwrap_or_default()
    };
    let (known, found) = (problems(before), problems(given));
    // What other questions are still to answer is no fault of this one.
    let open =
        |problem: &String| problem.contains("missing") || problem.contains("belong together");
    found.into_iter().find(|problem| !open(problem) && !known.contains(problem))
}

/// A line without its end and blanks around it.
fn read_line(input: &mut (impl BufRead + ?Sized), flag: &str) -> anyhow::Result<String> {
    let mut line = Vec::new();
    let mut limited = std::io::Read::take(input, LINE_BYTES_MAX);
    if limited.read_until(b'\n', &mut line)? == 0 {
        bail!("standard input ended before {flag} was answered");
    }
    Ok(String::from_utf8_lossy(&line).trim().to_owned())
}

/// A last question; an empty line says yes.
///
/// # Errors
/// The input ends.
pub(super) fn confirm(
    text: &str,
    input: &mut (impl BufRead + ?Sized),
    output: &mut (impl Write + ?Sized),
) -> anyhow::Result<bool> {
    write!(output, "{text} [yes]: ")?;
    output.flush()?;
    let line = read_line(input, "the last question")?;
    Ok(line.is_empty() || is_yes(&line))
}

#[cfg(test)]
mod tests {
    use super::super::answers::tests::{given, host};
    use super::*;

    fn talk(flags: &str, lines: &str) -> (anyhow::Result<Given>, String) {
        let mut given = given(flags);
        let mut said = Vec::new();
        let done = ask(&mut given, &host(), &mut lines.as_bytes(), &mut said);
        (done.map(|()| given), String::from_utf8(said).unwrap())
    }

    #[test]
    fn a_person_is_asked_what_flags_left_open() {
        let lines = "front\n\nexample.org example.net\n\n10.0.0.5\nyes\n\n\n\n\n\n";
        let (given, said) = talk("", lines);
        let given = given.unwrap_or_else(|e| panic!("{e}: {said}"));
        let front = Answers::of(&given, Purpose::Front, &host()).unwrap();
        assert_eq!(front.domains, ["example.org", "example.net"]);
        let hop = front.hop.unwrap();
        assert_eq!((hop.hosts, hop.lmtp), (vec!["10.0.0.5:24".to_owned()], true));
        assert!(said.starts_with("What is this node for? trial"), "{said}");
        assert!(said.contains("Full host name of this node [mx.example.org]: "), "{said}");
        let (given, said) = talk("trial", "");
        assert!(given.is_ok() && said.is_empty(), "a trial has nothing to ask");
    }

    #[test]
    fn wrong_answers_are_named_and_asked_again() {
        let lines = "mirror\nmilter\nlocalhost\nmx.example.org\nsendmail\npostfix\nnode\n\
                     0.0.0.0/0\n10.0.0.0/24\n\n";
        let (given, said) = talk("", lines);
        let given = given.unwrap_or_else(|e| panic!("{e}: {said}"));
        for problem in [
            "\"mirror\" is none of them",
            "no full name",
            "\"sendmail\" is none",
            "holds strangers",
        ] {
            assert!(said.contains(problem), "{problem}: {said}");
        }
        assert_eq!(
            (given.held_by, given.network),
            (Some(Keeper::Node), vec!["10.0.0.0/24".into()])
        );
        let (given, _) = talk("front --name mx.example.org", "\n\n\n\n\n\n");
        assert!(given.unwrap_err().to_string().contains("--domain"));
        let (given, _) = talk("front", "mx.example.org\n");
        let error = given.unwrap_err().to_string();
        assert_eq!(error, "standard input ended before --domain was answered");
    }

    #[test]
    fn what_is_required_is_known_without_asking() {
        let required = |flags: &str, host: &Host| {
            let open = open(&given(flags), host).into_iter().filter(Question::is_required);
            open.map(|question| question.flag).collect::<Vec<_>>()
        };
        assert_eq!(required("front", &host()), ["--domain", "--next-hop"]);
        let nameless = Host { name: None, ..host() };
        assert_eq!(required("milter", &nameless), ["--name"]);
        assert!(required("trial", &nameless).is_empty());
    }
}
