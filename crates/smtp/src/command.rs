//! Commands and their parameters (RFC 5321 section 4.1.1 and the extensions named at each).

use crate::address;
use crate::reply::Reply;
use crate::text::breaks_line;

/// Longest ENVID or ORCPT value, in bytes (RFC 3461 sections 4.2 and 4.4 allow 100 and 500).
pub const XTEXT_BYTES_MAX: usize = 500;

/// How much of the message a DSN returns (RFC 3461 section 4.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ret {
    /// `FULL`: the message with its body.
    Full,
    /// `HDRS`: the header only.
    Headers,
}

/// When the sender wants a DSN (RFC 3461 section 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notify {
    /// `SUCCESS`: a report when it was delivered.
    pub success: bool,
    /// On failure. False for all three is `NEVER`.
    pub failure: bool,
    /// `DELAY`: a report when delivery takes long.
    pub delay: bool,
}

impl Default for Notify {
    fn default() -> Self {
        Notify { success: false, failure: true, delay: true }
    }
}

/// MAIL FROM with its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MailCommand {
    /// Reverse path without brackets, in [canonical form](address::canonical); empty is the null
    /// sender.
    pub from: String,
    /// Bytes the client announced (RFC 1870).
    pub size: Option<u64>,
    /// `BODY=8BITMIME` was given (RFC 6152).
    pub eight_bit: bool,
    /// `SMTPUTF8` was given (RFC 6531).
    pub utf8: bool,
    /// `RET=`, if given (RFC 3461).
    pub ret: Option<Ret>,
    /// `ENVID=`, if given, still in xtext.
    pub envid: Option<String>,
}

/// RCPT TO with its parameters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RcptCommand {
    /// Forward path without brackets and source route, in [canonical form](address::canonical).
    pub to: String,
    /// `NOTIFY=` (RFC 3461), if the client gave it.
    pub notify: Option<Notify>,
    /// `ORCPT=`, if given, still in xtext.
    pub orcpt: Option<String>,
    /// The path had a source route (`<@a,@b:user@c>`), which was dropped.
    pub routed: bool,
}

impl RcptCommand {
    /// Whether this one and another ask for the same: one mailbox (the domain in any case), and the
    /// same reports.
    pub fn is_same(&self, other: &RcptCommand) -> bool {
        let of = |to: &str| to.rfind('@').unwrap_or(to.len());
        let (mine, its) = (self.to.split_at(of(&self.to)), other.to.split_at(of(&other.to)));
        mine.0 == its.0
            && mine.1.eq_ignore_ascii_case(its.1)
            && (&self.notify, &self.orcpt) == (&other.notify, &other.orcpt)
    }
}

/// A command of the client, with parsed arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// `HELO name` (RFC 5321): no extensions.
    Helo(String),
    /// `EHLO name`: the client asks for extensions.
    Ehlo(String),
    /// `LHLO name` (RFC 2033).
    Lhlo(String),
    /// `MAIL FROM:<path>` with its parameters.
    Mail(MailCommand),
    /// `RCPT TO:<path>` with its parameters.
    Rcpt(RcptCommand),
    /// `DATA`: the message follows, with a dot at its end.
    Data,
    /// `BDAT size [LAST]` (RFC 3030).
    Bdat {
        /// Length of the chunk in bytes.
        size: u64,
        /// The chunk is the message's last.
        last: bool,
    },
    /// `RSET`: drops the transaction, keeps the session.
    Rset,
    /// `NOOP`, with or without an argument.
    Noop,
    /// `QUIT`: a reply, then the end.
    Quit,
    /// `VRFY`, whose answer (252) reveals nothing.
    Vrfy,
    /// `EXPN`, which is not offered (502).
    Expn,
    /// `HELP`, with or without an argument.
    Help,
    /// `STARTTLS` (RFC 3207), without an argument.
    StartTls,
    /// `AUTH mechanism [initial response]` (RFC 4954).
    Auth {
        /// Mechanism in upper case.
        mechanism: String,
        /// Initial response in base64.
        initial: Option<String>,
    },
    /// `XCLIENT attribute=value ...`, from trusted relays.
    Xclient(String),
}

/// Why a line is not a valid command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The verb is unknown.
    #[error("command not recognised")]
    Unknown,
    /// The verb is known, its argument is not well-formed.
    #[error("syntax: {0}")]
    Syntax(&'static str),
    /// MAIL FROM's path is not well-formed.
    #[error("bad sender address syntax")]
    BadSender,
    /// RCPT TO's path is not well-formed.
    #[error("bad recipient address syntax")]
    BadRecipient,
    /// A parameter of MAIL or RCPT is unknown.
    #[error("unknown parameter, or one that was not offered")]
    UnknownParameter,
    /// A parameter of MAIL or RCPT has a bad value or is given twice.
    #[error("bad parameter value")]
    BadParameter,
    /// The line holds NUL or another control character, a line separator of Unicode, or is not
    /// UTF-8.
    #[error("control characters or bytes that are not UTF-8")]
    BadCharacters,
}

