//! Targets of a message put together by what happens to them.

use gauntlet_smtp::{Notify as DsnNotify, Outgoing, OutgoingRecipient, Ret};
use gauntlet_store::Outcome;
use gauntlet_verdict::Change;

use crate::outbound::queued_message::{Action, QueuedMessage};
use crate::outbound::route::Route;
use crate::outbound::sender::Settled;
use crate::outbound::settings::OutboundSettings;

/// Targets that are not final, put together by what happens to them.
pub(super) fn groups(
    settings: &OutboundSettings,
    message: &QueuedMessage,
) -> Vec<(Group, Vec<usize>)> {
    let OutboundSettings { sender, routes, .. } = settings;
    let recipients_max = sender.recipients_per_message_max;
    let mut groups: Vec<(Group, Vec<usize>)> = Vec::new();
    for (index, target) in message.targets.iter().enumerate() {
        if message.record.deliveries.get(index).is_none_or(|d| d.outcome.is_final()) {
            continue;
        }
        let group = match &target.action {
            Action::Send => Group::Send(routes.route(&target.address), target.changes.clone()),
            Action::Quarantine { folder } => Group::Hold(folder.clone()),
            Action::Discard => Group::Settle(Outcome::Discarded, String::new()),
            Action::Refuse { text } => Group::Settle(Outcome::Rejected, text.clone()),
        };
        match groups.iter_mut().rfind(|(known, _)| *known == group) {
            // Each file of a Maildir has one recipient.
            Some((Group::Send(route, _), targets))
                if *route != Route::Maildir && targets.len() < recipients_max =>
            {
                targets.push(index);
            }
            Some((Group::Hold(_) | Group::Settle(..), targets)) => targets.push(index),
            _ => groups.push((group, vec![index])),
        }
    }
    groups
}

/// What happens to a group of targets.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Group {
    Send(Route, Vec<Change>),
    Hold(String),
    Settle(Outcome, String),
}

pub(super) fn settled(
    target: usize,
    outcome: Option<Outcome>,
    next_hop: &str,
    reply: &str,
) -> Settled {
    let (next_hop, reply, reports_delivery) = (next_hop.to_owned(), reply.to_owned(), false);
    Settled { target, outcome, next_hop, reply, reports_delivery }
}

/// Envelope of a message for some of its targets.
pub(super) fn outgoing(message: &QueuedMessage, targets: &[usize], bytes: usize) -> Outgoing {
    let QueuedMessage { record, eight_bit, utf8, ret_full, envid, .. } = message;
    let recipient = |target: &usize| {
        let target = message.targets.get(*target)?;
        let notify =
            target.notify.map(|(success, failure, delay)| DsnNotify { success, failure, delay });
        let (to, orcpt) = (target.address.clone(), target.orcpt.clone());
        Some(OutgoingRecipient { to, notify, orcpt })
    };
    Outgoing {
        from: record.envelope.mail_from.clone(),
        recipients: targets.iter().filter_map(recipient).collect(),
        size: bytes as u64,
        eight_bit: *eight_bit,
        utf8: *utf8,
        ret: ret_full.map(|full| if full { Ret::Full } else { Ret::Headers }),
        envid: envid.clone(),
    }
}
