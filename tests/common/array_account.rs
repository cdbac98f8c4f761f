//! Where every message of a run is afterwards, and whether the array's log and quarantine say so.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use gauntlet_mail::date::DAY_MS;
use gauntlet_store::log::{MessageLog, Summary};
use gauntlet_store::quarantine::{Held, HeldMail, State};
use gauntlet_store::record::Outcome;
use gauntlet_store::{Log, Quarantine};

use super::array_load::{Answers, HELD, REFUSED, Told, sender_of_token};
use super::array_site::{Member, Site, all_held, all_logged};
use super::tokens;

/// What a run came to.
#[derive(Debug, Default)]
#[allow(dead_code, reason = "printed as it is")]
pub(crate) struct Account {
    /// Messages that clients were told are taken.
    pub(crate) taken: usize,
    pub(crate) refused: usize,
    pub(crate) unanswered: usize,
    /// Delivered, more than once among them.
    pub(crate) delivered: usize,
    pub(crate) twice: usize,
    pub(crate) held: usize,
    pub(crate) released: usize,
    /// Messages in the array's log, and how many of them moved.
    pub(crate) logged: usize,
    pub(crate) moved: usize,
    /// Messages that the policy holds or refuses, whatever is broken; each was.
    pub(crate) judged: usize,
}

/// The token in the subject of a message.
fn token_in(subject: &str) -> String {
    subject.rsplit(' ').next().unwrap_or_default().to_owned()
}

/// Stops all nodes of a site where nothing waits, and accounts for all messages.
pub(crate) fn account(site: &mut Site, answers: &Answers) -> Account {
    site.wait_until_quiet();
    for member in &mut site.members {
        member.node.stop();
    }
    let (log, quarantine) = site.shared();
    let logged = all_logged(&*log);
    same_log(site, &logged);
    let held = all_held(&quarantine);
    same_quarantine(site, &held, &quarantine);
    let delivered = tokens(&site.sink.taken());
    let mut account = places(answers, &held, &delivered);
    account.judged = judged(answers, &held, &delivered);
    outcomes(answers, &held, &logged, &delivered);
    account.logged = logged.len();
    // A release is a message of its own in the log.
    let held: BTreeSet<String> = held.iter().map(|held| token_in(&held.item.subject)).collect();
    let once = |message: &&Summary| !held.contains(&token_in(&message.subject));
    account.moved = moved(&*log, &logged.iter().filter(once).collect::<Vec<_>>());
    account
}

/// The array's log has what the nodes have, each message once; so do its counts.
fn same_log(site: &Site, logged: &[Summary]) {
    let mut own: Vec<Summary> = site.members.iter().flat_map(Member::own_log).collect();
    own.sort_by_key(|message| Reverse((message.cursor, message.node.clone())));
    let key = |m: &Summary| (m.node.clone(), m.id.clone());
    let (here, there): (BTreeSet<_>, BTreeSet<_>) =
        (own.iter().map(key).collect(), logged.iter().map(key).collect());
    let missing: Vec<_> = here.difference(&there).collect();
    assert!(missing.is_empty(), "not in the array's log: {missing:?}");
    let invented: Vec<_> = there.difference(&here).collect();
    assert!(invented.is_empty(), "only in the array's log: {invented:?}");
    for (own, shared) in own.iter().zip(logged) {
        assert_eq!(own, shared, "the array's log has another state");
    }
    assert_eq!(own.len(), logged.len(), "a message is in the array's log twice");
    let Some(newest) = own.first() else { return };
    let range = (newest.received_ms - 2 * DAY_MS, newest.received_ms + DAY_MS);
    let count = |member: &Member| {
        let log = Log::open(&member.node.data().join("log")).unwrap();
        log.volume(range.0, range.1, 60).unwrap().iter().map(|b| b.messages).sum::<u64>()
    };
    let own: u64 = site.members.iter().map(count).sum();
    assert_eq!(site.server.sql("SELECT sum(messages) FROM gauntlet.log_count"), own.to_string());
}

/// The array's index has what the nodes hold, and each body is readable and the same.
fn same_quarantine(site: &Site, held: &[Held], shared: &dyn HeldMail) {
    let there: BTreeMap<(String, String), &Held> =
        held.iter().map(|h| ((h.node.clone(), h.item.id.clone()), h)).collect();
    assert_eq!(there.len(), held.len(), "an item is in the array's index twice");
    let mut count = 0;
    for member in &site.members {
        let own = Quarantine::open(&member.node.data().join("quarantine")).unwrap();
        for here in all_held(&own) {
            count += 1;
            let id = &here.item.id;
            let found = there.get(&(member.name.clone(), id.clone()));
            let found = found.unwrap_or_else(|| panic!("{id} of {} is not listed", member.name));
            let of = |h: &Held| (h.state, h.changed_ms, h.size, h.item.clone());
            assert_eq!(of(found), of(&here), "{id} of {}", member.name);
            let is_alone = held.iter().filter(|h| h.item.id == *id).count() == 1;
            if here.state == State::Held && is_alone {
                assert_eq!(shared.body(id).unwrap(), own.body(id).unwrap(), "{id}");
            }
        }
    }
    assert_eq!(count, held.len(), "the array's index has items that no node has");
}

