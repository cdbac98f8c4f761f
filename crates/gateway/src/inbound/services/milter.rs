//! A filter of an MTA: Postfix' `smtpd_milters`, Sendmail's `INPUT_MAIL_FILTER`.
//!
//! ```text
//! envelope, header, body ─▶ end of message ─▶ scan pool ─▶ policy ─▶ changes, one answer ─▶ log
//! ```
//!
//! An MTA takes one answer for all recipients and one form of the message. What the policy says for
//! each of them becomes that answer like this:
//!
//! | Policy | MTA |
//! |---|---|
//! | a recipient is deferred | 451, for all |
//! | all are rejected | 550 with the reference |
//! | some are rejected or discarded | they are taken off the recipients |
//! | redirect, copy | recipients are taken off and added |
//! | quarantine, hold; kept by the node | held for them, and they are taken off |
//! | quarantine, hold; kept by the MTA | the whole message waits there, for all who are left |
//! | no recipient is left | the message is discarded |
//! | changes of the message | those of everybody who gets it, together |
//!
//! Every message has a line in the log, so that references lead somewhere.

use std::io;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use gauntlet_mail::envelope::TlsSession;
use gauntlet_mail::{Direction, Envelope};
use gauntlet_policy::rewrite::DisarmedPart;
use gauntlet_smtp::MailCommand;
use gauntlet_smtp::address::canonical;
use gauntlet_smtp::milter::{Action, Event, Fault, Limits, Message, Reply, Session};
use gauntlet_store::{LogRecord, Outcome};
use gauntlet_verdict::Change;
use tokio::io::AsyncWriteExt;

use super::{ServiceContext, edits};
use crate::config::QuarantineOwner;
use crate::facts::auth_results::stamp;
use crate::ids;
use crate::inbound::admission::Admitted;
use crate::inbound::policy_actions::Ordered;
use crate::message::ReceivedMessage;
use crate::outbound::queue::seals;
use crate::outbound::queued_message;
use crate::outbound::queued_message::{Answer, QueuedMessage, answer};
use crate::scan::scan_pool::NoVerdict;
use crate::trace_fields::Received;
use crate::wire::{Wire, read_with};

/// Between two words of progress while a message is judged.
const PROGRESS_PAUSE: Duration = Duration::from_secs(10);
/// Bytes of a packet: more than any MTA sends unless it was asked to.
const PACKET_BYTES_MAX: usize = 1 << 20;
/// Field that says why a message is in the MTA's hold.
const HELD_FIELD: &str = "X-Gauntlet-Held";
/// What the log names as the next hop.
const NEXT_HOP: &str = "milter";

/// Speaks to one MTA until it is done.
pub(super) async fn serve(
    mut wire: Wire,
    context: &ServiceContext,
    client: Option<IpAddr>,
    admitted: &Admitted,
) -> io::Result<()> {
    let recipients_max = context.core.intake.settings.get().receiver.recipients_max;
    let mut session = Session::new(Limits {
        packet_bytes_max: PACKET_BYTES_MAX,
        message_bytes_max: context.core.bytes_max(),
        recipients_max,
    });
    let mut memory = context.memory_of(client);
    // Until it spoke the protocol, it may have to leave for others; an MTA keeps quiet for long.
    admitted.wait();
    let mut stopping = context.stopping.clone();
    let mut out = Vec::new();
    // When the packet that comes has to be there, however often a piece of it comes.
    let mut packet_end = None;
    let mut packets = 0;
    loop {
        // An MTA keeps quiet while its client does, within a message too; never within a packet.
        let idle_end =
            tokio::time::Instant::now() + Duration::from_secs(context.settings.idle_seconds_max);
        let is_same = std::mem::replace(&mut packets, session.packets()) == packets;
        packet_end = match session.is_within_packet() {
            true => packet_end.filter(|_| is_same).or_else(|| Some(context.request_end())),
            false => None,
        };
        let until = packet_end
            .map_or(idle_end, |end| end.min(tokio::time::Instant::now() + context.io_timeout()));
        let busy = session.is_busy();
        let read = read_with(&mut wire, |bytes| session.push(bytes, &mut out));
        let read = tokio::select! {
            read = tokio::time::timeout_at(until, read) => read??,
            () = admitted.evicted() => return Ok(()),
            _ = stopping.wait_for(|stop| *stop), if !busy => return Ok(()),
        };
        let Some(mut event) = read else { return Ok(()) };
        loop {
            match event.map_err(io::Error::other)? {
                Event::More => break,
                Event::Close => return Ok(()),
                Event::Message => {}
            }
            let Some(message) = session.take() else { break };
            answer_message(message, &session, context, &mut wire, &mut out).await?;
            flush(&mut wire, &mut out, context).await?;
            event = session.push(&[], &mut out);
        }
        if !out.is_empty() && !admitted.work() {
            return Ok(());
        }
        flush(&mut wire, &mut out, context).await?;
        if !memory.resize_alone(session.bytes() as u64) {
            session.refuse_content();
        }
    }
}