impl CommandError {
    /// The reply for this error.
    pub fn reply(self) -> Reply {
        let (code, enhanced) = match self {
            CommandError::Unknown => (500, (5, 5, 2)),
            CommandError::Syntax(_) => (501, (5, 5, 4)),
            CommandError::BadSender => (501, (5, 1, 7)),
            CommandError::BadRecipient => (501, (5, 1, 3)),
            CommandError::UnknownParameter => (555, (5, 5, 4)),
            CommandError::BadParameter => (501, (5, 5, 4)),
            CommandError::BadCharacters => (500, (5, 5, 2)),
        };
        Reply::new(code, enhanced, self.to_string())
    }
}

impl Command {
    /// Parses a line without its CR LF.
    pub fn parse(line: &[u8]) -> Result<Command, CommandError> {
        if line.iter().any(|&b| b < 32 && b != b'\t' || b == 127) {
            return Err(CommandError::BadCharacters);
        }
        let line = std::str::from_utf8(line).map_err(|_| CommandError::BadCharacters)?;
        if !line.is_ascii() && line.contains(|c| c != '\t' && breaks_line(c)) {
            return Err(CommandError::BadCharacters);
        }
        let line = line.trim_end_matches([' ', '\t']);
        let (verb, rest) = match line.find([' ', '\t']) {
            Some(end) => (line.get(..end).unwrap_or_default(), line.get(end..).unwrap_or_default()),
            None => (line, ""),
        };
        let rest = rest.trim_start_matches([' ', '\t']);
        match verb.to_ascii_uppercase().as_str() {
            "HELO" => Ok(Command::Helo(host_name(rest)?)),
            "EHLO" => Ok(Command::Ehlo(host_name(rest)?)),
            "LHLO" => Ok(Command::Lhlo(host_name(rest)?)),
            "MAIL" => mail(rest).map(Command::Mail),
            "RCPT" => rcpt(rest).map(Command::Rcpt),
            "DATA" => bare(rest, Command::Data),
            "BDAT" => bdat(rest),
            "RSET" => bare(rest, Command::Rset),
            "NOOP" => Ok(Command::Noop),
            "QUIT" => bare(rest, Command::Quit),
            "VRFY" => Ok(Command::Vrfy),
            "EXPN" => Ok(Command::Expn),
            "HELP" => Ok(Command::Help),
            "STARTTLS" => bare(rest, Command::StartTls),
            "AUTH" => auth(rest),
            "XCLIENT" if rest.is_empty() => Err(CommandError::Syntax("XCLIENT attribute=value")),
            "XCLIENT" => Ok(Command::Xclient(rest.to_owned())),
            _ => Err(CommandError::Unknown),
        }
    }
}

fn bare(rest: &str, command: Command) -> Result<Command, CommandError> {
    if rest.is_empty() {
        Ok(command)
    } else {
        Err(CommandError::Syntax("the command takes no argument"))
    }
}

/// The host name of HELO: anything printable without spaces. Many clients send names that are not
/// domains; rejecting those is up to the policy.
fn host_name(rest: &str) -> Result<String, CommandError> {
    if rest.is_empty() {
        return Err(CommandError::Syntax("a host name is missing"));
    }
    if rest.len() > address::DOMAIN_BYTES_MAX || rest.contains([' ', '\t', '<', '>', '(', ')']) {
        return Err(CommandError::Syntax("bad host name"));
    }
    Ok(rest.to_owned())
}

/// Splits an argument of MAIL or RCPT into mailbox and parameters; none if the keyword (`FROM`,
/// `TO`) or the path is malformed.
fn path_argument<'a>(rest: &'a str, keyword: &str) -> Option<(&'a str, &'a str)> {
    let (head, tail) = rest.split_once(':')?;
    if !head.trim_end().eq_ignore_ascii_case(keyword) {
        return None;
    }
    let (path, params) = address::path(tail.trim_start().as_bytes())?;
    if !(params.is_empty() || params.starts_with(b" ") || params.starts_with(b"\t")) {
        return None;
    }
    Some((std::str::from_utf8(path).ok()?, std::str::from_utf8(params).ok()?))
}

/// `KEY=value` and `KEY` parameters, in order, keys in upper case.
fn parameters(text: &str) -> impl Iterator<Item = (String, Option<&str>)> {
    text.split([' ', '\t']).filter(|p| !p.is_empty()).map(|p| match p.split_once('=') {
        Some((key, value)) => (key.to_ascii_uppercase(), Some(value)),
        None => (p.to_ascii_uppercase(), None),
    })
}

