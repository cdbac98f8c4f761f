//! One SMTP session: moves bytes between a socket and the state machine, answers its questions,
//! keeps the time.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gauntlet_mail::{Envelope, TlsSession};
use gauntlet_smtp::address::domain_of;
use gauntlet_smtp::{CloseReason, Event, MailCommand, RcptCommand, Reply, Session, Transaction};
use gauntlet_store::User;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::overflow::Overflow;
use super::pace::{LeastRate, Pace};
use super::{Client, Receiver, author};
use crate::admission::Admitted;
use crate::clock::now_ms;
use crate::config::ListenerRole;
use crate::ids;
use crate::intake::Arrival;
use crate::memory::MemoryShare;
use crate::queue::drain::Drain;
use crate::recipients::Known;
use crate::text_log::RECEIVER;
use crate::trace_fields::Received;
use crate::wire::{Wire, read_with};

/// Once a body is on disk, it goes there in pieces of so many bytes.
const DISK_PIECE_BYTES: u64 = 64 * 1024;
/// Bytes that a body starts with: most messages fit.
const BODY_BYTES_AT_FIRST: u64 = 16 * 1024;
/// A client that does not take our replies is given up after this.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a client that was refused for good may go on before the connection is closed.
const LINGER_MAX: Duration = Duration::from_secs(3);
/// Bytes that are read meanwhile at most.
const LINGER_BYTES_MAX: usize = 64 << 20;
/// A handshake that takes longer is given up.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(30);

/// There is no memory or disk for a body.
fn no_room() -> Reply {
    Reply::new(452, (4, 3, 1), "too busy, try again later")
}

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
            tracing::debug!(target: RECEIVER, client = %address, %error, "session broken off");
        }
    }
    metrics.sessions.add(-1);
}

/// What the text log of the Receiver says about a message.
struct ArrivalLine {
    id: String,
    from: String,
    recipients: usize,
    bytes: usize,
}

impl ArrivalLine {
    fn of(incoming: &Incoming, transaction: &Transaction) -> Self {
        ArrivalLine {
            id: ids::to_text(incoming.id),
            from: transaction.mail.from.clone(),
            recipients: transaction.recipients.len(),
            bytes: transaction.body.len(),
        }
    }

    fn write(&self, client: &Client, helo: &str, replies: &[Reply]) {
        let reply = replies.first().map(Reply::one_line).unwrap_or_default();
        let ArrivalLine { id, from, recipients, bytes } = self;
        let client = client.address;
        tracing::info!(
            target: RECEIVER, id, %client, helo, from, recipients, bytes, reply, "answered"
        );
    }
}

