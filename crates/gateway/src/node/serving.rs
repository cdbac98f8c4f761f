//! Starting the threads and tasks of a node.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use super::{Node, opening};
use crate::inbound::challenge_listener::ChallengeListener;
use crate::inbound::deferrals::DeferralsLogged;
use crate::inbound::intake::Intake;
use crate::inbound::originals::Originals;
use crate::inbound::policy_actions::PolicyActions;
use crate::inbound::receiver::{Listener, Receiver};
use crate::inbound::services::{Service, ServiceCore};
use crate::scan::scan_pool::ScanPool;

impl Node {
    /// Finishes what the last process left, and accepts.
    pub(super) fn begin(
        self: Arc<Self>,
        listeners: Vec<Listener>,
        services: Vec<Service>,
        proofs: Option<ChallengeListener>,
    ) -> anyhow::Result<Arc<Self>> {
        self.finish_releases()?;
        self.listen(listeners, services)?;
        tokio::spawn(self.clone().keep_certificate(proofs));
        Ok(self)
    }

    /// Starts the scan pool, the queue and the sessions.
    fn listen(
        self: &Arc<Self>,
        listeners: Vec<Listener>,
        services: Vec<Service>,
    ) -> anyhow::Result<()> {
        let config = self.config();
        let scan = &config.scan;
        let wait = Duration::from_secs(scan.wait_seconds_max);
        let metrics = &self.metrics;
        let scan_pool = ScanPool::start(scan.threads, scan.queue_max, wait, metrics)?;
        let actions = PolicyActions::start(config.node.data.clone())?;
        let intake = Arc::new(Intake {
            actions,
            good_mail: self.good_mail.clone(),
            originals: Originals::new(self.logins.shared_users()),
            rate_limiter: self.rate_limiter.clone(),
            scan_pool,
            clock: self.clock.clone(),
            spool: self.spool.clone(),
            queue: self.queue.clone(),
            log: self.log.clone(),
            deferrals: DeferralsLogged::default(),
            settings: self.in_force.inbound(),
            metrics: metrics.clone(),
            null: opening::is_null(&config),
        });
        for (index, service) in services.into_iter().enumerate() {
            let (ids, stopping) = (self.ids.clone(), self.stop.subscribe());
            let host = config.node.host_name();
            let (intake, memory) = (intake.clone(), self.budgets.memory.clone());
            let data = config.node.data.clone();
            let idle_min = Duration::from_secs(config.stress.idle_seconds_min);
            let core = ServiceCore { intake, ids, memory, host, data, index, idle_min };
            tokio::spawn(service.run(core, stopping));
        }
        let receiver = Arc::new(Receiver {
            host: config.node.host_name(),
            settings: self.in_force.inbound(),
            sender: self.queue.sender(),
            admission: self.admission.clone(),
            memory: self.budgets.memory.clone(),
            overflow: self.budgets.overflow.clone(),
            rate_limiter: self.rate_limiter.clone(),
            intake,
            ids: self.ids.clone(),
            clock: self.clock.clone(),
            logins: self.logins.clone(),
            metrics: metrics.clone(),
            stopping: self.stop.subscribe(),
            phase: self.draining.subscribe(),
        });
        tokio::spawn(self.queue.clone().run());
        tokio::spawn(receiver.clone().watch_stress());
        for listener in listeners {
            tokio::spawn(receiver.clone().run(listener));
        }
        tokio::spawn(self.clone().housekeeping());
        tokio::spawn(self.clone().move_held_mail());
        tokio::spawn(self.clone().keep_time());
        tokio::spawn(self.clone().watch_groups());
        tokio::spawn(self.clone().watch_lists());
        tokio::spawn(self.clone().fetch_lists());
        self.watch_reports().context("a thread for reports")?;
        Ok(())
    }
}