/// Sets a parameter; an error if it was set before or has no valid value.
fn once<T>(slot: &mut Option<T>, value: Option<T>) -> Result<(), CommandError> {
    match (slot.is_some(), value) {
        (false, Some(value)) => {
            *slot = Some(value);
            Ok(())
        }
        _ => Err(CommandError::BadParameter),
    }
}

fn mail(rest: &str) -> Result<MailCommand, CommandError> {
    let (from, params) = path_argument(rest, "FROM").ok_or(CommandError::BadSender)?;
    if !from.is_empty() && !address::is_mailbox(from.as_bytes()) {
        return Err(CommandError::BadSender);
    }
    let mut command =
        MailCommand { from: address::canonical(from).into_owned(), ..MailCommand::default() };
    let mut body = None;
    for (key, value) in parameters(params) {
        match (key.as_str(), value) {
            ("SIZE", Some(v)) => once(&mut command.size, number(v))?,
            ("BODY", Some(v)) => once(&mut body, eight_bit(v))?,
            ("SMTPUTF8", None) => command.utf8 = true,
            ("RET", Some(v)) => once(&mut command.ret, ret(v))?,
            ("ENVID", Some(v)) => once(&mut command.envid, xtext(v))?,
            // RFC 4954 section 5: a relay that does not trust the client takes it as `<>`.
            ("AUTH", Some(_)) => {}
            _ => return Err(CommandError::UnknownParameter),
        }
    }
    command.eight_bit = body.unwrap_or(false);
    if !from.is_ascii() && !command.utf8 {
        return Err(CommandError::BadSender);
    }
    Ok(command)
}

fn rcpt(rest: &str) -> Result<RcptCommand, CommandError> {
    let (to, params) = path_argument(rest, "TO").ok_or(CommandError::BadRecipient)?;
    // RFC 5321 section 4.1.1.3: `postmaster` without a domain is always a recipient.
    if !to.eq_ignore_ascii_case("postmaster") && !address::is_mailbox(to.as_bytes()) {
        return Err(CommandError::BadRecipient);
    }
    let routed = rest.split_once(':').is_some_and(|(_, path)| path.trim_start().starts_with("<@"));
    let mut command =
        RcptCommand { to: address::canonical(to).into_owned(), routed, ..RcptCommand::default() };
    for (key, value) in parameters(params) {
        match (key.as_str(), value) {
            ("NOTIFY", Some(v)) => once(&mut command.notify, notify(v))?,
            ("ORCPT", Some(v)) => once(&mut command.orcpt, xtext(v).filter(|x| x.contains(';')))?,
            _ => return Err(CommandError::UnknownParameter),
        }
    }
    Ok(command)
}

fn bdat(rest: &str) -> Result<Command, CommandError> {
    let mut words = rest.split([' ', '\t']).filter(|w| !w.is_empty());
    let size = words.next().and_then(number).ok_or(CommandError::Syntax("BDAT size [LAST]"))?;
    let last = match words.next() {
        None => false,
        Some(word) if word.eq_ignore_ascii_case("LAST") => true,
        Some(_) => return Err(CommandError::Syntax("BDAT size [LAST]")),
    };
    match words.next() {
        None => Ok(Command::Bdat { size, last }),
        Some(_) => Err(CommandError::Syntax("BDAT size [LAST]")),
    }
}

fn auth(rest: &str) -> Result<Command, CommandError> {
    let mut words = rest.split([' ', '\t']).filter(|w| !w.is_empty());
    let mechanism =
        words.next().ok_or(CommandError::Syntax("AUTH mechanism"))?.to_ascii_uppercase();
    let initial = words.next().map(str::to_owned);
    match words.next() {
        None => Ok(Command::Auth { mechanism, initial }),
        Some(_) => Err(CommandError::Syntax("AUTH mechanism [initial-response]")),
    }
}

/// Digits; none if they are more than 64 bits hold.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn eight_bit(value: &str) -> Option<bool> {
    match value.to_ascii_uppercase().as_str() {
        "7BIT" => Some(false),
        "8BITMIME" => Some(true),
        _ => None,
    }
}

fn ret(value: &str) -> Option<Ret> {
    match value.to_ascii_uppercase().as_str() {
        "FULL" => Some(Ret::Full),
        "HDRS" => Some(Ret::Headers),
        _ => None,
    }
}

