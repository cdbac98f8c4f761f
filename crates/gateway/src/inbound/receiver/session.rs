//! One SMTP session: moves bytes between a socket and the state machine, answers its questions,
//! keeps the time.

mod body;
mod checks;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant as StdInstant};

use gauntlet_mail::TlsSession;
use gauntlet_smtp::{CloseReason, Event, Reply, Session};
use gauntlet_store::User;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;

use super::overflow::Overflow;
use super::pace::Pace;
use super::{Client, Receiver};
use crate::inbound::admission::Admitted;
use crate::inbound::draining::Phase;
use crate::memory::MemoryShare;
use crate::outbound::queue::drain::Drain;
use crate::text_log::RECEIVER;
use crate::wire::{Wire, read_with};

/// A client that does not take our replies is given up after this.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a client that was refused for good may go on before the connection is closed.
const LINGER_MAX: Duration = Duration::from_secs(3);
/// Bytes that are read meanwhile at most.
const LINGER_BYTES_MAX: usize = 64 << 20;
/// A handshake that takes longer is given up.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// Runs a session to its end.
pub(super) async fn run(
    receiver: Arc<Receiver>,
    client: Client,
    stream: TcpStream,
    admitted: Admitted,
) {
    receiver.metrics.sessions.add(1);
    let _latency_is_all_that_is_lost = stream.set_nodelay(true);
    let address = client.address;
    let metrics = receiver.metrics.clone();
    let conversation = Conversation::new(receiver, client, stream, admitted);
    match conversation.run().await {
        Ok(reason) => tracing::debug!(target: RECEIVER, client = %address, reason, "session ended"),
        Err(error) => {
            tracing::debug!(target: RECEIVER, client = %address, %error, "session aborted");
        }
    }
    metrics.sessions.add(-1);
}

/// The message being received.
#[derive(Debug)]
struct Incoming {
    id: u64,
    began: StdInstant,
    received_ms: i64,
    pace: Pace,
    /// Length of our trace field, which its buffer begins with.
    trace_bytes: usize,
    /// Its beginning, if that is on disk.
    overflow: Option<Box<Overflow>>,
}

struct Conversation {
    receiver: Arc<Receiver>,
    client: Client,
    wire: Wire,
    session: Session,
    /// Replies to be sent.
    out: Vec<u8>,
    /// Input behind an event, and how much of it is used.
    pending: Vec<u8>,
    used: usize,
    memory: MemoryShare,
    admitted: Admitted,
    /// Whether the node takes mail.
    phase: watch::Receiver<Phase>,
    incoming: Option<Incoming>,
    messages: usize,
    /// When a chunk began that belongs to no message.
    skipping_since: Option<Instant>,
    tls: Option<TlsSession>,
    /// The user of AUTH; none before it succeeds.
    login: Option<Arc<User>>,
    /// Who is about to prove a login.
    candidate: Option<Arc<User>>,
}

impl Conversation {
    fn new(receiver: Arc<Receiver>, client: Client, stream: TcpStream, admitted: Admitted) -> Self {
        let config = Arc::new(receiver.session_config(&client));
        let memory = receiver.memory.share_of(receiver.holders_of(client.address));
        let mut session = Session::new(config, false);
        if client.may_xclient {
            session.trust_xclient();
        }
        let phase = receiver.phase.clone();
        Conversation {
            receiver,
            client,
            wire: Box::new(stream),
            session,
            out: Vec::new(),
            pending: Vec::new(),
            used: 0,
            memory,
            admitted,
            phase,
            incoming: None,
            messages: 0,
            skipping_since: None,
            tls: None,
            login: None,
            candidate: None,
        }
    }

