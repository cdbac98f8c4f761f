//! Whether a policy asks for data at all: without such a rule nobody looks.

use gauntlet_mail::Direction;

use crate::condition::Condition;
use crate::data_condition::DataCondition;
use crate::file::Policy;
use crate::rule::Rule;

/// The conditions on data of a table, and of those inside it.
fn conditions(when: &Condition) -> Vec<&DataCondition> {
    let lists = [&when.all, &when.any];
    let inner = lists.into_iter().flatten().flatten().chain(when.not.as_deref());
    when.dlp.iter().chain(inner.flat_map(conditions)).collect()
}

fn asks(when: &Condition) -> bool {
    let lists = [&when.all, &when.any];
    when.dlp.is_some()
        || lists.into_iter().flatten().flatten().any(asks)
        || when.not.as_deref().is_some_and(asks)
}

impl Policy {
    /// Whether some rule for this direction has a condition on data: without one, nobody needs to
    /// look.
    pub fn asks_data_loss(&self, direction: Direction) -> bool {
        let for_it = self.rules.iter().filter(|rule| rule.directions.contains(&direction));
        for_it.filter_map(|rule| rule.when.as_ref()).any(asks)
    }

    /// Every condition on data, with its rule.
    pub fn data_conditions(&self) -> impl Iterator<Item = (&Rule, &DataCondition)> {
        let of_rule = |rule| {
            let Rule { when, .. }: &Rule = rule;
            when.iter().flat_map(conditions).map(move |condition| (rule, condition))
        };
        self.rules.iter().flat_map(of_rule)
    }
}
