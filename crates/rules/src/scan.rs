//! A scan: the stages of a program in their order, metas last.

use crate::document::Document;
use crate::lazy_evaluator::LazyEvaluator;
use crate::matcher::Tally;
use crate::program::Program;
use crate::stages::{CompletedStages, ScoreBounds, Stage};

/// Runs all stages; the tally then has each rule's count. With bounds it ends as soon as the
/// remaining rules cannot change the class, and then returns true.
pub(crate) fn run(
    program: &Program,
    document: &dyn Document,
    bounds: Option<&ScoreBounds>,
    tally: &mut Tally,
) -> bool {
    let mut completed = CompletedStages::default();
    let mut may_edit = true;
    for stage in program.order() {
        // Functions that edit the body run before the rules that see it.
        if matches!(stage, Stage::Body | Stage::Evals) && std::mem::take(&mut may_edit) {
            program.run_editors(document, tally);
        }
        if *stage == Stage::Metas {
            return LazyEvaluator::new(program, document, tally).run(bounds);
        }
        program.run_stage(*stage, document, tally);
        completed.add(*stage);
        if bounds.is_some_and(|b| b.decided(completed, tally)) {
            return true;
        }
    }
    false
}
