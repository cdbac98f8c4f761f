//! The running node as a member of its array.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use gauntlet_array::editions::{self, Kind, Scope};
use gauntlet_array::nodes::NodeRow;
use gauntlet_array::orders::{self, Order, OrderRow};
use gauntlet_array::{
    Duties, HeldParts, Member, MemberOptions, MemberState, Readers, SharedLog, SharedParts,
    SharedQuarantine,
};
use gauntlet_console::{ArrayNode, ArrayView};
use gauntlet_gateway::Node;
use gauntlet_gateway::admin::policy_source;
use gauntlet_gateway::clock::now_ms;
use gauntlet_gateway::node::subsystems::ArrayStatus;
use gauntlet_store::log::{
    Bucket, Counts, Feedback, LoggedMessage, MessageLog, Page, Query, TopKind,
};
use gauntlet_store::quarantine::AuditLine;
use gauntlet_store::{Log, Policies, StoreError, Users, reference};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::running::RunningNode;
use super::{queue, recovery, sharing, upgrade};
use crate::array_access as access;
use crate::node_args::NodeArgs;

/// How long a replica is left alone that did not answer.
const REPLICA_PAUSE: Duration = Duration::from_secs(10);
/// How long the end of a node waits for its membership to end.
const END_MAX: Duration = Duration::from_secs(5);

/// A node's membership, until it is dropped or [`Membership::stop`]ped.
pub(crate) struct Membership {
    started_ms: i64,
    state: Arc<Mutex<MemberState>>,
    /// Connections for what is published and ordered.
    orders: Readers,
    /// When a replica is asked again that did not answer while the database was away; none without
    /// a replica.
    replica_due: Option<Mutex<Instant>>,
    /// What all nodes logged.
    pub(crate) log: Arc<SharedLog>,
    /// What all nodes hold; none without an object store.
    pub(crate) held: Option<Arc<SharedQuarantine>>,
    /// What one node does for all.
    pub(crate) duties: Duties,
    stop: watch::Sender<bool>,
    task: Mutex<Option<tokio::task::JoinHandle<()>>>,
    runtime: Mutex<Option<Runtime>>,
}

impl Membership {
    /// Makes the node take part in the array that its configuration names, if it does.
    ///
    /// # Errors
    /// If the address is none, or the node's own folder cannot be used. A database that is away is
    /// no error: the node begins without it.
    pub(crate) fn start(
        node: &Arc<Node>,
        args: &NodeArgs,
        users: &Arc<Users>,
    ) -> anyhow::Result<Option<Arc<Self>>> {
        let config = node.config();
        let Some(database) = access::database(&config)? else { return Ok(None) };
        let own = access::identity(&config)?;
        upgrade::resume(node)?;
        let identity = own.identity.clone();
        let policies = Arc::new(Policies::open(&policy_source::folder(&config))?);
        let (args, users) = (args.clone(), users.clone());
        let objects = access::objects(&config)?;
        let knows_held = Arc::new(AtomicBool::new(objects.is_none()));
        let local = RunningNode {
            node: node.clone(),
            args,
            policies,
            users,
            knows_held: knows_held.clone(),
        };
        let local = Arc::new(local);
        let array = &config.array;
        let options = MemberOptions {
            ship_every: Duration::from_secs(array.ship_seconds),
            status_every: Duration::from_secs(array.status_seconds),
            poll_every: Duration::from_secs(array.poll_seconds),
            counts_every: Duration::from_secs(array.counts_seconds),
            log_days: (!config.console.address.is_empty()).then_some(array.log_days),
            folder: access::folder(&config),
        };
        let clock = gauntlet_store::Clock::system();
        let runtime = access::runtime(1)?;
        let shared = match &objects {
            Some(_) => Some(Arc::new(access::shared_quarantine(&config, &runtime)?)),
            None => None,
        };
        let held =
            objects.map(|objects| HeldParts { quarantine: node.quarantine.clone(), objects });
        let member =
            Member::new(database.clone(), own, node.log.clone(), local, (options, clock), held)
                .sharing(SharedParts {
                    parts: node.shared_parts(),
                    every: Duration::from_secs(array.share_seconds),
                    days: array.shared_days,
                });
        let state = member.state();
        let (stop, stopped) = watch::channel(false);
        let task = runtime.spawn(member.run(stopped));
        if let Some(held) = shared.clone() {
            recovery::watch(node, held, state.clone(), knows_held)?;
        }
        Ok(Some(Arc::new(Membership {
            started_ms: now_ms(),
            state,
            log: access::shared_log(&config, &runtime)?,
            held: shared,
            duties: Duties::new(database.clone(), runtime.handle().clone(), identity),
            orders: Readers::new(database, runtime.handle().clone()),
            replica_due: (!config.array.replica.is_empty()).then(|| Mutex::new(Instant::now())),
            stop,
            task: Mutex::new(Some(task)),
            runtime: Mutex::new(Some(runtime)),
        })))
    }

