//! What a policy asks lists of URLs for.

use crate::condition::Condition;
use crate::file::Policy;
use crate::finding::Finding;
use crate::pattern::{OneOrMany, Pattern};
use crate::suggestion::nearest;
use crate::web_rules::WebCondition;

/// A list of URLs as rules know it.
#[derive(Debug, Clone, Copy)]
pub struct ListNames<'a> {
    /// Its name.
    pub name: &'a str,
    /// Names of its categories.
    pub categories: &'a [String],
}

/// Patterns over names of lists and of categories, of one condition.
type Asked<'p> = (Option<&'p OneOrMany<Pattern>>, Option<&'p OneOrMany<Pattern>>);

impl Policy {
    /// Conditions `url.list` and `url.category` that none of these lists can meet, so that the rule
    /// does nothing.
    pub fn unlisted(&self, lists: &[ListNames<'_>]) -> Vec<Finding> {
        let of_mail = self.rules.iter().flat_map(|rule| {
            let asked = rule.when.iter().flat_map(of_mail);
            asked.map(|asked| (rule.name.as_str(), rule.line, asked))
        });
        let of_rules = self.web.iter().flat_map(|rule| {
            let asked = rule.when.iter().flat_map(of_web);
            asked.map(|asked| (rule.name.as_str(), rule.line, asked))
        });
        let of_quotas = self.web_quotas.iter().flat_map(|quota| {
            let asked = quota.when.iter().flat_map(of_web);
            asked.map(|asked| (quota.name.as_str(), quota.line, asked))
        });
        let all = of_mail.chain(of_rules).chain(of_quotas);
        all.flat_map(|(rule, line, asked)| {
            let messages = never_met(asked, lists);
            messages.into_iter().map(move |message| Finding::new(rule, line, message))
        })
        .collect()
    }
}

fn of_mail(when: &Condition) -> Vec<Asked<'_>> {
    let own = when.url.iter().map(|url| (url.list.as_ref(), url.category.as_ref()));
    own.chain(when.inner().flat_map(of_mail)).collect()
}

fn of_web(when: &WebCondition) -> Vec<Asked<'_>> {
    let own = when.url.iter().map(|url| (url.list.as_ref(), url.category.as_ref()));
    own.chain(when.inner().flat_map(of_web)).collect()
}

fn never_met((names, categories): Asked<'_>, lists: &[ListNames<'_>]) -> Vec<String> {
    let mut found = Vec::new();
    let mut add = |field: &str, patterns: Option<&OneOrMany<Pattern>>, known: &[&str]| {
        for pattern in patterns.into_iter().flat_map(OneOrMany::as_slice) {
            // Any list is no slip of the pen: the rule of the default policy waits for one.
            let waits = known.is_empty() && pattern.as_str() == "*";
            if waits || known.iter().any(|name| pattern.matches(name)) {
                continue;
            }
            let mut message =
                format!("url.{field} = {:?}: no [[url_list]] has it", pattern.as_str());
            let names = known.iter().map(|&name| name.to_owned());
            if let Some(name) = nearest(pattern.as_str(), names) {
                message.push_str(&format!("; did you mean {name:?}?"));
            }
            found.push(message);
        }
    };
    let all_names: Vec<&str> = lists.iter().map(|list| list.name).collect();
    add("list", names, &all_names);
    let is_asked = |list: &&ListNames<'_>| names.is_none_or(|n| n.matching(list.name).is_some());
    let asked = lists.iter().filter(is_asked);
    let all_categories: Vec<&str> =
        asked.flat_map(|list| list.categories).map(String::as_str).collect();
    add("category", categories, &all_categories);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::groups::Groups;

    #[test]
    fn names_that_no_list_has_are_found_with_the_nearest() {
        let text = "[[web_rule]]\nname = \"a\"\nwhen.url.list = [\"ut1\", \"ut2\"]\ndo = \"allow\"\n\
                    [[web_rule]]\nname = \"b\"\nwhen.not = { url.category = \"gamblin\" }\n\
                    do = \"log\"\n\
                    [[web_rule]]\nname = \"c\"\nwhen.url = { list = \"o*\", category = \"phish\" }\n\
                    do = \"log\"\n\
                    [[rule]]\nname = \"d\"\nwhen.url = { category = \"Phish\" }\ndo = \"discard\"\n\
                    [[rule]]\nname = \"e\"\nwhen.url = { list = \"wholly other\" }\ndo = \"discard\"\n";
        let policy = Policy::parse(text, &Groups::default()).unwrap();
        let (one, two) = (["gambling".to_owned(), "phish".to_owned()], ["ads".to_owned()]);
        let lists = [
            ListNames { name: "ut1", categories: &one },
            ListNames { name: "own", categories: &two },
        ];
        let found: Vec<String> =
            policy.unlisted(&lists).iter().map(|f| format!("{}: {}", f.rule, f.message)).collect();
        assert_eq!(
            found,
            [
                "e: url.list = \"wholly other\": no [[url_list]] has it",
                "a: url.list = \"ut2\": no [[url_list]] has it; did you mean \"ut1\"?",
                "b: url.category = \"gamblin\": no [[url_list]] has it; did you mean \"gambling\"?",
                "c: url.category = \"phish\": no [[url_list]] has it",
            ]
        );
    }
}
