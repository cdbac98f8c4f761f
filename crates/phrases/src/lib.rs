//! Weighted phrases: what a page is about, by the words on it.
//!
//! ```text
//! files ─▶ list::Reader ─▶ Lists ─▶ PhraseSet (one automaton)
//!                                       │
//! page, in pieces ─▶ Scanner ─▶ text, page as it stands ─▶ Score
//! ```
//!
//! Lists of DansGuardian and e2guardian are read unchanged; every line that is not understood is
//! told ([`Problem`]). A [`Score`] names each phrase that was found, with its file and line, and
//! what would have changed the verdict. Everything is bounded ([`limits`]), and the same text
//! has the same score however it is cut.
//!
//! Pure but for [`list::fetch`], which reads files.

mod charset;
mod element;
mod fold;
pub mod limits;
mod line;
pub mod list;
mod markup;
mod problem;
mod scan;
mod score;
mod script;
mod set;
mod tree;
mod view;

pub use line::{Format, Weight};
pub use list::{Entry, Kind, ListFile, Lists, Reader, Role};
pub use problem::{Problem, ProblemKind, Problems};
pub use scan::{Form, Scanner};
pub use score::{Count, Hit, Score, ScoreOptions, Sight, SightScore, Verdict};
pub use set::{CompileError, Counts, PhraseSet};
