//! Stops of a node in simulated time. Conversations are those of `gauntlet_smtp` on both sides, the
//! spool is a real one in memory that is opened again after each stop, retries are those of the
//! schedule; clients, next hop, network and clock are made up from a seed. Days take milliseconds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use gauntlet_smtp::{
    Client, ClientConfig, ClientEvent, Event, Features, Outgoing, OutgoingRecipient, Reply,
    Session, SessionConfig, SessionLimits,
};
use gauntlet_store::spool::Ram;
use gauntlet_store::{Outcome, Spool, SpoolOptions};

use super::{Drain, POLL_INTERVAL};
use crate::config::SenderSettings;
use crate::ids::Ids;
use crate::outbound::queue::schedule::Schedule;
use crate::random::Random;

const SECOND: i64 = 1_000;
/// Clients, and messages of each.
const CLIENTS: usize = 12;
const MESSAGES: u32 = 6;
/// Stops of one run.
const STOPS: usize = 6;
/// Events of one run, far more than it takes.
const EVENTS_MAX: usize = 1_000_000;

#[derive(Debug, Clone, Copy)]
enum Happens {
    /// It is this client's turn: it hears what was said and says what follows.
    Turn(usize),
    /// A message's attempt is over; of this run of the node.
    Attempted(u32, u64),
    /// A message is due again.
    Due(u32, u64),
    Stop,
    Look(i64),
    Start,
}

/// A connection, both ends of it.
struct Link {
    session: Option<Session>,
    client: Client,
    to_client: Vec<u8>,
    /// Pieces of a body that are still to be sent.
    body: Vec<Vec<u8>>,
}

/// Somebody with messages to send, one connection after the other.
struct Correspondent {
    link: Option<Link>,
    sent: u32,
    pace: i64,
}

struct World {
    random: Random,
    now: i64,
    order: u64,
    events: BTreeMap<(i64, u64), Happens>,
    medium: Arc<Ram>,
    spool: Option<Spool>,
    /// Counts the node's starts; what an earlier process planned is over.
    run: u32,
    stopping: bool,
    ids: Ids,
    settings: SenderSettings,
    grace: Duration,
    active: BTreeMap<u64, u32>,
    attempts: BTreeMap<u64, u32>,
    clients: Vec<Correspondent>,
    away: Vec<(i64, i64)>,
    /// How often each message was answered 250, and how often the next hop took it.
    accepted: BTreeMap<String, u32>,
    taken: BTreeMap<String, u32>,
    /// Stops that came to an end by themselves, and those whose grace ran out.
    clean: u32,
    cut_short: u32,
}

impl World {
    fn new(seed: u64) -> Self {
        let random = Random::seeded(seed);
        let below = |n: i64| i64::try_from(random.below(n.unsigned_abs())).unwrap();
        let hours = 4 * 3_600 * SECOND;
        let away = (0..4).map(|_| {
            let from = below(hours);
            (from, from + below(1_200 * SECOND))
        });
        let away = away.collect();
        let clients = (0..CLIENTS)
            .map(|_| Correspondent { link: None, sent: 0, pace: 1 + below(1 + below(4 * SECOND)) })
            .collect();
        let mut world = World {
            now: 0,
            order: 0,
            events: BTreeMap::new(),
            medium: Arc::default(),
            spool: None,
            run: 0,
            stopping: false,
            ids: Ids::default(),
            settings: SenderSettings::default(),
            grace: Duration::from_millis(random.below(30_000)),
            active: BTreeMap::new(),
            attempts: BTreeMap::new(),
            clients,
            away,
            accepted: BTreeMap::new(),
            taken: BTreeMap::new(),
            clean: 0,
            cut_short: 0,
            random,
        };
        world.plan(0, Happens::Start);
        for k in 0..CLIENTS {
            let at = world.below(600 * SECOND);
            world.plan(at, Happens::Turn(k));
        }
        for _ in 0..STOPS {
            let at = 1 + world.below(900 * SECOND);
            world.plan(at, Happens::Stop);
        }
        world
    }

    fn below(&self, n: i64) -> i64 {
        i64::try_from(self.random.below(n.unsigned_abs())).unwrap()
    }

    fn plan(&mut self, after: i64, happens: Happens) {
        self.order += 1;
        self.events.insert((self.now + after, self.order), happens);
    }

    fn spool(&self) -> &Spool {
        self.spool.as_ref().expect("the node runs")
    }

    fn go(&mut self) {
        for _ in 0..EVENTS_MAX {
            let Some(((at, _), happens)) = self.events.pop_first() else { return };
            self.now = at;
            match happens {
                Happens::Turn(k) => self.turn(k),
                Happens::Attempted(run, id) if run == self.run => self.attempted(id),
                Happens::Due(run, id) if run == self.run => self.attempt(id),
                Happens::Attempted(..) | Happens::Due(..) => {}
                Happens::Stop if self.spool.is_some() && !self.stopping => self.stop(),
                Happens::Stop => {}
                Happens::Look(began) => self.look(began),
                Happens::Start => self.start(),
            }
        }
        panic!("it does not come to an end");
    }

