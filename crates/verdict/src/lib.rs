//! Verdict types that every crate may use without depending on the engine: class and verdict, where
//! classes begin, lists of addresses and networks, and what is done in the end.
//!
//! ```text
//! engine ─▶ Verdict ─▶ policy ─▶ Disposition ─▶ gateway, store, console
//! ```
//!
//! Plain types, pure functions. Rules and evidence ([`gauntlet_mail::Hit`],
//! [`gauntlet_mail::Evidence`]), envelope and facts are those of `mail`.

pub mod calibration;
pub mod data_loss;
pub mod disposition;
mod listed_url;
pub mod lists;
mod released_by;
pub mod removal;
pub mod thresholds;
pub mod verdict;

pub use calibration::{SiteCalibration, ThresholdCheck};
pub use data_loss::{DataEvidence, DataFinding, DataLoss};
pub use disposition::{ADMIN_ONLY_FOLDERS, Change, Disposition, Final, ReleasedBy, Trace};
pub use listed_url::ListedUrl;
pub use lists::List;
pub use removal::{Original, Removal, RemovedPart, RenamedPart};
pub use thresholds::{Thresholds, probability_reached_by};
pub use verdict::{Class, Counterfactual, FilterCost, Verdict};
