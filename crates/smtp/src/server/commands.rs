//! Commands: their order, and the replies that need no decision of the host.

use super::{CloseReason, Event, Pending, Session, xclient};
use crate::command::{Command, CommandError, MailCommand, RcptCommand};
use crate::reply::Reply;

impl Session {
    pub(super) fn command(&mut self, line: &[u8], more: bool, out: &mut Vec<u8>) -> Option<Event> {
        self.commands = self.commands.saturating_add(1);
        if self.commands > self.config.limits.commands_max {
            let reply = Reply::new(421, (4, 7, 0), "too many commands");
            return Some(self.close(&reply, CloseReason::TooManyCommands, out));
        }
        let command = match Command::parse(line) {
            Ok(command) => command,
            Err(CommandError::Unknown) if is_http(line) => {
                let reply = Reply::new(554, (5, 7, 0), "this is SMTP");
                return Some(self.close(&reply, CloseReason::NotSmtp, out));
            }
            // Its bytes follow, nobody knows how many: they are no commands.
            Err(error) if is_bdat(line) => {
                return Some(self.close(&error.reply(), CloseReason::RefusedChunk, out));
            }
            Err(error) => return self.send_error(&error.reply(), out),
        };
        if self.refuses_messages && command != Command::Quit {
            let reply = Reply::new(421, (4, 7, 0), "enough messages in one session, connect again");
            return Some(self.close(&reply, CloseReason::TooManyMessages, out));
        }
        let must_wait = matches!(
            command,
            Command::Helo(_)
                | Command::Ehlo(_)
                | Command::Lhlo(_)
                | Command::Data
                | Command::StartTls
                | Command::Auth { .. }
                | Command::Xclient(_)
        );
        if must_wait && more {
            let reply = Reply::new(554, (5, 5, 0), "improper use of pipelining");
            return Some(self.close(&reply, CloseReason::Unsynchronised, out));
        }
        match command {
            Command::Helo(name) => self.hello(name, false, false, out),
            Command::Ehlo(name) => self.hello(name, true, false, out),
            Command::Lhlo(name) => self.hello(name, true, true, out),
            Command::Mail(mail) => self.mail(mail, out),
            Command::Rcpt(rcpt) => self.rcpt(rcpt, out),
            Command::Data => self.data(out),
            Command::Bdat { size, last } => self.bdat(size, last, out),
            Command::Rset => {
                self.transaction = None;
                self.send_reply(&Reply::new(250, (2, 0, 0), "Ok"), out)
            }
            Command::Noop => self.send_reply(&Reply::new(250, (2, 0, 0), "Ok"), out),
            Command::Quit => {
                Some(self.close(&Reply::new(221, (2, 0, 0), "Bye"), CloseReason::Quit, out))
            }
            Command::Vrfy => {
                self.send_reply(&Reply::new(252, (2, 5, 2), "cannot verify; send the mail"), out)
            }
            Command::Expn => {
                self.send_error(&Reply::new(502, (5, 5, 1), "lists are not expanded here"), out)
            }
            Command::Help => {
                let text = "HELO EHLO MAIL RCPT DATA BDAT RSET NOOP QUIT VRFY HELP";
                self.send_reply(&Reply::new(214, (2, 0, 0), text), out)
            }
            Command::StartTls => self.starttls(out),
            Command::Auth { mechanism, initial } => self.auth(&mechanism, initial, out),
            Command::Xclient(arguments) => self.xclient(&arguments, out),
        }
    }

    fn hello(
        &mut self,
        name: String,
        extended: bool,
        lmtp: bool,
        out: &mut Vec<u8>,
    ) -> Option<Event> {
        if lmtp != self.config.features.lmtp {
            let wanted = if lmtp { "this is SMTP: EHLO" } else { "this is LMTP: LHLO" };
            return self.send_error(&Reply::new(500, (5, 5, 1), wanted), out);
        }
        self.transaction = None;
        self.helo = Some(name);
        self.extended = extended;
        if !extended {
            return self.send_reply(&Reply::plain(250, self.config.host.clone()), out);
        }
        let features = self.config.features;
        let mut text = format!(
            "{}\nPIPELINING\nSIZE {}\n8BITMIME\nSMTPUTF8\nENHANCEDSTATUSCODES\nCHUNKING\nDSN",
            self.config.host, self.config.limits.message_bytes_max
        );
        if features.starttls && !self.tls {
            text.push_str("\nSTARTTLS");
        }
        if features.auth && self.tls {
            let scram = if features.scram { "SCRAM-SHA-256 " } else { "" };
            text.push_str(&format!("\nAUTH {scram}PLAIN LOGIN"));
        }
        if self.trusts_xclient {
            text.push('\n');
            text.push_str(xclient::OFFER);
        }
        self.send_reply(&Reply::plain(250, text), out)
    }

    fn mail(&mut self, mail: MailCommand, out: &mut Vec<u8>) -> Option<Event> {
        let limits = self.config.limits;
        if self.helo.is_none() {
            return self.send_error(&Reply::new(503, (5, 5, 1), "say EHLO first"), out);
        }
        if self.config.features.auth_required && self.user.is_none() {
            return self.send_error(&Reply::new(530, (5, 7, 0), "authentication required"), out);
        }
        if self.transaction.is_some() {
            return self.send_error(&Reply::new(503, (5, 5, 1), "nested MAIL"), out);
        }
        if mail.size.is_some_and(|size| size > limits.message_bytes_max) {
            let text = format!("message larger than {} bytes", limits.message_bytes_max);
            return self.send_error(&Reply::new(552, (5, 3, 4), text), out);
        }
        self.pending = Pending::Mail(mail.clone());
        Some(Event::Mail(mail))
    }

    fn rcpt(&mut self, rcpt: RcptCommand, out: &mut Vec<u8>) -> Option<Event> {
        let Some(transaction) = &self.transaction else {
            return self.send_error(&Reply::new(503, (5, 5, 1), "need MAIL first"), out);
        };
        if !rcpt.to.is_ascii() && !transaction.mail.utf8 {
            return self.send_error(&CommandError::BadRecipient.reply(), out);
        }
        if transaction.recipients.len() >= self.config.limits.recipients_max {
            self.excuse();
            return self.send_reply(&Reply::new(452, (4, 5, 3), "too many recipients"), out);
        }
        self.pending = Pending::Rcpt(rcpt.clone());
        Some(Event::Rcpt(rcpt))
    }

    fn starttls(&mut self, out: &mut Vec<u8>) -> Option<Event> {
        if !self.config.features.starttls {
            return self.send_error(&Reply::new(502, (5, 5, 1), "TLS is not offered"), out);
        }
        if self.tls {
            return self.send_error(&Reply::new(503, (5, 5, 1), "TLS is already on"), out);
        }
        Reply::new(220, (2, 0, 0), "go ahead").write(out);
        self.pending = Pending::Tls;
        Some(Event::StartTls)
    }
}

fn is_bdat(line: &[u8]) -> bool {
    line.get(..5).is_some_and(|verb| verb.eq_ignore_ascii_case(b"BDAT "))
}

/// HTTP from a browser (a cross-protocol attack), not a mail client.
fn is_http(line: &[u8]) -> bool {
    const PREFIXES: [&[u8]; 8] =
        [b"GET ", b"POST ", b"PUT ", b"HEAD ", b"CONNECT ", b"OPTIONS ", b"Host:", b"User-Agent:"];
    PREFIXES.iter().any(|prefix| line.starts_with(prefix))
}