/// The message being received.
#[derive(Debug)]
struct Incoming {
    id: u64,
    began: Instant,
    received_ms: i64,
    pace: Pace,
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
    incoming: Option<Incoming>,
    messages: usize,
    /// When a chunk began that belongs to no message.
    skipping_since: Option<Instant>,
    tls: Option<TlsSession>,
    /// Who logged in.
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
            Box::pin(self.start_tls()).await?;
            self.session.tls_started();
        } else if self.is_early_talker().await? {
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
                    other => event = self.react(other).await?,
                }
            }
            if self.should_stop() {
                Reply::new(421, (4, 3, 2), "shutting down").write(&mut self.out);
                self.flush().await?;
                return Ok("node stops");
            }
        }
    }

    /// Makes the connection a TLS one.
    async fn start_tls(&mut self) -> io::Result<()> {
        let Some(tls) = self.client.tls.clone() else {
            return Err(io::Error::other("STARTTLS without a certificate"));
        };
        let plain = std::mem::replace(&mut self.wire, Box::new(tokio::io::empty()));
        let limit = HANDSHAKE_TIMEOUT.min(self.patience());
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
        let wait = match self.receiver.settings.load().greeting_wait_ms {
            0 => Duration::ZERO,
            _ if self.receiver.gate.is_exempt(self.client.address) => Duration::ZERO,
            ms => Duration::from_millis(ms),
        };
        let look = read_with(&mut self.wire, <[u8]>::len);
        match tokio::time::timeout(wait, look).await {
            Ok(read) => Ok(read?.is_some_and(|bytes| bytes > 0)),
            Err(_) => Ok(false),
        }
    }

    /// Between transactions of a node that stops.
    fn should_stop(&self) -> bool {
        let unread = self.pending.len().saturating_sub(self.used);
        Drain::ends_session(self.session.in_transaction(), unread)
            && *self.receiver.stopping.borrow()
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
            Some(left) => self.patience().min(left),
            None => self.patience(),
        };
        let waiting = Instant::now();
        let mut stopping = self.receiver.stopping.clone();
        let idle = !self.session.in_transaction();
        let may_leave = !self.session.in_body() || self.is_skipping();
        if may_leave {
            self.admitted.wait();
        }
        let Conversation { wire, session, out, pending, admitted, incoming, .. } = self;
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
            _ = stopping.wait_for(|stop| *stop), if idle => return Ok(Some(Event::More)),
            () = admitted.told_to_leave(), if may_leave => None,
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
            Err(_) if waiting.elapsed() < self.patience() => Ok(Some(Event::More)),
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
        self.receiver.metrics.sent_away.add_one();
        self.out.clear();
        Reply::new(421, (4, 3, 2), "too busy for idle sessions").write(&mut self.out);
        self.flush().await?;
        Ok(None)
    }

    /// The rate that a body is held to; between two of its chunks, too.
    fn least_rate(&self) -> LeastRate {
        let settings = self.receiver.settings.load();
        let stress = self.receiver.stress_of(self.client.address);
        let (bytes_per_second, seconds) = match stress {
            Some(s) => (s.body_bytes_per_second_min, s.body_rate_seconds),
            None => (settings.body_bytes_per_second_min, settings.body_rate_seconds),
        };
        LeastRate { bytes_per_second, over: Duration::from_secs(seconds) }
    }

    /// The message that is coming, unless it was given up.
    fn coming(&mut self) -> Option<&mut Incoming> {
        self.incoming.as_mut().filter(|_| self.session.in_transaction())
    }

    /// How long until the pace of the body is looked at; none if there is no body. Pressure may begin at any
    /// time, and the pace is then another.
    fn pace_left(&mut self) -> Option<Duration> {
        let least = self.least_rate();
        let soon = Duration::from_secs(self.receiver.stress.load().body_rate_seconds);
        self.coming().map(|incoming| incoming.pace.left(least).min(soon))
    }

    fn is_too_slow(&mut self) -> bool {
        if self.incoming.is_none() {
            return false;
        }
        let least = self.least_rate();
        let slow = self.coming().is_some_and(|incoming| incoming.pace.is_too_slow(least));
        if slow {
            self.receiver.metrics.slow_bodies.add_one();
        }
        slow
    }

    /// What comes is a chunk (BDAT) that belongs to no message.
    fn is_skipping(&self) -> bool {
        self.session.in_body() && self.incoming.is_none()
    }

    /// How long to wait for the next bytes.
    fn patience(&self) -> Duration {
        let settings = self.receiver.settings.load();
        if let Some(since) = self.skipping_since {
            // As a whole it may take as long as a command: it has neither pace nor memory of its own.
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
        let spent = self.incoming.as_ref().map_or(Duration::ZERO, |i| i.began.elapsed());
        Duration::from_secs(settings.data_seconds_max).min(whole.saturating_sub(spent))
    }

    /// Books the memory that the body holds by now; what is over goes to disk. Refuses the body if there is
    /// no room for it.
    async fn book_body(&mut self) {
        let most = self.receiver.settings.load().body_memory_bytes_max;
        let bytes = self.session.body_bytes() as u64;
        let on_disk = self.session.drained_bytes() > 0;
        if !on_disk && let Some(incoming) = &mut self.incoming {
            // Refused, or taken back.
            incoming.overflow = None;
        }
        let goes_to_disk = bytes > most || (on_disk && bytes > most.min(DISK_PIECE_BYTES));
        if goes_to_disk && self.session.in_transaction() {
            Box::pin(self.move_to_disk()).await;
        }
        if !self.memory.resize(self.session.body_bytes() as u64) {
            self.refuse_body();
        }
    }

    /// Moves what came of the body to its file. Without a file for it, it stays in memory, in the client's
    /// share.
    async fn move_to_disk(&mut self) {
        let (area, client) = (self.receiver.overflow.clone(), self.client.address);
        let Some(incoming) = &mut self.incoming else { return };
        if incoming.overflow.is_none() {
            let begun = area.begin(&self.receiver.holders_of(client));
            let Some(begun) = begun else { return };
            self.receiver.metrics.disk_bodies.add_one();
            incoming.overflow = Some(Box::new(begun));
        }
        let piece = self.session.drain_body();
        if let Some(overflow) = &mut incoming.overflow
            && !overflow.append(&area, piece).await
        {
            self.refuse_body();
        }
    }

    fn refuse_body(&mut self) {
        self.receiver.metrics.no_room.add_one();
        self.session.refuse_body(no_room());
        let _freed = self.memory.resize(0);
        if let Some(incoming) = &mut self.incoming {
            incoming.overflow = None;
        }
    }

    /// The whole body of a message that has come, in memory that is booked for it. None if there is no room.
    async fn whole_body(
        &mut self,
        tail: Vec<u8>,
        overflow: Option<Box<Overflow>>,
    ) -> Option<Vec<u8>> {
        let wait = self.receiver.settings.load().memory_wait_seconds_max;
        let written = overflow.as_ref().map_or(0, |o| o.written());
        let bytes = tail.capacity() as u64 + written;
        if !self.memory.resize_for_whole(bytes, Duration::from_secs(wait)).await {
            return None;
        }
        let Some(overflow) = overflow else { return Some(tail) };
        match overflow.read_back(tail).await {
            Ok(body) => Some(body),
            Err(error) => {
                tracing::error!(%error, "a large body could not be read back from disk");
                None
            }
        }
    }

    /// Reads what the client had still to send, for a while. A socket that is closed with unread input
    /// resets the connection (RFC 1122 section 4.2.2.13), and the client may lose the reply that says
    /// why: it would come again and again.
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
        let limit = WRITE_TIMEOUT.min(self.patience());
        match tokio::time::timeout(limit, self.wire.write_all(&out)).await {
            Ok(written) => written,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Answers a question of the state machine. What takes long is boxed: an idle session must not hold
    /// room for it.
    async fn react(&mut self, event: Event) -> io::Result<Option<Event>> {
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
                // What came behind the command came before the handshake: it may be anybody's.
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
            Event::Client(address) => self.speak_for(address),
            Event::More | Event::Close(_) => None,
        })
    }

    /// A trusted relay speaks for another client: who came too often is told so at once.
    fn speak_for(&mut self, client: Option<std::net::IpAddr>) -> Option<Event> {
        let client = client?.to_canonical();
        self.client.address = client;
        self.memory = self.receiver.memory.share_of(self.receiver.holders_of(client));
        self.login = None;
        let why = self.receiver.gate.admit_connection(client, now_ms() / 1_000).err()?;
        self.out.clear();
        Reply::new(421, (4, 3, 2), why).write(&mut self.out);
        Some(Event::Close(CloseReason::Quit))
    }

    fn check_sender(&self, mail: &MailCommand) -> Reply {
        if self.client.role == ListenerRole::Outbound && !self.client.is_trusted() {
            return Reply::new(554, (5, 7, 1), "relaying denied: your network is not allowed here");
        }
        if let Some(user) = &self.login
            && !user.addresses.is_empty()
            && !user.addresses.iter().any(|own| own.eq_ignore_ascii_case(&mail.from))
        {
            return Reply::new(553, (5, 7, 1), "not one of your addresses");
        }
        if self.login.is_none()
            && let Err(why) =
                self.receiver.gate.admit_message(self.client.address, &mail.from, now_ms() / 1_000)
        {
            self.receiver.metrics.rate_limited.add_one();
            return Reply::new(450, (4, 7, 1), why);
        }
        match self.receiver.intake.has_room(mail.size.unwrap_or(0)) {
            true => Reply::new(250, (2, 1, 0), "Ok"),
            false => {
                self.receiver.metrics.no_room.add_one();
                Reply::new(452, (4, 3, 1), "insufficient storage, try again later")
            }
        }
    }

    /// No open relay: without a login or a trusted network, mail is taken for our domains only.
    async fn check_recipient(&mut self, rcpt: &RcptCommand) -> Reply {
        let routes = self.receiver.routes.load_full();
        let domain = domain_of(&rcpt.to);
        let ours = domain.is_empty() || routes.is_local(&domain);
        let may_relay = match self.client.role {
            ListenerRole::Inbound | ListenerRole::Lmtp => false,
            ListenerRole::Outbound => self.client.is_trusted(),
            ListenerRole::Submission => self.session.user().is_some(),
        };
        if !ours && !may_relay {
            return Reply::new(550, (5, 7, 1), "relaying denied: not one of our domains");
        }
        if rcpt.routed || ours && routes_on(&rcpt.to) {
            let text = "no routes in addresses: write the recipient as user@domain";
            return Reply::new(550, (5, 1, 3), text);
        }
        let outbound =
            matches!(self.client.role, ListenerRole::Outbound | ListenerRole::Submission)
                && routes.takes_all();
        if ours && !outbound {
            let recipients = self.receiver.recipients.load_full();
            match recipients.check(&rcpt.to, &routes, &self.receiver.sender).await {
                Known::Yes => {}
                Known::No(why) => return Reply::new(550, (5, 1, 1), why),
                Known::Unclear => {
                    let text = "cannot tell whether there is such a recipient, try again later";
                    return Reply::new(451, (4, 3, 0), text);
                }
            }
        }
        if self.client.role == ListenerRole::Inbound && self.login.is_none() {
            let (gate, client) = (&self.receiver.gate, self.client.address);
            let sender = self.session.sender().unwrap_or_default();
            let now_s = now_ms() / 1_000;
            if let Some(seconds) = gate.wait_for(client, sender, &rcpt.to, now_s).await {
                self.receiver.metrics.greylisted.add_one();
                let text = format!("greylisted: please come again in {seconds} s");
                return Reply::new(451, (4, 7, 1), text);
            }
        }
        Reply::new(250, (2, 1, 5), "Ok")
    }

    fn begin_body(&mut self) -> Option<Event> {
        if !self.receiver.intake.has_room(0) || !self.memory.has_room(BODY_BYTES_AT_FIRST) {
            self.receiver.metrics.no_room.add_one();
            let reply = Reply::new(452, (4, 3, 1), "insufficient storage, try again later");
            return self.session.refuse_data(reply, &mut self.out);
        }
        let received_ms = now_ms();
        let id = self.receiver.ids.next(received_ms);
        let recipient = self.session.only_recipient();
        let protocol = self.protocol();
        let field = Received {
            helo: self.session.helo(),
            client: self.client.address,
            host: &self.receiver.host,
            protocol,
            id: &ids::to_text(id),
            recipient,
            at_ms: received_ms,
        }
        .field();
        let announced = self.session.announced_bytes().min(BODY_BYTES_AT_FIRST * 4);
        let bytes = usize::try_from(announced).unwrap_or_default().max(field.len());
        let mut prefix = Vec::with_capacity(bytes + field.len() + 64);
        prefix.extend_from_slice(field.as_bytes());
        let (began, pace) = (Instant::now(), Pace::begin());
        self.incoming = Some(Incoming { id, began, received_ms, pace, overflow: None });
        self.session.start_body(prefix, &mut self.out)
    }

    /// RFC 3848 and RFC 6531 section 4.3.
    fn protocol(&self) -> &'static str {
        let utf8 = self.session.is_utf8();
        match (self.session.is_lmtp(), self.session.is_extended(), self.session.is_tls()) {
            (true, _, false) if utf8 => "UTF8LMTP",
            (true, _, true) if utf8 => "UTF8LMTPS",
            (true, _, false) => "LMTP",
            (true, _, true) => "LMTPS",
            (_, false, _) => "SMTP",
            (_, _, tls) => match (utf8, tls, self.session.user().is_some()) {
                (false, false, false) => "ESMTP",
                (false, false, true) => "ESMTPA",
                (false, true, false) => "ESMTPS",
                (false, true, true) => "ESMTPSA",
                (true, false, false) => "UTF8SMTP",
                (true, false, true) => "UTF8SMTPA",
                (true, true, false) => "UTF8SMTPS",
                (true, true, true) => "UTF8SMTPSA",
            },
        }
    }

    /// Why whoever logged in may not send this message.
    fn refuse_author(&self, message: &[u8]) -> Option<Reply> {
        let own = self.login.as_ref().map(|user| &user.addresses).filter(|own| !own.is_empty())?;
        self.client.own_header_from.then(|| author::refusal(message, own)).flatten()
    }

    /// Hands the message over and answers for it.
    async fn finish_body(&mut self) -> io::Result<()> {
        let began = Instant::now();
        let (Some(mut transaction), Some(mut incoming)) =
            (self.session.take_message(), self.incoming.take())
        else {
            return Err(io::Error::other("a message that was not begun"));
        };
        self.flush().await?;
        let recipients = transaction.recipients.len();
        let (tail, overflow) = (std::mem::take(&mut transaction.body), incoming.overflow.take());
        let Some(body) = self.whole_body(tail, overflow).await else {
            self.receiver.metrics.no_room.add_one();
            let _freed = self.memory.resize(0);
            let count = if self.session.is_lmtp() { recipients } else { 1 };
            self.session.answer_message(&vec![no_room(); count], &mut self.out);
            return Ok(());
        };
        transaction.body = body;
        if let Some(reply) = self.refuse_author(&transaction.body) {
            self.session.answer_message(&[reply], &mut self.out);
            let _freed = self.memory.resize(0);
            return Ok(());
        }
        let logged = tracing::enabled!(target: RECEIVER, tracing::Level::INFO);
        let line = logged.then(|| ArrivalLine::of(&incoming, &transaction));
        let envelope = Envelope {
            direction: self.client.role.direction(),
            client_ip: Some(self.client.address),
            client_name: None,
            helo: self.session.helo().to_owned(),
            mail_from: transaction.mail.from.clone(),
            rcpt_to: transaction.recipients.iter().map(|r| r.to.clone()).collect(),
            auth_user: self.session.user().map(str::to_owned),
            tls: self.tls.clone(),
            received_at: incoming.received_ms / 1_000,
        };
        let arrival = Arrival {
            id: incoming.id,
            envelope,
            mail: transaction.mail,
            recipients: transaction.recipients,
            body: transaction.body,
            received_ms: incoming.received_ms,
            began: incoming.began,
            lmtp: self.session.is_lmtp(),
        };
        let replies = self.receiver.intake.take(arrival).await;
        debug_assert!(!self.session.is_lmtp() || replies.len() == recipients);
        if let Some(line) = line {
            line.write(&self.client, self.session.helo(), &replies);
        }
        self.session.answer_message(&replies, &mut self.out);
        self.messages += 1;
        if self.messages >= self.receiver.settings.load().messages_per_session_max {
            self.session.take_no_more();
        }
        self.admitted.progress();
        let _freed = self.memory.resize(0);
        self.receiver.metrics.answer_time.record(began.elapsed());
        Ok(())
    }
}

/// The local part tells the next server of another place: `user%elsewhere`, `elsewhere!user`,
/// `"user@elsewhere"`. Servers that still follow it would relay for strangers, or deliver past our checks.
fn routes_on(recipient: &str) -> bool {
    recipient.rsplit_once('@').is_some_and(|(local, _)| local.contains(['%', '!', '@']))
}
