//! How far the site's evidence is trusted, and which probability keeps a promised rate of errors
//! on the site's own mail.
//!
//! Both are found on corrections that had no part in the weights that judge them
//! (cross-validation), and both begin at what ships and move only as far as there are corrections:
//! a promise about one good message in a thousand cannot be checked with fifty. The tail of the
//! good mail's log odds is taken to fall off exponentially (the peaks over a threshold of Pickands,
//! 1975, with shape 0).

/// Share of good mail above which the tail begins.
const TAIL_SHARE: f64 = 0.1;
/// Good messages that the shipped tail counts as.
pub(super) const PRIOR_GOOD: f64 = 20.0;
/// The same for how fast the tail falls off, in messages of the tail.
const PRIOR_TAIL: f64 = 4.0;
/// Most that a threshold moves from the shipped one, in log odds.
const MOVE_MAX: f64 = 3.0;
/// Trusts that are tried, and how much corrections of one say against another than 1.
const TRUSTS: [f64; 9] = [0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0];
const TRUST_PRIOR: f64 = 2.0;
/// Most that one correction counts against a trust: some are simply wrong.
const LOSS_MAX: f64 = 6.0;

/// Variance of the biases of mailboxes, before anything is known of one.
const BIAS_VARIANCE: f64 = 0.5;
/// Most that the bias of a mailbox moves its mail.
const BIAS_MAX: f64 = 2.0;

/// A correction, judged by weights that had not seen it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeldOut {
    /// Log odds without the site's evidence.
    pub(crate) base: f64,
    /// How far the weights move them.
    pub(crate) site: f64,
    /// What was said of it.
    pub(crate) spam: bool,
    /// Messages that it counts.
    pub(crate) share: f64,
}

/// By how much the site's evidence is multiplied: what makes the held-out corrections most
/// probable. Both kinds count the same, and as much as there are of the rarer: who only ever
/// releases mail says nothing about how far the evidence against mail can be trusted.
pub(crate) fn trust(held_out: &[HeldOut]) -> f64 {
    let all = |spam: bool| -> f64 {
        held_out.iter().filter(|one| one.spam == spam).map(|one| one.share).sum()
    };
    let (spam, good) = (all(true), all(false));
    let both = spam.min(good);
    let cost = |trust: f64| -> f64 {
        let of = |one: &HeldOut| {
            let odds = one.base + trust * one.site;
            let right = if one.spam { odds } else { -odds };
            let of_kind = if one.spam { spam } else { good };
            one.share * both / of_kind.max(1e-9) * (-right).exp().ln_1p().min(LOSS_MAX)
        };
        held_out.iter().map(of).sum::<f64>() + TRUST_PRIOR * (trust - 1.0).powi(2)
    };
    TRUSTS.into_iter().min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap_or(1.0)
}

/// The upper end of the log odds of good mail.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Tail {
    /// Log odds that one in ten good messages reaches.
    pub(crate) from: f64,
    /// How far the log odds grow while the share falls by a factor of e.
    pub(crate) scale: f64,
    /// Good messages that it was found on.
    pub(crate) good: f64,
}

impl Tail {
    /// The tail of these held-out log odds of good mail with their shares, begun at the shipped
    /// one.
    pub(crate) fn fit(shipped: Tail, mut odds: Vec<(f64, f64)>) -> Tail {
        odds.sort_by(|a, b| b.0.total_cmp(&a.0));
        let good: f64 = odds.iter().map(|o| o.1).sum();
        if good <= 0.0 {
            return shipped;
        }
        let mut above = 0.0;
        let begin = odds.iter().position(|o| {
            above += o.1;
            above > TAIL_SHARE * good
        });
        let own = begin.and_then(|i| odds.get(i)).map_or(shipped.from, |o| o.0);
        let from = (good * own + PRIOR_GOOD * shipped.from) / (good + PRIOR_GOOD);
        let in_tail = || odds.iter().filter(|o| o.0 > own);
        let count: f64 = in_tail().map(|o| o.1).sum();
        let excess: f64 = in_tail().map(|o| o.1 * (o.0 - own)).sum();
        let scale = (excess + PRIOR_TAIL * shipped.scale) / (count + PRIOR_TAIL);
        Tail { from, scale, good }
    }

