//! AUTH: PLAIN (RFC 4616), LOGIN, SCRAM-SHA-256 (RFC 7677), over TLS only.

use super::{Event, Pending, Phase, Session};
use crate::reply::Reply;
use crate::scram::{ClientFirst, Credentials, Exchange};
use crate::text::breaks_line;

/// State of a SCRAM exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scram {
    /// Waiting for the client-first-message.
    First,
    /// Waiting for the client-final-message.
    Proof { user: String, exchange: Exchange },
    /// The proof was right; waiting for the client's empty response.
    End { user: String },
}

impl Session {
    pub(super) fn auth(
        &mut self,
        mechanism: &str,
        initial: Option<String>,
        out: &mut Vec<u8>,
    ) -> Option<Event> {
        let refusal = match () {
            () if !self.config.features.auth => Some((502, (5, 5, 1), "AUTH is not offered")),
            () if !self.tls => Some((538, (5, 7, 11), "say STARTTLS first")),
            () if self.user.is_some() => Some((503, (5, 5, 1), "already authenticated")),
            () if self.transaction.is_some() => Some((503, (5, 5, 1), "not within a message")),
            () if !self.extended => Some((503, (5, 5, 1), "say EHLO first")),
            () => None,
        };
        if let Some((code, enhanced, text)) = refusal {
            return self.send_error(&Reply::new(code, enhanced, text), out);
        }
        let challenge = match mechanism {
            "PLAIN" => {
                self.phase = Phase::AuthPlain;
                ""
            }
            "LOGIN" => {
                self.phase = Phase::AuthUser;
                "VXNlcm5hbWU6"
            }
            "SCRAM-SHA-256" if self.config.features.scram => {
                self.phase = Phase::AuthScram(Box::new(Scram::First));
                ""
            }
            _ => return self.send_error(&Reply::new(504, (5, 5, 4), "mechanism not offered"), out),
        };
        match initial {
            Some(response) => self.auth_line(response.as_bytes(), false, out),
            None => self.send_reply(&Reply::plain(334, challenge), out),
        }
    }

    /// A base64 line of an AUTH exchange.
    pub(super) fn auth_line(
        &mut self,
        line: &[u8],
        _more: bool,
        out: &mut Vec<u8>,
    ) -> Option<Event> {
        let phase = std::mem::replace(&mut self.phase, Phase::Command);
        if line == b"*" {
            return self.send_error(&Reply::new(501, (5, 7, 0), "authentication cancelled"), out);
        }
        let decoded = if line == b"=" { Some(Vec::new()) } else { decode_base64(line) };
        let text = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
        let Some(text) = text else {
            return self.send_error(&Reply::new(501, (5, 5, 2), "cannot decode the response"), out);
        };
        let (user, password) = match phase {
            Phase::AuthScram(scram) => return self.scram_line(*scram, &text, out),
            Phase::AuthUser => {
                self.phase = Phase::AuthPassword(text);
                return self.send_reply(&Reply::plain(334, "UGFzc3dvcmQ6"), out);
            }
            Phase::AuthPassword(user) => (user, text),
            // RFC 4616: authorisation identity NUL login NUL password.
            _ => match text.split('\0').collect::<Vec<_>>().as_slice() {
                ["", user, password] => ((*user).to_owned(), (*password).to_owned()),
                [identity, user, password] if identity == user => {
                    ((*user).to_owned(), (*password).to_owned())
                }
                _ => return self.send_error(&Reply::new(501, (5, 5, 2), "bad response"), out),
            },
        };
        if user.contains(breaks_line) {
            return self.send_error(&Reply::new(501, (5, 5, 2), "bad response"), out);
        }
        self.pending = Pending::Auth(user.clone());
        Some(Event::Auth { user, password })
    }

    /// A decoded message of a SCRAM exchange.
    fn scram_line(&mut self, scram: Scram, text: &str, out: &mut Vec<u8>) -> Option<Event> {
        match scram {
            Scram::First => match ClientFirst::read(text).filter(|f| !f.user.contains(breaks_line))
            {
                Some(first) => {
                    let user = first.user.clone();
                    self.pending = Pending::Credentials(first);
                    Some(Event::Credentials(user))
                }
                None => self.send_error(&Reply::new(501, (5, 5, 2), "bad response"), out),
            },
            Scram::Proof { user, exchange } => match exchange.verify(text) {
                Some(ours) => {
                    self.phase = Phase::AuthScram(Box::new(Scram::End { user }));
                    let ours = base64_simd::STANDARD.encode_to_string(ours);
                    self.send_reply(&Reply::plain(334, ours), out)
                }
                None => {
                    let refused = Reply::new(535, (5, 7, 8), "authentication failed");
                    // Closing after too many errors takes precedence over the failed login.
                    self.send_error(&refused, out).or(Some(Event::LoginFailed(user)))
                }
            },
            Scram::End { user } => {
                self.user = Some(user.clone());
                Reply::new(235, (2, 7, 0), "authenticated").write(out);
                Some(Event::LoggedIn(user))
            }
        }
    }

    /// Answers [`Event::Credentials`] with the stored credentials of the login, and a nonce of
    /// visible characters without commas. For an unknown login, credentials that no password
    /// matches.
    pub fn challenge(&mut self, credentials: Credentials, nonce: &str, out: &mut Vec<u8>) {
        if let Pending::Credentials(first) = std::mem::replace(&mut self.pending, Pending::Nothing)
        {
            let (exchange, said) = Exchange::challenge(&first, credentials, nonce);
            self.phase = Phase::AuthScram(Box::new(Scram::Proof { user: first.user, exchange }));
            Reply::plain(334, base64_simd::STANDARD.encode_to_string(said)).write(out);
        }
    }

    /// Answers [`Event::Auth`]: whether the password is right.
    pub fn answer_auth(&mut self, accepted: bool, out: &mut Vec<u8>) -> Option<Event> {
        match (std::mem::replace(&mut self.pending, Pending::Nothing), accepted) {
            (Pending::Auth(user), true) => {
                self.user = Some(user);
                self.send_reply(&Reply::new(235, (2, 7, 0), "authenticated"), out)
            }
            _ => self.send_error(&Reply::new(535, (5, 7, 8), "authentication failed"), out),
        }
    }
}

fn decode_base64(text: &[u8]) -> Option<Vec<u8>> {
    base64_simd::STANDARD.decode_to_vec(text).ok()
}