/// `NEVER`, or a list of `SUCCESS`, `FAILURE`, `DELAY`.
fn notify(value: &str) -> Option<Notify> {
    let mut wanted = Notify { success: false, failure: false, delay: false };
    if value.eq_ignore_ascii_case("NEVER") {
        return Some(wanted);
    }
    for word in value.split(',') {
        match word.to_ascii_uppercase().as_str() {
            "SUCCESS" => wanted.success = true,
            "FAILURE" => wanted.failure = true,
            "DELAY" => wanted.delay = true,
            _ => return None,
        }
    }
    Some(wanted)
}

/// Well-formed xtext (RFC 3461 section 4): printable ASCII, `+` only before two upper-case hex
/// digits.
fn xtext(value: &str) -> Option<String> {
    let bytes = value.as_bytes();
    let hex = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_digit() || (b'A'..=b'F').contains(b));
    let well_formed = (1..=XTEXT_BYTES_MAX).contains(&bytes.len())
        && bytes.iter().enumerate().all(|(i, &b)| match b {
            b'+' => hex(bytes.get(i + 1)) && hex(bytes.get(i + 2)),
            b'=' => false,
            _ => (33..=126).contains(&b),
        });
    well_formed.then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, CommandError> {
        Command::parse(line.as_bytes())
    }

    #[test]
    fn mail_with_every_parameter() {
        let line = "mail from:<a@b> SIZE=1000 BODY=8BITMIME SMTPUTF8 RET=HDRS ENVID=QQ+3D1 AUTH=<>";
        let expected = MailCommand {
            from: "a@b".into(),
            size: Some(1000),
            eight_bit: true,
            utf8: true,
            ret: Some(Ret::Headers),
            envid: Some("QQ+3D1".into()),
        };
        assert_eq!(parse(line), Ok(Command::Mail(expected)));
    }

    #[test]
    fn paths_are_in_canonical_form() {
        for path in [r#"ann@b"#, r#""ann"@b"#, r#""a\nn"@b"#, r#"@r.example:"a\nn"@b"#] {
            let Ok(Command::Rcpt(rcpt)) = parse(&format!("RCPT TO:<{path}>")) else {
                panic!("{path}");
            };
            assert_eq!(rcpt.to, "ann@b", "{path}");
            let Ok(Command::Mail(mail)) = parse(&format!("MAIL FROM:<{path}> SIZE=1")) else {
                panic!("{path}");
            };
            assert_eq!(mail.from, "ann@b", "{path}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, error) in [
            ("MAIL FROM:a@b", CommandError::BadSender),
            ("MAIL FROM:<a@b>SIZE=1", CommandError::BadSender),
            ("MAIL FROM:<ä@b>", CommandError::BadSender),
            ("MAIL FROM:<a@b> SIZE=x", CommandError::BadParameter),
            ("MAIL FROM:<a@b> SIZE=1 SIZE=2", CommandError::BadParameter),
            ("MAIL FROM:<a@b> SIZE=99999999999999999999", CommandError::BadParameter),
            ("MAIL FROM:<a@b> FOO", CommandError::UnknownParameter),
            ("MAIL FROM:<a@b> ENVID=a+3", CommandError::BadParameter),
            ("RCPT TO:<>", CommandError::BadRecipient),
            ("RCPT TO:<a>", CommandError::BadRecipient),
            ("RCPT TO:<a@b> NOTIFY=NEVER,DELAY", CommandError::BadParameter),
            ("RCPT TO:<a@b> ORCPT=a@b", CommandError::BadParameter),
            ("EHLO", CommandError::Syntax("a host name is missing")),
            ("DATA now", CommandError::Syntax("the command takes no argument")),
            ("BDAT -1", CommandError::Syntax("BDAT size [LAST]")),
            ("BDAT 1 LAST x", CommandError::Syntax("BDAT size [LAST]")),
            ("GET / HTTP/1.1", CommandError::Unknown),
            ("", CommandError::Unknown),
            ("NOOP \u{1}", CommandError::BadCharacters),
        ] {
            assert_eq!(parse(line), Err(error), "{line:?}");
        }
        assert_eq!(Command::parse(b"NOOP \xff"), Err(CommandError::BadCharacters));
        for separator in ['\u{85}', '\u{9b}', '\u{2028}', '\u{2029}'] {
            let line = format!("EHLO a{separator}\tb");
            assert_eq!(parse(&line), Err(CommandError::BadCharacters), "{line:?}");
        }
    }

    #[test]
    fn lenient_where_the_world_is() {
        assert!(parse("MAIL FROM: <a@b>").is_ok());
        assert!(parse("RCPT TO:<Postmaster>").is_ok());
        assert!(parse("quit  ").is_ok());
        assert_eq!(parse("BDAT 12 last"), Ok(Command::Bdat { size: 12, last: true }));
    }
}
