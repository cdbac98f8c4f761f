//! Orders about held mail: a manager decides, the node that holds the message does it.

use std::time::Duration;

use gauntlet_store::StoreError;

use crate::held::SharedQuarantine;
use crate::held_settled::LOOKED_AT;
use crate::orders::{self, Order, OrderRow};

impl SharedQuarantine {
    /// The last orders about held mail, newest first, each with its item. Blocks.
    ///
    /// # Errors
    /// If the database cannot be asked.
    pub fn orders(&self) -> Result<Vec<(String, OrderRow)>, StoreError> {
        self.ask(|session| async {
            let found = orders::of_held_mail(&session, LOOKED_AT).await;
            (session, found)
        })
    }

    /// Gives these orders, each to the node that is named, and waits for the answers, at most so
    /// long. The result has one row an order; one without a time of its end is still open, and is
    /// done when its node takes it. Blocks.
    ///
    /// # Errors
    /// If an order cannot be given: then none of them is.
    pub fn give(
        &self,
        wanted: &[(String, Order)],
        who: &str,
        wait: Duration,
    ) -> Result<Vec<OrderRow>, StoreError> {
        self.ask(|session| async move {
            let given = orders::give_and_wait(&session, wanted, who, wait).await;
            (session, given)
        })
    }
}
