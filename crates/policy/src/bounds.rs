//! What the conditions of a rule leave possible: whether they contradict each other, and whether
//! one rule's hold wherever another's do.
//!
//! Only certain answers are given. Class, score, size and the yes-or-no fields are followed through
//! `all` and `not`; of patterns and lists it is only known whether they are the same.

use gauntlet_verdict::Class;

use crate::condition::Condition;

/// From a number (included) up to another (not included).
type Span = (f64, f64);

/// The possible values of every field that is tracked.
#[derive(Debug, Clone)]
struct Bounds {
    classes: Vec<Class>,
    score: Span,
    size: Span,
    /// `explicit`, `authenticated` and `tls`, where they are decided.
    flags: [Option<bool>; 3],
}

/// Names of [`Bounds::flags`], in their order.
const FLAGS: [&str; 3] = ["explicit", "authenticated", "tls"];

/// What the conditions leave nothing of, in words; none if they may hold.
pub(crate) fn contradiction(when: &Condition) -> Option<&'static str> {
    let mut bounds = Bounds::all();
    bounds.narrow(when).err()
}

/// Certain that `general` holds wherever `special` does.
pub(crate) fn covers(general: &Condition, special: &Condition) -> bool {
    let mut bounds = Bounds::all();
    if bounds.narrow(special).is_err() {
        return false;
    }
    let mut parts = Vec::new();
    conjuncts(special, &mut parts);
    holds(general, &bounds, &parts)
}

/// This condition, and those of `all` in it: every one of them holds where it does.
fn conjuncts<'c>(when: &'c Condition, parts: &mut Vec<&'c Condition>) {
    parts.push(when);
    for inner in when.all.iter().flatten() {
        conjuncts(inner, parts);
    }
}

fn flags(when: &Condition) -> [Option<bool>; 3] {
    [when.explicit, when.authenticated, when.tls]
}

fn size(bytes: Option<crate::condition::Bytes>) -> Option<f64> {
    bytes.map(|b| b.0 as f64)
}

impl Bounds {
    fn all() -> Self {
        let every = (f64::NEG_INFINITY, f64::INFINITY);
        Bounds { classes: Class::ALL.to_vec(), score: every, size: every, flags: [None; 3] }
    }

    /// Leaves only what this condition allows; the field of which nothing is left is the error.
    fn narrow(&mut self, when: &Condition) -> Result<(), &'static str> {
        if let Some(classes) = &when.class {
            self.classes.retain(|c| classes.as_slice().contains(c));
        }
        cut(&mut self.score, when.score_min, when.score_below);
        cut(&mut self.size, size(when.size_min), size(when.size_below));
        for (name, (flag, asked)) in FLAGS.iter().zip(self.flags.iter_mut().zip(flags(when))) {
            match (*flag, asked) {
                (Some(known), Some(asked)) if known != asked => return Err(name),
                (_, asked) => *flag = asked.or(*flag),
            }
        }
        if let Some(not) = &when.not {
            self.exclude(not)?;
        }
        self.is_possible()?;
        for inner in when.all.iter().flatten() {
            self.narrow(inner)?;
        }
        let Some(any) = &when.any else { return Ok(()) };
        let mut why = Ok(());
        for inner in any {
            match self.clone().narrow(inner) {
                Ok(()) => return Ok(()),
                Err(field) => why = Err(field),
            }
        }
        why
    }

    /// Leaves what a condition of one field does not allow; others exclude nothing for certain.
    fn exclude(&mut self, not: &Condition) -> Result<(), &'static str> {
        let none = Condition::default();
        let only = |field: Condition| *not == field;
        if only(none.clone()) {
            return Err("message");
        }
        if let Some(classes) = &not.class
            && only(Condition { class: not.class.clone(), ..none.clone() })
        {
            self.classes.retain(|c| !classes.as_slice().contains(c));
        } else if only(Condition { score_min: not.score_min, ..none.clone() }) {
            cut(&mut self.score, None, not.score_min);
        } else if only(Condition { score_below: not.score_below, ..none.clone() }) {
            cut(&mut self.score, not.score_below, None);
        } else if only(Condition { size_min: not.size_min, ..none.clone() }) {
            cut(&mut self.size, None, size(not.size_min));
        } else if only(Condition { size_below: not.size_below, ..none.clone() }) {
            cut(&mut self.size, size(not.size_below), None);
        } else {
            let booleans = [
                Condition { explicit: not.explicit, ..none.clone() },
                Condition { authenticated: not.authenticated, ..none.clone() },
                Condition { tls: not.tls, ..none },
            ];
            for field in booleans.into_iter().filter(|field| field == not) {
                let [explicit, authenticated, tls] = flags(&field).map(|f| f.map(|yes| !yes));
                self.narrow(&Condition { explicit, authenticated, tls, ..Condition::default() })?;
            }
        }
        Ok(())
    }

    fn is_possible(&self) -> Result<(), &'static str> {
        if self.classes.is_empty() {
            return Err("class");
        }
        if self.score.0 >= self.score.1 {
            return Err("score");
        }
        if self.size.0 >= self.size.1 { Err("size") } else { Ok(()) }
    }
}

