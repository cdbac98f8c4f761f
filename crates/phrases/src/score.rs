//! What was found, what it adds up to, and what that means.

use std::fmt;
use std::sync::Arc;

use crate::line::Weight;
use crate::list::Kind;
use crate::set::{Compiled, PhraseSet};

/// How often a phrase counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Count {
    /// Once, however often it is found (e2guardian's `weightedphrasemode = 2`, its default).
    #[default]
    Once,
    /// Each time (`weightedphrasemode = 1`); a combination as often as the rarest of its phrases.
    Every,
}

/// What a score is measured by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScoreOptions {
    /// More points than this block (e2guardian's `naughtynesslimit`).
    pub limit: i64,
    /// How often a phrase counts.
    pub count: Count,
}

/// What a page's phrases say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// An exception was found: it passes.
    Exception,
    /// A banned phrase was found.
    Banned,
    /// More points than the limit.
    OverLimit,
    /// None of these.
    Below,
}

/// Which form of a text was searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// The text, without mark-up.
    Text,
    /// The page as it stands: what is hidden, and what is in attributes, comments and scripts.
    Raw,
}

/// A phrase that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// The phrase; those of a combination with ` + ` between them.
    pub phrase: String,
    /// What it does.
    pub kind: Kind,
    /// How often it was found.
    pub count: u32,
    /// What it adds.
    pub points: i64,
    /// Its category, empty if it has none.
    pub category: Arc<str>,
    /// File and line of the list.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
}

/// What was found in one form of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SightScore {
    /// The form.
    pub sight: Sight,
    /// The sum of the weights.
    pub total: i64,
    /// In the order of the lists.
    pub hits: Vec<Hit>,
    /// By this form alone.
    pub verdict: Verdict,
}

/// What was found in a text, and what follows.
///
/// The text without mark-up is judged first, then the page as it stands; the first of the two that
/// has an exception, a banned phrase or too many points decides, as in e2guardian. Each form has a
/// sum of its own: no word is counted twice because it is in both, and points that hidden words
/// take away do not make up for what is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Score {
    /// The text; then, of a page, the page as it stands.
    pub sights: Vec<SightScore>,
    /// Index of the one that decides: of two that do not, the one with more points.
    pub deciding: usize,
    /// What more blocks.
    pub limit: i64,
    /// Bytes of text that were searched.
    pub bytes: u64,
}

pub(crate) fn score(
    set: &PhraseSet,
    text: &[u32],
    raw: Option<&[u32]>,
    bytes: u64,
    options: &ScoreOptions,
) -> Score {
    let mut sights = vec![sight(set, Sight::Text, text, options)];
    sights.extend(raw.map(|raw| sight(set, Sight::Raw, raw, options)));
    let decides = |score: &SightScore| score.verdict != Verdict::Below;
    let most = || sights.iter().enumerate().max_by_key(|(i, s)| (s.total, usize::MAX - i));
    let deciding = sights.iter().position(decides).or_else(|| Some(most()?.0)).unwrap_or(0);
    Score { deciding, limit: options.limit, bytes, sights }
}

fn sight(set: &PhraseSet, sight: Sight, counts: &[u32], options: &ScoreOptions) -> SightScore {
    let mut hits = Vec::new();
    let mut total = 0_i64;
    for entry in &set.entries {
        let of = |pattern: &u32| counts.get(*pattern as usize).copied().unwrap_or(0);
        let count = entry.patterns.iter().map(of).min().unwrap_or(0);
        if count > 0 {
            let hit = hit(set, entry, count, options);
            total = total.saturating_add(hit.points);
            hits.push(hit);
        }
    }
    let has = |kind| hits.iter().any(|hit| hit.kind == kind);
    let verdict = match () {
        () if has(Kind::Exception) => Verdict::Exception,
        () if has(Kind::Banned) => Verdict::Banned,
        () if total > options.limit => Verdict::OverLimit,
        () => Verdict::Below,
    };
    SightScore { sight, total, hits, verdict }
}

fn hit(set: &PhraseSet, entry: &Compiled, count: u32, options: &ScoreOptions) -> Hit {
    let weight = match entry.kind {
        Kind::Weighted(Weight::Points(points)) => i64::from(points),
        // As e2guardian rounds.
        Kind::Weighted(Weight::Percent(part)) => options.limit.saturating_mul(part.into()) / 100,
        Kind::Banned | Kind::Exception => 0,
    };
    let times = match options.count {
        Count::Once => 1,
        Count::Every => i64::from(count),
    };
    let part = |pattern: &u32| set.patterns.get(*pattern as usize).map(|p| p.trim());
    let parts: Vec<&str> = entry.patterns.iter().filter_map(part).collect();
    Hit {
        phrase: parts.join(" + "),
        kind: entry.kind,
        count,
        points: weight.saturating_mul(times),
        category: set.categories.get(entry.category as usize).cloned().unwrap_or_default(),
        file: set.files.get(entry.file as usize).cloned().unwrap_or_default(),
        line: entry.line,
    }
}

impl Score {
    /// What follows.
    pub fn verdict(&self) -> Verdict {
        self.sights.get(self.deciding).map_or(Verdict::Below, |score| score.verdict)
    }

    /// It is blocked.
    pub fn blocks(&self) -> bool {
        matches!(self.verdict(), Verdict::Banned | Verdict::OverLimit)
    }

    /// The points of the form that decides.
    pub fn total(&self) -> i64 {
        self.sights.get(self.deciding).map_or(0, |score| score.total)
    }

    /// What was found in the form that decides.
    pub fn hits(&self) -> &[Hit] {
        self.sights.get(self.deciding).map_or(&[], |score| &score.hits)
    }

    /// Categories of what adds points or bans, those with the most points first.
    pub fn categories(&self) -> Vec<(Arc<str>, i64)> {
        let mut sums: Vec<(Arc<str>, i64)> = Vec::new();
        let counts = |hit: &&Hit| hit.points > 0 || hit.kind == Kind::Banned;
        for hit in self.hits().iter().filter(counts).filter(|hit| !hit.category.is_empty()) {
            match sums.iter_mut().find(|(name, _)| *name == hit.category) {
                Some((_, sum)) => *sum = sum.saturating_add(hit.points),
                None => sums.push((Arc::clone(&hit.category), hit.points)),
            }
        }
        sums.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        sums
    }

    /// What would have changed the verdict.
    pub fn what_would_change_it(&self) -> String {
        let (total, limit) = (self.total(), self.limit);
        let found = |kind| self.hits().iter().find(|hit| hit.kind == kind);
        let name = |kind| found(kind).map_or("", |hit| hit.phrase.as_str());
        match self.verdict() {
            Verdict::Exception => {
                format!("without the exception {:?} its points would count", name(Kind::Exception))
            }
            Verdict::Banned => {
                format!("without the banned phrase {:?} its points would count", name(Kind::Banned))
            }
            Verdict::OverLimit => {
                let more = total.saturating_sub(limit);
                format!("{more} points less, or a limit of {total}, would let it pass")
            }
            Verdict::Below => {
                let less = limit.saturating_sub(total).saturating_add(1);
                format!("{less} points more, or a limit below {total}, would block it")
            }
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Exception => "exception",
            Verdict::Banned => "banned",
            Verdict::OverLimit => "over limit",
            Verdict::Below => "below limit",
        })
    }
}

impl fmt::Display for Sight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Sight::Text => "text",
            Sight::Raw => "page as it stands",
        })
    }
}
