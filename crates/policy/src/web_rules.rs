//! Rules about web requests, as they are read: the same file, grammar and order as those about
//! mail.
//!
//! ```toml
//! [[web_rule]]
//! name = "gambling in the office"
//! when = { url.category = "gambling", client.network = "10.1.0.0/16" }
//! do = { block = "Gambling sites are closed here." }
//! ```

mod check;
pub mod condition;
mod never;
mod quota;
mod rule;

pub(crate) use self::check::check;
pub use self::condition::WebCondition;
pub(crate) use self::quota::WebQuotaShape;
pub use self::quota::{Period, QUOTAS_MAX, QuotaUse, WebQuota};
pub(crate) use self::rule::WebRuleShape;
pub use self::rule::{WEB_RULES_MAX, WebRule};
