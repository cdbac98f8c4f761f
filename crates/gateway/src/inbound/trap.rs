//! What a listener for traps does with a message: it is judged, learned from and logged, and goes
//! nowhere.
//!
//! Whoever finds such a listener takes it for an open relay. It says 250 to any recipient, but
//! there is no way from here to the spool, the queue or a next hop, so that it relays nothing,
//! delivers nothing and reports to nobody. This is the one place where 250 does not mean that a
//! message is on stable storage: its line of the log is.

use gauntlet_smtp::Reply;
use gauntlet_store::record::Stage;
use gauntlet_store::{Delivery, Outcome};
use tokio::sync::oneshot;

use super::intake::{Arrival, Ends, Intake, Passing};
use crate::ids;

impl Intake {
    /// Judges and logs a message that came to a trap, and says what to answer. It leaves no trace
    /// in what is remembered of senders: anybody can send to a trap in anybody's name.
    pub async fn take_in_trap(&self, arrival: Arrival) -> Vec<Reply> {
        let (id, settings) = (ids::to_text(arrival.id), self.settings.get());
        let received = Stage::now("received", arrival.began);
        let Arrival { id: number, envelope, body, received_ms, began, .. } = arrival;
        let passing = Passing { id: number, envelope, body, received_ms, began };
        let (work, _body) = self.work(&settings, passing, Ends::InTrap).await;
        let Ok(mut record) = self.scan_pool.judge(&settings.judge, work).await else {
            self.metrics.answered_later.add_one();
            return vec![Reply::new(451, (4, 3, 2), "too busy, try again later")];
        };
        record.stages.insert(0, received);
        let at_ms = self.clock.unix_ms();
        let gone = record.dispositions.iter().map(|disposition| Delivery {
            address: disposition.recipient.clone(),
            outcome: Outcome::Discarded,
            at_ms,
            ..Delivery::default()
        });
        record.deliveries = gone.collect();
        let (logged, durable) = oneshot::channel();
        let done = |result| {
            let _the_session_is_gone = logged.send(result);
        };
        self.log.append_then(vec![record], Vec::new(), Box::new(done));
        if let Ok(Err(error)) = durable.await {
            tracing::error!(%error, "mail to a trap could not be logged, and is not taken");
            return vec![Reply::new(451, (4, 3, 0), "cannot be logged now, try again later")];
        }
        self.metrics.trapped.add_one();
        vec![Reply::new(250, (2, 0, 0), format!("Ok: queued as {id}"))]
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gauntlet_store::Outcome;

    use crate::node::test_node::{TestNode, id_in};

    const TRAP: &str = "role = \"trap\"\n[domains]\nlocal = [\"example.net\"]\n[route]\n\
                        next_hop = \"127.0.0.1:1\"\n";

    #[tokio::test]
    async fn a_trap_takes_mail_to_anywhere_and_passes_none_on() {
        let node = TestNode::start(TRAP);
        let mut client = node.client().await;
        let to = ["bob@elsewhere.example", "user%other.example@third.example", "x@example.net"];
        let id = id_in(&client.send("eve@example.com", &to, "Subject: a\r\n\r\nHello").await);
        let record = node.logged(&id).await;
        let outcomes: Vec<_> = record.deliveries.iter().map(|d| d.outcome).collect();
        assert_eq!(outcomes, [Outcome::Discarded; 3]);
        assert_eq!(node.node.queue.count(), 0);
        assert_eq!((node.node.metrics.trapped.get(), node.node.metrics.accepted.get()), (1, 0));
    }

    #[tokio::test]
    async fn a_trap_takes_so_many_messages_an_hour_of_a_size() {
        let limits = "[traps]\nmessages_per_hour_max = 2\nmessage_bytes_max = 1_000\n";
        let node = TestNode::start(&format!("{TRAP}{limits}"));
        let mut client = node.client().await;
        let large = "x".repeat(2_000);
        let reply = client.send("eve@example.com", &["a@b.example"], &large).await;
        assert!(reply.starts_with("552"), "{reply}");
        let reply = client.send("eve@example.com", &["a@b.example"], "\r\nsmall").await;
        assert!(reply.starts_with("250"), "{reply}");
        let over = client.say("MAIL FROM:<eve@example.com>").await;
        assert!(over.starts_with("450 4.7.1"), "{over}");
        node.clock.advance(Duration::from_secs(7_200));
        assert!(client.say("MAIL FROM:<eve@example.com>").await.starts_with("250"));
    }
}