async fn flush(wire: &mut Wire, out: &mut Vec<u8>, context: &ServiceContext) -> io::Result<()> {
    if !out.is_empty() {
        tokio::time::timeout(context.io_timeout(), wire.write_all(out)).await??;
        out.clear();
    }
    Ok(())
}

/// Judges a message and writes what becomes of it; words of progress meanwhile.
async fn answer_message(
    message: Message,
    session: &Session,
    context: &ServiceContext,
    wire: &mut Wire,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    let ending = Ending::of(message, session, context);
    tokio::pin!(ending);
    let end = loop {
        tokio::select! {
            end = &mut ending => break end,
            () = tokio::time::sleep(PROGRESS_PAUSE) => {
                let mut word = Vec::new();
                session.progress(&mut word);
                flush(wire, &mut word, context).await?;
            }
        }
    };
    end.actions.iter().for_each(|action| session.act(action, out));
    session.reply(&end.reply, out);
    Ok(())
}

/// What is answered to an MTA about a message.
struct Ending {
    actions: Vec<Action>,
    reply: Reply,
}

impl From<Reply> for Ending {
    fn from(reply: Reply) -> Self {
        Ending { actions: Vec::new(), reply }
    }
}

impl Ending {
    async fn of(message: Message, session: &Session, context: &ServiceContext) -> Self {
        let intake = &context.core.intake;
        if let Some(fault) = message.fault {
            return refusal(fault, context.core.bytes_max()).into();
        }
        let (began, received_ms) = (Instant::now(), intake.clock.unix_ms());
        let id = context.core.ids.next(received_ms);
        let envelope = envelope(&message, context, received_ms);
        let (original, given) = (Bytes::from(message.raw), message.rcpt_to);
        let body = with_received(&original, &envelope, &context.core.host, id, received_ms);
        let body = ReceivedMessage::of_bytes(body);
        let judged = intake.judge_in_transit(id, envelope, body, received_ms, began).await;
        let (mut record, body) = match judged {
            Ok(judged) => judged,
            Err(why) => return later(why).into(),
        };
        let name = ids::to_text(id);
        let verdict = answer(&record.dispositions);
        let ordered = match &verdict {
            Answer::Defer(_) => Ordered::default(),
            _ => intake.order(&intake.settings.get(), &mut record, &body, began),
        };
        match verdict {
            Answer::Reject(text) => {
                intake.log_refused(record, &text);
                intake.carry_out(ordered).await;
                Reply::ReplyCode(550, (5, 7, 1), queued_message::with_reference(&text, &name))
                    .into()
            }
            Answer::Defer(text) => {
                let text = queued_message::with_reference(&text, &name);
                intake.log_deferred(record, &format!("451 4.7.1 {text}"));
                Reply::ReplyCode(451, (4, 7, 1), text).into()
            }
            Answer::Accept => {
                let queue_id = message.macros.get("i").cloned().unwrap_or_default();
                let course = Course::of(record, &original, &given, session, context);
                let course = course.await;
                let ending = course.take(&body, &queue_id, context).await;
                if matches!(ending.reply, Reply::Accept | Reply::Discard) {
                    intake.carry_out(ordered).await;
                }
                ending
            }
        }
    }
}

/// A message that cannot be judged.
fn refusal(fault: Fault, bytes_max: usize) -> Reply {
    match fault {
        Fault::TooLarge => {
            Reply::ReplyCode(552, (5, 3, 4), format!("message is larger than {bytes_max} bytes"))
        }
        Fault::TooManyRecipients => {
            Reply::ReplyCode(452, (4, 5, 3), "too many recipients".to_owned())
        }
        Fault::NoRoom => {
            Reply::ReplyCode(452, (4, 3, 1), "insufficient storage, try again later".to_owned())
        }
        Fault::Bytes(bad) => {
            let text = format!("{bad}, see RFC 5321 section 2.3.8: send the message with CRLF");
            Reply::ReplyCode(554, (5, 6, 0), text)
        }
    }
}