    /// The process starts: what the spool holds is in the queue.
    fn start(&mut self) {
        self.run += 1;
        self.stopping = false;
        let (spool, found) = Spool::open(self.medium.clone(), SpoolOptions::default()).unwrap();
        self.spool = Some(spool);
        self.attempts.clear();
        for (id, due) in found.messages {
            self.ids.see(id);
            let after = (due - self.now).max(0);
            self.plan(after, Happens::Due(self.run, id));
        }
    }

    fn stop(&mut self) {
        self.stopping = true;
        for k in 0..CLIENTS {
            self.end_between_transactions(k);
        }
        self.look(self.now);
    }

    /// As the node does while it stops: looks again, or ends the process.
    fn look(&mut self, began: i64) {
        let elapsed = Duration::from_millis((self.now - began).cast_unsigned());
        let sessions = self.sessions();
        if Drain::within(self.grace).goes_on(elapsed, sessions, self.active.is_empty()) {
            let pause = i64::try_from(POLL_INTERVAL.as_millis()).unwrap();
            return self.plan(pause, Happens::Look(began));
        }
        assert!(elapsed <= self.grace + POLL_INTERVAL, "it took {elapsed:?} of {:?}", self.grace);
        match sessions == 0 && self.active.is_empty() {
            true => self.clean += 1,
            false => self.cut_short += 1,
        }
        // The process ends: what it had in memory is gone, its connections are closed.
        self.active.clear();
        for client in &mut self.clients {
            if let Some(link) = &mut client.link {
                link.session = None;
            }
        }
        self.spool().flush();
        self.spool = None;
        self.run += 1;
        let pause = 1 + self.below(600 * SECOND);
        self.plan(pause, Happens::Start);
    }

    fn sessions(&self) -> usize {
        let links = self.clients.iter().filter_map(|c| c.link.as_ref());
        links.filter(|link| link.session.is_some()).count()
    }

    fn end_between_transactions(&mut self, k: usize) {
        let Some(link) = &mut self.clients[k].link else { return };
        if link.session.as_ref().is_some_and(|s| Drain::ends_session(s.in_transaction(), 0)) {
            link.session = None;
            Reply::new(421, (4, 3, 2), "shutting down").write(&mut link.to_client);
        }
    }

    fn turn(&mut self, k: usize) {
        let open = self.spool.is_some() && !self.stopping;
        let Correspondent { link, sent, pace } = &mut self.clients[k];
        let pace = *pace;
        if link.is_none() {
            if *sent == MESSAGES {
                return;
            }
            if open {
                *link = Some(connect());
                return self.plan(pace, Happens::Turn(k));
            }
            // Refused: it comes again.
            let pause = 1 + self.below(60 * SECOND);
            return self.plan(pause, Happens::Turn(k));
        }
        let said = self.hear(k);
        let live = self.clients[k].link.as_ref().is_some_and(|link| link.session.is_some());
        match (said, live) {
            (Some(said), true) => {
                self.node_hears(k, &said);
                self.plan(pace, Happens::Turn(k));
            }
            _ => {
                let unheard =
                    self.clients[k].link.as_ref().is_some_and(|l| !l.to_client.is_empty());
                if !unheard {
                    self.clients[k].link = None;
                }
                let pause = 1 + self.below(30 * SECOND);
                self.plan(pause, Happens::Turn(k));
            }
        }
    }

    /// A client hears what came: what it says next, or none if it is done with this connection.
    fn hear(&mut self, k: usize) -> Option<Vec<u8>> {
        let name = |n: u32| format!("c{k}-{n}");
        let Correspondent { link, sent, .. } = &mut self.clients[k];
        let link = link.as_mut()?;
        let mut said = Vec::new();
        if !link.body.is_empty() {
            return Some(link.body.remove(0));
        }
        let heard = std::mem::take(&mut link.to_client);
        let mut input = heard.as_slice();
        loop {
            match link.client.next(&mut input, &mut said) {
                Ok(ClientEvent::More) => return Some(said),
                Ok(ClientEvent::Ready) => link.client.send(outgoing(), &mut said),
                Ok(ClientEvent::Body) => {
                    let text =
                        format!("X-Token: {}\r\n\r\n{}.\r\n", name(*sent), "x\r\n".repeat(40));
                    let piece = 1 + usize::try_from(self.random.below(text.len() as u64)).unwrap();
                    link.body = text.as_bytes().chunks(piece).map(<[u8]>::to_vec).collect();
                    return Some(said);
                }
                Ok(ClientEvent::Done(replies)) => {
                    if replies.iter().all(Reply::is_positive) {
                        *self.accepted.entry(name(*sent)).or_default() += 1;
                        *sent += 1;
                    }
                    if *sent == MESSAGES || link.client.is_closing() {
                        return None;
                    }
                    link.client.send(outgoing(), &mut said);
                }
                Ok(ClientEvent::StartTls) => unreachable!("it is not asked for"),
                Err(_) => return None,
            }
        }
    }