    /// How the membership is.
    pub(crate) fn state(&self) -> MemberState {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The array's answer; none if its database is away. `what` cannot be asked then, for the log.
    pub(crate) fn answer<T>(
        &self,
        what: &str,
        question: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match self.state().is_connected {
            true => asked(what, question),
            false => Ok(None),
        }
    }

    /// The same for the log, which a replica has, too.
    fn answer_of_log<T>(
        &self,
        question: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        if self.state().is_connected {
            return asked("log", question);
        }
        let Some(due) = &self.replica_due else { return Ok(None) };
        let due = || due.lock().unwrap_or_else(PoisonError::into_inner);
        if *due() > Instant::now() {
            return Ok(None);
        }
        let answer = asked("log", question)?;
        if answer.is_none() {
            // Not every page waits for one that hangs.
            *due() = Instant::now() + REPLICA_PAUSE;
        }
        Ok(answer)
    }

    /// Since when the database is away, in Unix milliseconds; none while it is there, or before it
    /// was tried.
    pub(crate) fn away_since_ms(&self) -> Option<i64> {
        let state = self.state();
        (!state.is_connected && state.since_ms > 0).then_some(state.since_ms)
    }

    /// Ships once more, and ends.
    pub(crate) fn stop(&self) {
        self.stop.send_replace(true);
        let take =
            |task: &Mutex<Option<_>>| task.lock().unwrap_or_else(PoisonError::into_inner).take();
        let task: Option<tokio::task::JoinHandle<()>> = take(&self.task);
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let (Some(runtime), Some(task)) = (runtime, task) {
            let ending = async { tokio::time::timeout(END_MAX, task).await };
            let _the_rest_waits_on_disk = runtime.block_on(ending);
            runtime.shutdown_background();
        }
    }

    /// Publishes a policy for all nodes. Blocks. Returns its number.
    ///
    /// # Errors
    /// If the database cannot be used: then no node has it.
    pub(crate) fn publish_policy(&self, text: &str, who: &str, note: &str) -> anyhow::Result<i64> {
        self.check_running()?;
        let made = self.orders.ask(|session| async move {
            let what = (text, who, note);
            let made = editions::publish(&session, Kind::Policy, &Scope::All, None, what).await;
            (session, made)
        })?;
        Ok(made)
    }

    /// Gives orders, each to the node that is named, and waits for the answers, at most so long.
    /// Blocks.
    ///
    /// # Errors
    /// If the database cannot be used, or there is no such node.
    pub(crate) fn give(
        &self,
        wanted: &[(String, Order)],
        who: &str,
        wait: Duration,
    ) -> anyhow::Result<Vec<OrderRow>> {
        self.check_running()?;
        let given = self.orders.ask(|session| async move {
            let given = orders::give_and_wait(&session, wanted, who, wait).await;
            (session, given)
        })?;
        Ok(given)
    }

    fn check_running(&self) -> anyhow::Result<()> {
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        anyhow::ensure!(runtime.is_some(), "the node is stopping");
        Ok(())
    }

    /// What was done on other nodes, newest first; nothing while the database is away.
    pub(crate) fn activity(&self, own: &str, max: u32) -> Vec<(String, AuditLine)> {
        if !self.state().is_connected {
            return Vec::new();
        }
        self.log.activity(own, max).unwrap_or_else(|error| {
            tracing::warn!(%error, "the array's activity cannot be read");
            Vec::new()
        })
    }

    /// The array as pages show it. Asks the database.
    pub(crate) fn view(&self) -> ArrayView {
        let state = self.state();
        let mut view = ArrayView {
            server: state.server,
            connected: state.is_connected,
            since_ms: state.since_ms,
            error: state.error,
            nodes: Vec::new(),
        };
        if view.connected {
            match self.log.nodes() {
                Ok(nodes) => view.nodes = nodes.into_iter().map(node_view).collect(),
                Err(error) => view.error = error.to_string(),
            }
        }
        view
    }

    /// How this node takes part, for `gauntlet status`. Asks nobody.
    pub(crate) fn status(&self) -> ArrayStatus {
        let (state, problem) = (self.state(), self.problem());
        let shared = state.shared.into_iter();
        ArrayStatus {
            server: state.server,
            connected: state.is_connected,
            since_ms: state.since_ms,
            problem,
            behind: state.behind,
            held_behind: state.held_behind,
            policy: state.policy,
            policy_since_ms: state.policy_since_ms,
            settings: state.settings,
            settings_since_ms: state.settings_since_ms,
            shared_ms: shared.map(|(kind, state)| (kind.to_owned(), state.current_ms)).collect(),
        }
    }

    /// A sentence for the console if something is wrong; none if nothing is.
    pub(crate) fn problem(&self) -> Option<String> {
        let state = self.state();
        if !state.is_connected && !state.error.is_empty() {
            let shown = match self.replica_due.is_some() {
                true => "what the replica has, or the messages of this node alone",
                false => "the messages of this node alone",
            };
            return Some(format!("array: {}. Mail goes on; pages show {shown}.", state.error));
        }
        if !state.objects_error.is_empty() {
            return Some(format!("array: {}. Held mail waits on this node.", state.objects_error));
        }
        let [settings, policy] = [state.settings, state.policy].map(|number| match number {
            0 => "this node's own".to_owned(),
            number => format!("edition {number}"),
        });
        if !state.settings_error.is_empty() {
            let error = state.settings_error;
            return Some(format!(
                "array: newer settings are refused, {settings} stay in force: {error}"
            ));
        }
        let refused = !state.policy_error.is_empty();
        let error = state.policy_error;
        refused
            .then(|| format!("array: a newer policy is refused, {policy} stays in force: {error}"))
    }

    /// Metrics in Prometheus' text format.
    pub(crate) fn metrics(&self) -> String {
        let state = self.state();
        let behind_s = state.behind_since_ms.map_or(0, |since| (now_ms() - since).max(0) / 1_000);
        let all = [
            (
                "array_connected",
                "Whether the array's database is there",
                "gauge",
                u64::from(state.is_connected),
            ),
            (
                "array_shipped_messages_total",
                "Messages shipped, changed ones again",
                "counter",
                state.shipped_messages,
            ),
            (
                "array_shipped_bytes_total",
                "Bytes of the rows that they became",
                "counter",
                state.shipped_bytes,
            ),
            ("array_failures_total", "Connections that failed or broke", "counter", state.failures),
            (
                "array_behind_changes",
                "Changes of the log that wait to be shipped",
                "gauge",
                state.behind,
            ),
            (
                "array_behind_seconds",
                "Age of the oldest message among them",
                "gauge",
                behind_s.cast_unsigned(),
            ),
            (
                "array_shipped_held_total",
                "Changes of held mail shipped",
                "counter",
                state.shipped_held,
            ),
            (
                "array_held_behind_changes",
                "Changes of held mail that wait to be shipped",
                "gauge",
                state.held_behind,
            ),
            (
                "array_policy_number",
                "The array's policy in force; 0: the node's own",
                "gauge",
                state.policy.cast_unsigned(),
            ),
            ("array_orders_total", "Orders carried out", "counter", state.orders),
        ];
        let mut text = String::new();
        for (name, help, kind, value) in all {
            text.push_str(&format!(
                "# HELP gauntlet_{name} {help}\n# TYPE gauntlet_{name} {kind}\ngauntlet_{name} {value}\n"
            ));
        }
        text.push_str(&sharing::metrics(&state.shared, self.started_ms));
        text
    }
}

/// The answer; none, with a word in the log, if there is no database to ask.
fn asked<T>(
    what: &str,
    question: impl FnOnce() -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    match question() {
        Err(StoreError::Remote { message, retry: true }) => {
            tracing::warn!(error = message, "the array's {what} cannot be asked");
            Ok(None)
        }
        answer => answer.map(Some),
    }
}

fn node_view(node: NodeRow) -> ArrayNode {
    let status = node.status.clone();
    ArrayNode {
        state: super::state_of(&node).to_owned(),
        name: node.name,
        group: node.group,
        seen_ms: node.seen_ms,
        clock_ahead_ms: node.clock_ahead_ms,
        program: status.program,
        queued: status.queued,
        sessions: status.sessions,
        behind: status.behind,
        behind_since_ms: status.behind_since_ms,
        policy: status.policy,
        policy_since_ms: status.policy_since_ms,
        policy_error: status.policy_error,
        settings: status.settings,
        settings_since_ms: status.settings_since_ms,
        settings_error: status.settings_error,
        lists_ms: status.lists_ms,
        waiting: status.waiting.into_iter().map(queue::view).collect(),
    }
}

/// What pages search: the log of the array, and without its database the node's own.
pub(crate) fn messages(node: &Node, array: Option<&Arc<Membership>>) -> Arc<dyn MessageLog> {
    match array {
        Some(array) => Arc::new(EitherLog {
            array: array.clone(),
            own: node.log.clone(),
            name: node.config().node.host_name(),
        }),
        None => node.log.clone(),
    }
}

/// The array's log while its database is there, or a replica.
struct EitherLog {
    array: Arc<Membership>,
    own: Arc<Log>,
    /// Name of this node.
    name: String,
}

impl EitherLog {
    fn ask<T>(
        &self,
        question: impl Fn(&dyn MessageLog) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match self.of_array(&question)? {
            Some(answer) => Ok(answer),
            None => question(&*self.own),
        }
    }

