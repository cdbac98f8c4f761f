//! Who may send what to whom: the checks of MAIL, RCPT and of a message's author.

use gauntlet_smtp::address::domain_of;
use gauntlet_smtp::{CloseReason, Event, MailCommand, RcptCommand, Reply};

use super::super::author;
use super::Conversation;
use crate::config::ListenerRole;
use crate::inbound::recipients::RecipientStatus;

impl Conversation {
    /// A trusted relay names the real client (XCLIENT): one that came too often is refused at once.
    pub(super) fn set_client(&mut self, client: Option<std::net::IpAddr>) -> Option<Event> {
        let client = client?.to_canonical();
        self.client.address = client;
        self.memory = self.receiver.memory.share_of(self.receiver.holders_of(client));
        self.login = None;
        let rules = &self.receiver.settings.get().rates;
        let limiter = &self.receiver.rate_limiter;
        let why = limiter.admit_connection(rules, client, self.receiver.clock.unix_s()).err()?;
        self.out.clear();
        Reply::new(421, (4, 3, 2), why).write(&mut self.out);
        Some(Event::Close(CloseReason::Quit))
    }

    pub(super) fn check_sender(&self, mail: &MailCommand) -> Reply {
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
            && let Err(why) = self.receiver.rate_limiter.admit_message(
                &self.receiver.settings.get().rates,
                self.client.address,
                &mail.from,
                self.receiver.clock.unix_s(),
            )
        {
            self.receiver.metrics.rate_limited.add_one();
            return Reply::new(450, (4, 7, 1), why);
        }
        if self.client.role == ListenerRole::Trap {
            return self.check_sender_to_trap();
        }
        match self.receiver.intake.has_room(mail.size.unwrap_or(0)) {
            true => Reply::new(250, (2, 1, 0), "Ok"),
            false => {
                self.receiver.metrics.no_room.add_one();
                Reply::new(452, (4, 3, 1), "insufficient storage, try again later")
            }
        }
    }

    /// Traps take so many messages an hour of all clients together.
    fn check_sender_to_trap(&self) -> Reply {
        let most = self.receiver.settings.get().traps.messages_per_hour_max;
        let now_s = self.receiver.clock.unix_s();
        match self.receiver.rate_limiter.admit_to_traps(most, now_s) {
            Ok(()) => Reply::new(250, (2, 1, 0), "Ok"),
            Err(why) => {
                self.receiver.metrics.rate_limited.add_one();
                Reply::new(450, (4, 7, 1), why)
            }
        }
    }

    /// No open relay: without a login or a trusted network, mail is taken for our domains only.
    pub(super) async fn check_recipient(&mut self, rcpt: &RcptCommand) -> Reply {
        let settings = self.receiver.settings.get();
        let routes = &settings.routes;
        let domain = domain_of(&rcpt.to);
        // Nobody gets what comes there, so that anything may be asked for.
        let probes = settings.judge.probes.as_ref();
        if self.client.role == ListenerRole::Trap
            || probes.is_some_and(|probes| probes.is_trap(&rcpt.to))
        {
            return Reply::new(250, (2, 1, 5), "Ok");
        }
        let ours = domain.is_empty() || routes.is_local(&domain);
        let may_relay = match self.client.role {
            ListenerRole::Inbound
            | ListenerRole::Lmtp
            | ListenerRole::Trap
            | ListenerRole::Proxy
            | ListenerRole::Transparent
            | ListenerRole::Icap
            | ListenerRole::Dns => false,
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
            match settings.recipients.check(&rcpt.to, routes, &self.receiver.sender).await {
                RecipientStatus::Exists => {}
                RecipientStatus::Unknown(why) => return Reply::new(550, (5, 1, 1), why),
                RecipientStatus::Undecided => {
                    let text = "cannot tell whether there is such a recipient, try again later";
                    return Reply::new(451, (4, 3, 0), text);
                }
            }
        }
        if self.client.role == ListenerRole::Inbound && self.login.is_none() {
            let (limiter, client) = (&self.receiver.rate_limiter, self.client.address);
            let sender = self.session.sender().unwrap_or_default();
            let now_s = self.receiver.clock.unix_s();
            if let Some(seconds) =
                limiter.wait_for(&settings.rates, client, sender, &rcpt.to, now_s).await
            {
                self.receiver.metrics.greylisted.add_one();
                let text = format!("greylisted: please come again in {seconds} s");
                return Reply::new(451, (4, 7, 1), text);
            }
        }
        Reply::new(250, (2, 1, 5), "Ok")
    }

    /// RFC 3848 and RFC 6531 section 4.3.
    pub(super) fn protocol(&self) -> &'static str {
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

    /// Why the user who logged in may not send this message.
    pub(super) fn refuse_author(&self, message: &[u8]) -> Option<Reply> {
        let own = self.login.as_ref().map(|user| &user.addresses).filter(|own| !own.is_empty())?;
        self.client.own_header_from.then(|| author::refusal(message, own)).flatten()
    }
}

/// The local part names another destination to the next server: `user%elsewhere`, `elsewhere!user`,
/// `"user@elsewhere"`. Servers that still follow it would relay for strangers, or deliver past our
/// checks.
fn routes_on(recipient: &str) -> bool {
    recipient.rsplit_once('@').is_some_and(|(local, _)| local.contains(['%', '!', '@']))
}