    /// The node's side of a conversation, as the Receiver has it.
    fn node_hears(&mut self, k: usize, said: &[u8]) {
        let mut input = said;
        loop {
            let Some(link) = &mut self.clients[k].link else { return };
            let Some(session) = &mut link.session else { return };
            let out = &mut link.to_client;
            match session.next(&mut input, out) {
                Event::More => break,
                Event::Mail(_) => {
                    assert!(!self.stopping, "a node that stops begins no transaction");
                    session.answer(&Reply::new(250, (2, 1, 0), "Ok"), out);
                }
                Event::Rcpt(_) => {
                    session.answer(&Reply::new(250, (2, 1, 5), "Ok"), out);
                }
                Event::Data => {
                    session.start_body(Vec::new(), out);
                }
                Event::Message => {
                    let body = session.take_message().expect("it was announced").body;
                    let id = self.accept(body);
                    let link = self.clients[k].link.as_mut().unwrap();
                    let reply = Reply::new(250, (2, 0, 0), format!("Ok: queued as {id:x}"));
                    link.session.as_mut().unwrap().answer_message(&[reply], &mut link.to_client);
                }
                Event::Close(_) => {
                    link.session = None;
                    return;
                }
                event => panic!("unexpected: {event:?}"),
            }
        }
        if self.stopping {
            self.end_between_transactions(k);
        }
    }

    /// Makes a message durable and begins its delivery.
    fn accept(&mut self, body: Vec<u8>) -> u64 {
        let id = self.ids.next(self.now);
        let (sender, durable) = channel();
        let done = Box::new(move |result: Result<(), _>| sender.send(result.is_ok()).unwrap());
        self.spool().put(id, self.now, Vec::new(), body.into(), done);
        assert!(durable.recv().unwrap());
        self.attempt(id);
        id
    }

    fn attempt(&mut self, id: u64) {
        self.active.insert(id, self.run);
        let took = 1 + self.below(1 + self.below(20 * SECOND));
        self.plan(took, Happens::Attempted(self.run, id));
    }

    /// The next hop has answered, or was away.
    fn attempted(&mut self, id: u64) {
        self.active.remove(&id).expect("it was being delivered");
        let body = self.spool().read(id).expect("it is in the spool").body;
        let text = String::from_utf8(body).unwrap();
        let token = text.lines().next().unwrap().trim_start_matches("X-Token: ").to_owned();
        let there = !self.away.iter().any(|(from, to)| (*from..*to).contains(&self.now));
        if there {
            *self.taken.entry(token).or_default() += 1;
        }
        let attempt = there.then_some(Outcome::Delivered);
        let schedule = Schedule::of(&self.settings);
        let outcome = schedule.outcome(attempt, crate::ids::time_of(id), self.now);
        let attempts = self.attempts.entry(id).or_default();
        *attempts += 1;
        let due = schedule.next_attempt(id, *attempts, self.now);
        self.spool().set_state(id, due, b"state");
        if outcome.is_final() {
            self.spool().done(id);
        } else {
            self.plan(due - self.now, Happens::Due(self.run, id));
        }
    }
}

fn connect() -> Link {
    let limits = SessionLimits::default();
    let config = SessionConfig { host: "gw.test".into(), limits, features: Features::default() };
    let session = Session::new(Arc::new(config), false);
    let mut to_client = Vec::new();
    session.greet(&mut to_client);
    let config = ClientConfig { helo: "client.test".into(), ..ClientConfig::default() };
    let client = Client::new(config, false);
    Link { session: Some(session), client, to_client, body: Vec::new() }
}

fn outgoing() -> Outgoing {
    let recipient = OutgoingRecipient { to: "bob@example.net".into(), ..Default::default() };
    Outgoing { from: "ann@example.org".into(), recipients: vec![recipient], ..Outgoing::default() }
}

#[test]
fn stops_lose_nothing_and_deliver_nothing_twice() {
    let seeds = std::env::var("GAUNTLET_SEED").ok().and_then(|s| s.parse().ok());
    let seeds = seeds.map_or(1..=30, |seed: u64| seed..=seed);
    let one = seeds.start() == seeds.end();
    let (mut clean, mut cut_short) = (0, 0);
    for seed in seeds {
        eprintln!("seed {seed}");
        let mut world = World::new(seed);
        world.go();
        let all = CLIENTS * MESSAGES as usize;
        assert_eq!(world.accepted.len(), all, "seed {seed}: every client got rid of its mail");
        assert!(world.accepted.values().all(|n| *n == 1), "seed {seed}: {:?}", world.accepted);
        assert_eq!(world.taken, world.accepted, "seed {seed}: once each, and nothing else");
        assert_eq!(world.spool().usage().messages, 0, "seed {seed}");
        assert!(world.clean + world.cut_short > 0, "seed {seed}: it stopped");
        clean += world.clean;
        cut_short += world.cut_short;
    }
    eprintln!("{clean} stops came to an end by themselves, {cut_short} ran out of grace");
    assert!(one || (clean > 10 && cut_short > 10), "{clean} {cut_short}: both were tried");
}