    /// Asks the array; none if it cannot be asked.
    fn of_array<T>(
        &self,
        question: impl FnOnce(&dyn MessageLog) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        self.array.answer_of_log(|| question(&*self.array.log))
    }
}

impl MessageLog for EitherLog {
    fn search(&self, query: &Query) -> Result<Page, StoreError> {
        self.ask(|log| log.search(query))
    }

    fn get(&self, reference: &str) -> Result<Option<LoggedMessage>, StoreError> {
        if let Some(found) = self.of_array(|log| log.get(reference))?.flatten() {
            return Ok(Some(found));
        }
        // What was logged a moment ago is not in the array yet.
        let (id, node) = reference::split(reference);
        match node.is_none_or(|node| node == self.name) {
            true => self.own.get(id),
            false => Ok(None),
        }
    }

    fn volume(&self, since: i64, until: i64, span: u32) -> Result<Vec<Bucket>, StoreError> {
        self.ask(|log| log.volume(since, until, span))
    }

    fn counts(&self, since: i64, until: i64, span: u32) -> Result<Counts, StoreError> {
        self.ask(|log| log.counts(since, until, span))
    }

    fn tops(
        &self,
        kind: TopKind,
        since: i64,
        until: i64,
    ) -> Result<BTreeMap<String, u64>, StoreError> {
        self.ask(|log| log.tops(kind, since, until))
    }

    fn top_recipients(&self, since: i64, until: i64) -> Result<BTreeMap<String, u64>, StoreError> {
        self.ask(|log| log.top_recipients(since, until))
    }

    fn feedback(&self, since: i64, until: i64) -> Result<Vec<Feedback>, StoreError> {
        self.ask(|log| log.feedback(since, until))
    }

    fn oldest_ms(&self) -> Result<Option<i64>, StoreError> {
        self.ask(|log| log.oldest_ms())
    }
}