fn cut(span: &mut Span, min: Option<f64>, below: Option<f64>) {
    span.0 = span.0.max(min.unwrap_or(f64::NEG_INFINITY));
    span.1 = span.1.min(below.unwrap_or(f64::INFINITY));
}

/// Certain that the condition holds within these bounds, where all of `parts` hold.
fn holds(when: &Condition, bounds: &Bounds, parts: &[&Condition]) -> bool {
    let classes =
        when.class.as_ref().is_none_or(|c| bounds.classes.iter().all(|b| c.as_slice().contains(b)));
    let spans = when.score_min.is_none_or(|m| bounds.score.0 >= m)
        && when.score_below.is_none_or(|b| bounds.score.1 <= b)
        && size(when.size_min).is_none_or(|m| bounds.size.0 >= m)
        && size(when.size_below).is_none_or(|b| bounds.size.1 <= b);
    let booleans = flags(when)
        .iter()
        .zip(bounds.flags)
        .all(|(asked, known)| asked.is_none() || *asked == known);
    let nested = when.all.iter().flatten().all(|inner| holds(inner, bounds, parts))
        && when.any.as_ref().is_none_or(|any| any.iter().any(|c| holds(c, bounds, parts)));
    classes && spans && booleans && nested && is_in(when, parts)
}

/// Each of the fields that are not followed is the same in one of `parts`, or is not asked for.
fn is_in(when: &Condition, parts: &[&Condition]) -> bool {
    macro_rules! same {
        ($($field:ident)*) => {
            $((when.$field.is_none() || parts.iter().any(|p| p.$field == when.$field)))&&*
        };
    }
    same!(probability_min hit defect sender sender_group from recipient recipient_group recipients_min
        attachment object attachments_min url_host url country header subject time auth listed rate language dlp not)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Condition {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn contradictions_are_found_through_all_and_not() {
        let left = |text: &str| contradiction(&read(text));
        assert_eq!(left("class = 'spam'\nnot = { class = ['spam', 'phishing'] }"), Some("class"));
        assert_eq!(left("all = [{ class = 'spam' }, { class = 'ham' }]"), Some("class"));
        assert_eq!(left("score_min = 5\nall = [{ score_below = 4 }]"), Some("score"));
        assert_eq!(left("size_min = 10\nnot = { size_min = 5 }"), Some("size"));
        assert_eq!(left("tls = true\nnot = { tls = true }"), Some("tls"));
        assert_eq!(left("class = 'spam'\nany = [{ class = 'ham' }, { tls = true }]"), None);
        assert_eq!(left("class = 'spam'\nany = [{ class = 'ham' }]"), Some("class"));
        // Not both of these is not neither of them.
        assert_eq!(left("class = 'spam'\nnot = { class = 'spam', tls = true }"), None);
        assert_eq!(left(""), None);
        assert_eq!(left("not = {}"), Some("message"));
    }

    #[test]
    fn a_wider_rule_covers_a_narrower_one() {
        let covers = |general: &str, special: &str| covers(&read(general), &read(special));
        assert!(covers("class = ['spam', 'phishing']", "class = 'spam'\nsender = 'a@*'"));
        assert!(!covers("class = 'spam'\nsender = 'a@*'", "class = 'spam'"));
        assert!(covers("score_min = 5", "all = [{ score_min = 8 }, { tls = true }]"));
        assert!(covers("sender = 'a@*'", "sender = 'a@*'\nsize_min = 3"));
        assert!(!covers("sender = 'a@*'", "sender = 'b@*'"));
        assert!(covers("any = [{ tls = true }, { class = 'ham' }]", "class = 'ham'"));
        assert!(!covers("not = { class = 'ham' }", "class = 'ham'"));
        assert!(covers("", "class = 'ham'"));
    }
}