    /// The log odds that this share of good mail reaches.
    pub(crate) fn reached_by(&self, share: f64) -> f64 {
        self.from + self.scale * (TAIL_SHARE / share.max(1e-9)).ln()
    }

    /// How much of what the tail says is the site's own, 0 to 1.
    pub(crate) fn carried(&self) -> f64 {
        self.good / (self.good + PRIOR_GOOD)
    }

    /// The standard error of [`Self::reached_by`]: of where the tail begins and of its scale.
    pub(crate) fn error(&self, share: f64) -> f64 {
        let good = self.good + PRIOR_GOOD;
        let begin = self.scale * ((1.0 - TAIL_SHARE) / TAIL_SHARE).sqrt() / good.sqrt();
        let far = (TAIL_SHARE / share.max(1e-9)).ln();
        let scale = far * self.scale / (TAIL_SHARE * self.good + PRIOR_TAIL).sqrt();
        begin.hypot(scale)
    }
}

/// How far a mailbox's mail is from what is expected of it, in log odds: the most probable one,
/// with no bias expected beforehand.
pub(crate) fn bias(said: &[(f64, bool)]) -> f64 {
    let mut bias = 0.0_f64;
    for _ in 0..20 {
        let (mut slope, mut curve) = (-bias / BIAS_VARIANCE, 1.0 / BIAS_VARIANCE);
        for &(odds, spam) in said {
            let p = 1.0 / (1.0 + (-odds - bias).exp());
            slope += f64::from(u8::from(spam)) - p;
            curve += p * (1.0 - p);
        }
        bias += slope / curve;
    }
    bias.clamp(-BIAS_MAX, BIAS_MAX)
}

/// Where a threshold goes: to what the tail says, no further than the corrections carry.
pub(crate) fn threshold(shipped: f64, tail: &Tail, share: f64) -> f64 {
    let moved = tail.carried() * (tail.reached_by(share) - shipped);
    shipped + moved.clamp(-MOVE_MAX, MOVE_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHIPPED: Tail = Tail { from: 1.65, scale: 1.15, good: 0.0 };

    fn held_out(right: f64, count: usize) -> Vec<HeldOut> {
        (0..count)
            .map(|i| {
                let spam = i % 2 == 0;
                let site = if spam { right } else { -right };
                HeldOut { base: 0.0, site, spam, share: 1.0 }
            })
            .collect()
    }

    #[test]
    fn evidence_that_is_right_is_trusted_and_what_is_wrong_is_not() {
        assert!(trust(&held_out(1.0, 60)) > 1.0);
        assert_eq!(trust(&held_out(-1.0, 60)), 0.0);
        assert_eq!(trust(&[]), 1.0);
    }

    #[test]
    fn a_tail_begins_at_the_shipped_one_and_follows_the_site() {
        assert_eq!(Tail::fit(SHIPPED, Vec::new()), SHIPPED);
        let low: Vec<(f64, f64)> = (0..2_000).map(|i| (-f64::from(i) / 100.0, 1.0)).collect();
        let few = Tail::fit(SHIPPED, low[..20].to_vec());
        let many = Tail::fit(SHIPPED, low);
        assert!(few.reached_by(0.01) > many.reached_by(0.01));
        assert!(many.reached_by(0.01) > 0.0 - many.scale, "{many:?}");
        assert!(few.error(0.01) > many.error(0.01) && many.error(0.01) > 0.0);
        let odd = Tail::fit(SHIPPED, vec![(f64::NAN, 1.0), (1.0, 0.0)]);
        assert!(odd.good >= 0.0);
    }

    #[test]
    fn thresholds_move_at_most_so_far() {
        let far = Tail { from: 40.0, scale: 1.0, good: 1e6 };
        assert_eq!(threshold(4.0, &far, 0.01), 4.0 + MOVE_MAX);
        assert_eq!(threshold(4.0, &SHIPPED, 0.01), 4.0, "nothing is known");
    }

    #[test]
    fn a_bias_is_bounded_and_needs_evidence() {
        assert_eq!(bias(&[]), 0.0);
        let one = bias(&[(0.0, true)]);
        let many = bias(&[(0.0, true); 50]);
        assert!(0.0 < one && one < many && many <= BIAS_MAX, "{one} {many}");
    }
}
