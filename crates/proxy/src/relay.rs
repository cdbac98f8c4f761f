//! Bytes of a tunnel both ways, counted for quotas, and logged in the end.

use std::future::Future;
use std::time::Duration;

use crate::access_log::Outcome;
use crate::exchange::Exchange;
use crate::judge::{BlockReason, Decision, Judge};
use crate::meter::Metered;
use crate::progress::Progress;
use crate::refusal::Refusal;
use crate::stream::Stream;
use crate::tunnel::{self, Bytes, End, Pipes};

/// How often what passes is counted.
const METER_STEP: Duration = Duration::from_secs(10);

/// Passes bytes both ways until it ends; what passed is logged then.
pub(crate) async fn relay(
    mut exchange: Exchange,
    client: Box<dyn Stream>,
    server: Box<dyn Stream>,
    pipes: &Pipes,
    judge: &dyn Judge,
    idle_max: Duration,
    stop: impl Future<Output = ()>,
) {
    let (progress, bytes) = (Progress::new(idle_max), Bytes::default());
    let metered = exchange.metered.take();
    let mut counted = metered.map(|metered| Counted { metered, bytes: &bytes, told: 0 });
    let end = tokio::select! {
        end = tunnel::relay(client, server, pipes, &progress, &bytes, stop) => end,
        refusal = used_up(counted.as_mut(), judge) => {
            exchange.refused(&refusal);
            End::UsedUp
        }
    };
    drop(counted);
    exchange.record.bytes_out = bytes.to_client.into_inner();
    exchange.record.bytes_in = bytes.from_client.into_inner();
    exchange.record.outcome = match end {
        // Many programs close a tunnel by a reset.
        End::Closed | End::Broken => Outcome::Tunnel,
        End::Idle => {
            exchange.cut_by = Some("the time limit: nothing passed");
            Outcome::Aborted
        }
        End::Stopped => {
            exchange.cut_by = Some("the proxy as it stopped");
            Outcome::Aborted
        }
        End::UsedUp => exchange.end_of_whole(),
    };
}

/// Counts what passes; ready when it may not go on: a tunnel may last for hours, in which a quota
/// is used up.
async fn used_up(counted: Option<&mut Counted<'_>>, judge: &dyn Judge) -> Refusal {
    let Some(counted) = counted else { return std::future::pending().await };
    loop {
        tokio::time::sleep(METER_STEP).await;
        let has_passed = counted.tell();
        if !has_passed || !counted.metered.meter.is_used_up() {
            continue;
        }
        match judge.request(&counted.metered.web).into_parts().0 {
            Decision::Allow | Decision::Noted(..) | Decision::Inspect(_) => {}
            Decision::Block(reason) | Decision::Warn(reason, _) => {
                return Refusal::Blocked(reason);
            }
            Decision::Redirect(to) => {
                let text = "A tunnel cannot be sent elsewhere.".to_owned();
                return Refusal::Blocked(BlockReason { rule: format!("redirect: {to}"), text });
            }
        }
    }
}

/// What passes and is counted, to its end.
struct Counted<'a> {
    metered: Metered,
    bytes: &'a Bytes,
    told: u64,
}

impl Counted<'_> {
    /// Tells what has passed since the last time; whether anything has.
    fn tell(&mut self) -> bool {
        let passed = self.bytes.all();
        let step = passed - self.told;
        self.told = passed;
        if step > 0 {
            self.metered.meter.passed(step);
        }
        step > 0
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.tell();
    }
}