fn later(why: NoVerdict) -> Reply {
    let text = format!("cannot judge the message now ({why}), try again later");
    Reply::ReplyCode(451, (4, 7, 1), text)
}

/// Where a message goes from here.
struct Course {
    message: QueuedMessage,
    /// What the MTA does first.
    actions: Vec<Action>,
    /// The MTA cannot do what it would have to.
    forbidden: bool,
    /// Nobody can sign it now.
    unsigned: bool,
    /// Somebody still gets it, now or when the MTA lets it go.
    goes_on: bool,
    /// The MTA keeps it.
    kept_there: bool,
    /// What became of the parts that were to be disarmed.
    disarmed: Vec<DisarmedPart>,
}

impl Course {
    /// `given` are the recipients as the MTA spelled them: it may know them by no other spelling.
    async fn of(
        record: LogRecord,
        original: &Bytes,
        given: &[String],
        session: &Session,
        context: &ServiceContext,
    ) -> Self {
        let message = QueuedMessage::new(record, &MailCommand::default(), &[]);
        let by_mta = context.settings.quarantine == QuarantineOwner::Mta;
        let (mut wanted, mut changes, mut hold) = (Vec::new(), Vec::new(), None);
        for target in &message.targets {
            match &target.action {
                queued_message::Action::Send => wanted.push(target.address.as_str()),
                queued_message::Action::Quarantine { folder } if by_mta => {
                    wanted.push(target.address.as_str());
                    hold.get_or_insert(folder.as_str());
                }
                _ => continue,
            }
            for change in &target.changes {
                if !changes.contains(change) {
                    changes.push(change.clone());
                }
            }
        }
        let (goes_on, kept_there) = (!wanted.is_empty(), hold.is_some());
        let why = hold.map(|folder| format!("{folder} (reference {})", message.record.id));
        // Postfix writes the words of a quarantine down nowhere.
        let name = HELD_FIELD.to_owned();
        changes.extend(why.clone().map(|value| Change::AddHeader { name, value }));
        let (mut actions, mut unsigned, mut disarmed) = (Vec::new(), false, Vec::new());
        if goes_on {
            disarmed = context.core.intake.queue.disarmed(original, &changes).await;
            match changed(&message.record, original, (&changes, &disarmed), context) {
                Ok(changed) => actions = changed,
                Err(_told_by_the_queue) => unsigned = true,
            }
            let recipients = &message.record.envelope.rcpt_to;
            for to in given.iter().filter(|to| !wanted.contains(&&*canonical(to))) {
                actions.push(Action::DeleteRecipient(to.clone()));
            }
            for to in wanted.iter().filter(|to| !recipients.iter().any(|r| r == *to)) {
                actions.push(Action::AddRecipient((*to).to_owned()));
            }
            actions.extend(why.map(Action::Quarantine));
        }
        let allowed = session.allowed();
        let forbidden = actions.iter().any(|action| !allowed.allows(action));
        Course { message, actions, forbidden, unsigned, goes_on, kept_there, disarmed }
    }