/// Where each message is: delivered, held, or nowhere if its client was told so.
fn places(answers: &Answers, held: &[Held], delivered: &BTreeMap<String, usize>) -> Account {
    let mut items: BTreeMap<String, Vec<State>> = BTreeMap::new();
    for item in held {
        items.entry(token_in(&item.item.subject)).or_default().push(item.state);
    }
    let mut account = Account { held: held.len(), ..Account::default() };
    let (mut lost, mut unwanted) = (Vec::new(), Vec::new());
    for (token, told) in answers {
        let times = delivered.get(token).copied().unwrap_or(0);
        let states = items.get(token).map_or(&[][..], Vec::as_slice);
        assert!(states.len() <= 1, "{token} is held {} times", states.len());
        account.delivered += usize::from(times > 0);
        account.twice += usize::from(times > 1);
        let is_released = states == [State::Released];
        account.released += usize::from(is_released);
        if !states.is_empty() && !is_released && times > 0 {
            unwanted.push(format!("{token} is {states:?} and was delivered"));
        }
        match told {
            Told::Taken => {
                account.taken += 1;
                if times == 0 && (states.is_empty() || is_released) {
                    lost.push(format!("{token} {states:?}"));
                }
            }
            Told::Refused | Told::Later => {
                account.refused += usize::from(*told == Told::Refused);
                if times > 0 || !states.is_empty() {
                    unwanted.push(format!("{token} was answered {told:?}"));
                }
            }
            Told::Nothing => account.unanswered += 1,
        }
    }
    assert!(lost.is_empty(), "{} lost: {lost:?}", lost.len());
    assert!(unwanted.is_empty(), "{unwanted:?}");
    account
}

/// All nodes went by the array's policy all the time, also those that were started while the
/// database was away: what it holds is held, and what it refuses was refused. How many there are.
fn judged(answers: &Answers, held: &[Held], delivered: &BTreeMap<String, usize>) -> usize {
    let held: BTreeSet<String> = held.iter().map(|held| token_in(&held.item.subject)).collect();
    let (mut count, mut wrong) = (0, Vec::new());
    for (token, told) in answers {
        let (is_held, is_delivered) = (held.contains(token), delivered.contains_key(token));
        let is_right = match (sender_of_token(token), told) {
            (HELD, Told::Taken) => is_held,
            (HELD, _) => is_held || !is_delivered,
            (REFUSED, told) => *told != Told::Taken && !is_held && !is_delivered,
            _ => continue,
        };
        count += usize::from(matches!(told, Told::Taken | Told::Refused));
        if !is_right {
            wrong.push(format!("{token} of {}: {told:?}", sender_of_token(token)));
        }
    }
    assert!(wrong.is_empty(), "not as the policy says: {wrong:?}");
    assert!(count > 0, "the load had such mail");
    count
}

/// The array's log says of each message what became of it.
fn outcomes(
    answers: &Answers,
    held: &[Held],
    logged: &[Summary],
    delivered: &BTreeMap<String, usize>,
) {
    let held: BTreeSet<String> = held.iter().map(|h| token_in(&h.item.subject)).collect();
    let mut records: BTreeMap<String, Vec<&Summary>> = BTreeMap::new();
    for message in logged {
        records.entry(token_in(&message.subject)).or_default().push(message);
    }
    let mut wrong = Vec::new();
    for token in answers.iter().filter(|(_, told)| **told == Told::Taken).map(|(token, _)| token) {
        let found = records.get(token).map_or(&[][..], Vec::as_slice);
        let any = |test: fn(&Summary) -> bool| found.iter().any(|message| test(message));
        let said = match held.contains(token) {
            true => any(|m| m.recipients.iter().any(|r| r.action == "quarantine")),
            false => any(|m| m.recipients.iter().any(|r| r.outcome == Some(Outcome::Delivered))),
        };
        if !said {
            let times = delivered.get(token).copied().unwrap_or(0);
            wrong.push(format!("{token}, delivered {times} times, is logged as {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// How many messages came from another node.
fn moved(log: &dyn MessageLog, logged: &[&Summary]) -> usize {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for message in logged {
        *times.entry(&message.subject).or_default() += 1;
    }
    let several: Vec<&str> = times.iter().filter(|(_, n)| **n > 1).map(|(s, _)| *s).collect();
    for subject in &several {
        let of = logged.iter().filter(|message| message.subject == **subject);
        let arrived = of.filter(|message| {
            let query = gauntlet_store::Query {
                id: message.id.clone(),
                event: "moved_here".to_owned(),
                ..Default::default()
            };
            log.search(&query).unwrap().messages.iter().any(|m| m.node == message.node)
        });
        let here = arrived.count();
        assert_eq!(here + 1, times[subject], "{subject} is logged twice, but did not move");
    }
    several.len()
}
