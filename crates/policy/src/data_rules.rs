//! Which rules of a policy ask what data loss prevention found.

use gauntlet_mail::Direction;

use crate::condition::Condition;
use crate::data_condition::DataCondition;
use crate::file::Policy;
use crate::rule::Rule;

/// The conditions on data of a table, and of those inside it.
fn conditions(when: &Condition) -> Vec<&DataCondition> {
    when.dlp.iter().chain(when.inner().flat_map(conditions)).collect()
}

fn asks(when: &Condition) -> bool {
    when.dlp.is_some() || when.inner().any(asks)
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