    /// Holds what we hold, and logs where everything went.
    async fn take(mut self, body: &Bytes, queue_id: &str, context: &ServiceContext) -> Ending {
        let id = self.message.record.id.clone();
        if self.forbidden {
            tracing::error!(id, "the MTA does not allow the changes that the policy asks for");
            let text = format!("cannot do what the policy says, try again later (reference {id})");
            return Reply::ReplyCode(451, (4, 3, 5), text).into();
        }
        if self.unsigned {
            let text = format!("cannot sign now, try again later (reference {id})");
            return Reply::ReplyCode(451, (4, 3, 0), text).into();
        }
        let by_node = context.settings.quarantine == QuarantineOwner::Node;
        if by_node
            && let Err(error) = context.core.intake.queue.quarantine(&self.message, body).await
        {
            tracing::error!(id, %error, "a message could not be put into quarantine");
            let text = format!("insufficient storage, try again later (reference {id})");
            return Reply::ReplyCode(452, (4, 3, 1), text).into();
        }
        if self.goes_on
            && let Err(error) =
                context.core.intake.queue.keep_originals(&self.message, body, &self.disarmed).await
        {
            tracing::error!(id, %error, "the original of a message could not be kept");
            let text = format!("insufficient storage, try again later (reference {id})");
            return Reply::ReplyCode(452, (4, 3, 1), text).into();
        }
        let at_ms = context.core.clock().unix_ms();
        let targets = self.message.targets.iter();
        for (target, delivery) in targets.zip(&mut self.message.record.deliveries) {
            let (outcome, next_hop, reply) = match &target.action {
                queued_message::Action::Send if !self.kept_there => {
                    (Outcome::Delivered, NEXT_HOP, format!("passed on as {queue_id}"))
                }
                queued_message::Action::Quarantine { folder } if by_node => {
                    (Outcome::Quarantined, folder.as_str(), String::new())
                }
                queued_message::Action::Send | queued_message::Action::Quarantine { .. } => {
                    (Outcome::Quarantined, NEXT_HOP, format!("kept by the MTA as {queue_id}"))
                }
                queued_message::Action::Discard => (Outcome::Discarded, "", String::new()),
                queued_message::Action::Refuse { text } => (Outcome::Rejected, "", text.clone()),
            };
            (delivery.outcome, delivery.at_ms, delivery.reply) = (outcome, at_ms, reply);
            next_hop.clone_into(&mut delivery.next_hop);
        }
        context.core.intake.log.append_or_tell(vec![self.message.record], Vec::new());
        let reply = if self.goes_on { Reply::Accept } else { Reply::Discard };
        Ending { actions: self.actions, reply }
    }
}

/// What the MTA has to change in the message: our results at its top, and what the policy says.
///
/// # Errors
/// If it was to be signed and no key is available now.
fn changed(
    record: &LogRecord,
    original: &[u8],
    (changes, disarmed): (&[Change], &[DisarmedPart]),
    context: &ServiceContext,
) -> Result<Vec<Action>, String> {
    let LogRecord { envelope, facts, .. } = record;
    let stamped = match envelope.direction {
        Direction::Inbound => stamp(original, &context.core.host, facts, envelope),
        Direction::Outbound => None,
    };
    let queue = &context.core.intake.queue;
    let settings = queue.settings();
    if stamped.is_none() && changes.is_empty() && !seals(&settings, record) {
        return Ok(Vec::new());
    }
    let body = Bytes::from(stamped.unwrap_or_else(|| original.to_vec()));
    let changed = queue.changed(&settings, record, &body, changes, disarmed)?;
    Ok(edits::between(original, &changed.to_vec()))
}

/// What the MTA said of client, login and TLS.
fn envelope(message: &Message, context: &ServiceContext, received_ms: i64) -> Envelope {
    let said = |name: &str| message.macros.get(name).filter(|v| !v.is_empty()).cloned();
    let peer = &message.peer;
    let is_named = !peer.name.is_empty() && !peer.name.starts_with('[') && peer.name != "unknown";
    let auth_user = said("auth_authen");
    let within = |ip: IpAddr| context.outbound.iter().any(|network| network.contains(ip));
    let outbound = auth_user.is_some() || peer.address.is_some_and(within);
    Envelope {
        direction: if outbound { Direction::Outbound } else { Direction::Inbound },
        client_ip: peer.address,
        client_name: is_named.then(|| peer.name.clone()),
        helo: peer.helo.clone(),
        mail_from: canonical(&message.mail_from).into_owned(),
        rcpt_to: message.rcpt_to.iter().map(|to| canonical(to).into_owned()).collect(),
        auth_user,
        tls: said("tls_version").map(|version| TlsSession {
            version,
            cipher: said("cipher").unwrap_or_default(),
            server_name: None,
        }),
        received_at: received_ms / 1_000,
    }
}

/// The message below the Received field that it would have by SMTP: filters do not see the MTA's
/// own.
fn with_received(
    original: &[u8],
    envelope: &Envelope,
    host: &str,
    id: u64,
    received_ms: i64,
) -> Vec<u8> {
    let Some(client) = envelope.client_ip else { return original.to_vec() };
    let protocol = match (&envelope.tls, &envelope.auth_user) {
        (None, None) => "ESMTP",
        (None, Some(_)) => "ESMTPA",
        (Some(_), None) => "ESMTPS",
        (Some(_), Some(_)) => "ESMTPSA",
    };
    let field = Received {
        helo: &envelope.helo,
        client,
        host,
        protocol,
        id: &ids::to_text(id),
        recipient: match envelope.rcpt_to.as_slice() {
            [one] => Some(one),
            _ => None,
        },
        at_ms: received_ms,
    }
    .field();
    [field.as_bytes(), original].concat()
}