    async fn run(mut self) -> io::Result<&'static str> {
        if self.client.tls.as_ref().is_some_and(|tls| tls.implicit) {
            // Before anything is said: in the clear, its client could not read it.
            Box::pin(self.start_tls()).await?;
            self.session.tls_started();
        }
        if self.should_end() {
            self.receiver.metrics.connections_refused.add_one();
            return self.end().await;
        }
        if self.tls.is_none() && self.is_early_talker().await? {
            Reply::new(554, (5, 7, 0), "talked before its turn").write(&mut self.out);
            self.flush().await?;
            return Ok("early talker");
        }
        self.session.greet(&mut self.out);
        loop {
            let event = match self.next_event().await? {
                Some(event) => event,
                None => return Ok("closed by the client"),
            };
            let mut event = Some(event);
            while let Some(now) = event.take() {
                match now {
                    Event::More => {}
                    Event::Close(reason) => {
                        if matches!(reason, CloseReason::Smuggling(_)) {
                            self.receiver.metrics.smuggling.add_one();
                        }
                        self.flush().await?;
                        if !matches!(reason, CloseReason::Quit) {
                            Box::pin(self.linger()).await;
                        }
                        return Ok("closed");
                    }
                    other => event = self.handle_event(other).await?,
                }
            }
            if self.should_end() {
                return self.end().await;
            }
        }
    }

    /// Ends the session as RFC 5321 section 3.8 allows: with 421, whatever the client said last.
    async fn end(&mut self) -> io::Result<&'static str> {
        let why = self.phase.borrow().text();
        Reply::new(421, (4, 3, 2), why).write(&mut self.out);
        self.flush().await?;
        if self.unread() > 0 {
            Box::pin(self.linger()).await;
        }
        Ok("node drains or stops")
    }

    /// Bytes that the client said and that are not looked at yet.
    fn unread(&self) -> usize {
        self.pending.len().saturating_sub(self.used)
    }

    /// Makes the connection a TLS one.
    async fn start_tls(&mut self) -> io::Result<()> {
        let Some(tls) = self.client.tls.clone() else {
            return Err(io::Error::other("STARTTLS without a certificate"));
        };
        let plain = std::mem::replace(&mut self.wire, Box::new(tokio::io::empty()));
        let limit = HANDSHAKE_TIMEOUT.min(self.read_timeout());
        let accepted = tokio::time::timeout(limit, tls.accept(plain)).await;
        let (wire, session) = match accepted {
            Ok(accepted) => accepted?,
            Err(_) => return Err(io::ErrorKind::TimedOut.into()),
        };
        self.wire = wire;
        self.tls = Some(session);
        self.receiver.metrics.tls_sessions.add_one();
        Ok(())
    }

    /// Something came before our greeting: no mail client does that.
    async fn is_early_talker(&mut self) -> io::Result<bool> {
        let wait = match self.receiver.settings.get().receiver.greeting_wait_ms {
            0 => Duration::ZERO,
            _ if self.receiver.settings.get().rates.is_exempt(self.client.address) => {
                Duration::ZERO
            }
            ms => Duration::from_millis(ms),
        };
        let early = read_with(&mut self.wire, <[u8]>::len);
        match tokio::time::timeout(wait, early).await {
            Ok(read) => Ok(read?.is_some_and(|bytes| bytes > 0)),
            Err(_) => Ok(false),
        }
    }

    /// Between transactions of a node that drains or stops. The former does not wait for a pause in
    /// what a client pipelines: there may never be one, and no grace that runs out.
    fn should_end(&self) -> bool {
        let phase = *self.phase.borrow();
        let unread = if phase == Phase::Draining { 0 } else { self.unread() };
        phase.ends_sessions() && Drain::ends_session(self.session.in_transaction(), unread)
    }

    /// The next event, or none when the client closed the connection.
    async fn next_event(&mut self) -> io::Result<Option<Event>> {
        if self.used < self.pending.len() {
            let mut rest = self.pending.get(self.used..).unwrap_or_default();
            let event = self.session.next(&mut rest, &mut self.out);
            self.used = self.pending.len() - rest.len();
            if event != Event::More {
                return Ok(Some(event));
            }
        }
        self.pending = Vec::new();
        self.used = 0;
        self.flush().await?;
        self.book_body().await;
        self.skipping_since = match self.is_skipping() {
            true => self.skipping_since.or_else(|| Some(Instant::now())),
            false => None,
        };
        let limit = match self.pace_left() {
            Some(left) => self.read_timeout().min(left),
            None => self.read_timeout(),
        };
        let waiting = Instant::now();
        let idle = !self.session.in_transaction();
        let may_leave = !self.session.in_body() || self.is_skipping();
        if may_leave {
            self.admitted.wait();
        }
        let Conversation { wire, session, out, pending, admitted, incoming, phase, .. } = self;
        let read = read_with(wire, |mut input| {
            if let Some(incoming) = incoming {
                incoming.pace.count(input.len());
            }
            let event = session.next(&mut input, out);
            pending.extend_from_slice(input);
            event
        });
        let read = tokio::select! {
            read = tokio::time::timeout(limit, read) => Some(read),
            _ = phase.wait_for(|now| now.ends_sessions()), if idle => {
                return Ok(Some(Event::More));
            }
            () = admitted.evicted(), if may_leave => None,
        };
        let stays = self.admitted.work();
        let Some(read) = read.filter(|_| stays) else {
            return self.leave_for_others().await;
        };
        let slow = self.is_too_slow();
        match read {
            Ok(_) if slow => self.give_up("the message comes too slowly").await,
            Ok(event) => event,
            Err(_) if slow => self.give_up("the message comes too slowly").await,
            // Only the while is over that the pace is counted in.
            Err(_) if waiting.elapsed() < self.read_timeout() => Ok(Some(Event::More)),
            Err(_) => self.give_up("timeout").await,
        }
    }

    /// Says why, and ends.
    async fn give_up(&mut self, why: &'static str) -> io::Result<Option<Event>> {
        Reply::new(421, (4, 4, 2), why).write(&mut self.out);
        self.flush().await?;
        Ok(None)
    }

    /// Ends a session that brings nothing while others wait.
    async fn leave_for_others(&mut self) -> io::Result<Option<Event>> {
        self.receiver.metrics.evicted.add_one();
        self.out.clear();
        Reply::new(421, (4, 3, 2), "too busy for idle sessions").write(&mut self.out);
        self.flush().await?;
        Ok(None)
    }

    /// How long to wait for the next bytes.
    fn read_timeout(&self) -> Duration {
        let settings = &self.receiver.settings.get().receiver;
        if let Some(since) = self.skipping_since {
            // As a whole it may take as long as a command: it has neither pace nor memory of its
            // own.
            let usual = settings.command_seconds_max;
            let stress = self.receiver.stress_of(self.client.address);
            let seconds = stress.map_or(usual, |s| s.command_seconds_max.min(usual));
            return Duration::from_secs(seconds).saturating_sub(since.elapsed());
        }
        if !self.session.in_body() {
            let usual = settings.command_seconds_max;
            let stress = self.receiver.stress_of(self.client.address);
            return Duration::from_secs(stress.map_or(usual, |s| s.command_seconds_max.min(usual)));
        }
        let whole = Duration::from_secs(settings.body_seconds_max);
        let spent =
            self.incoming.as_ref().map_or(Duration::ZERO, |i| self.receiver.clock.elapsed(i.began));
        Duration::from_secs(settings.data_seconds_max).min(whole.saturating_sub(spent))
    }

    /// Reads what the client had still to send, for a while. A socket that is closed with unread
    /// input resets the connection (RFC 1122 section 4.2.2.13), and the client may lose the reply
    /// that says why: it would come again and again.
    async fn linger(&mut self) {
        let read_on = async {
            self.wire.shutdown().await?;
            let mut left = LINGER_BYTES_MAX;
            while let Some(bytes) = read_with(&mut self.wire, <[u8]>::len).await? {
                left = left.saturating_sub(bytes);
                if left == 0 {
                    break;
                }
            }
            io::Result::Ok(())
        };
        // Whatever comes of it, the session is over.
        let _ = tokio::time::timeout(LINGER_MAX, read_on).await;
    }

    async fn flush(&mut self) -> io::Result<()> {
        if self.out.is_empty() {
            return Ok(());
        }
        let out = std::mem::take(&mut self.out);
        let limit = WRITE_TIMEOUT.min(self.read_timeout());
        match tokio::time::timeout(limit, self.wire.write_all(&out)).await {
            Ok(written) => written,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Answers a question of the state machine. What takes long is boxed: an idle session must not
    /// hold room for it.
    async fn handle_event(&mut self, event: Event) -> io::Result<Option<Event>> {
        Ok(match event {
            Event::Mail(mail) => {
                // What is left of a message that was taken back (RSET).
                self.incoming = None;
                // No progress: MAIL and RSET in turns cost a client nothing.
                let reply = self.check_sender(&mail);
                self.session.answer(&reply, &mut self.out)
            }
            Event::Rcpt(rcpt) => {
                let reply = Box::pin(self.check_recipient(&rcpt)).await;
                if reply.is_positive() {
                    self.admitted.progress();
                }
                self.session.answer(&reply, &mut self.out)
            }
            Event::Data => self.begin_body(),
            Event::Message => {
                Box::pin(self.finish_body()).await?;
                None
            }
            Event::StartTls => {
                // What came behind the command came before the handshake: it may be an attacker's.
                if self.used < self.pending.len() {
                    return Err(io::Error::other("commands injected before the handshake"));
                }
                self.flush().await?;
                Box::pin(self.start_tls()).await?;
                self.session.tls_started();
                None
            }
            Event::Auth { user, password } => {
                let asked = self.receiver.logins.verify(self.client.address, user, password);
                let login = Box::pin(asked).await;
                self.login = login.clone();
                if login.is_some() {
                    self.admitted.progress();
                }
                self.session.answer_auth(login.is_some(), &mut self.out)
            }
            Event::Credentials(user) => {
                let asked = self.receiver.logins.credentials(self.client.address, &user);
                let asked = Box::pin(asked).await;
                self.candidate = asked.user;
                self.session.challenge(asked.credentials, &asked.nonce, &mut self.out);
                None
            }
            Event::LoggedIn(user) => {
                self.login = self.candidate.take();
                self.admitted.progress();
                self.receiver.logins.succeeded(self.client.address, &user);
                None
            }
            Event::LoginFailed(user) => {
                self.candidate = None;
                self.receiver.logins.failed(self.client.address, &user);
                None
            }
            Event::Client(address) => self.set_client(address),
            Event::More | Event::Close(_) => None,
        })
    }
}

#[cfg(test)]
mod tests;
