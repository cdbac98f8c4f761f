//! Bounds of an expression's value while some of its counts are unknown (interval arithmetic with a
//! three-valued truth).

use crate::expression::{Expr, Op};

/// Bounds of a number, and whether it is true (not 0) if that is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bounds {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) truth: Option<bool>,
}

/// A bound beyond any count.
const FAR: f64 = 1e18;

impl Bounds {
    /// Nothing is known: the value may be anything, and so may its truth.
    pub(crate) const UNKNOWN: Bounds = Bounds { low: -FAR, high: FAR, truth: None };
    /// Exactly 0: the rule did not fire.
    pub(crate) const NEVER: Bounds = Bounds { low: 0.0, high: 0.0, truth: Some(false) };
    /// 0 or 1: a rule that counts once, or a comparison.
    const EITHER: Bounds = Bounds { low: 0.0, high: 1.0, truth: None };

    /// The value is known; true if it is not 0.
    pub(crate) fn exactly(value: f64) -> Self {
        Bounds { low: value, high: value, truth: Some(value != 0.0) }
    }

    /// A number from `low` to `high`.
    pub(crate) fn between(low: f64, high: f64) -> Self {
        if low.is_nan() || high.is_nan() {
            return Bounds::UNKNOWN;
        }
        let truth = if low > 0.0 || high < 0.0 {
            Some(true)
        } else {
            (low == 0.0 && high == 0.0).then_some(false)
        };
        Bounds { low, high, truth }
    }

    fn truth_of(known: Option<bool>) -> Self {
        known.map_or(Bounds::EITHER, |yes| Bounds::exactly(f64::from(u8::from(yes))))
    }

    /// The number, if it is certain.
    pub(crate) fn exact(self) -> Option<f64> {
        (self.low == self.high).then_some(self.low)
    }
}

impl<N> Expr<N> {
    /// Bounds of the value, with `known` giving those of a name. Whatever the values of the names
    /// within their bounds, the value is within these (except for divisions: see
    /// [`Expr::divides`]).
    pub(crate) fn bounds(&self, known: &dyn Fn(&N) -> Bounds) -> Bounds {
        match self {
            Expr::Number(number) => Bounds::exactly(*number),
            Expr::Name(name) => known(name),
            Expr::Not(inner) => Bounds::truth_of(inner.bounds(known).truth.map(|yes| !yes)),
            Expr::Negate(inner) => {
                let inner = inner.bounds(known);
                Bounds { low: -inner.high, high: -inner.low, truth: inner.truth }
            }
            Expr::Choose(condition, yes, no) => match condition.bounds(known).truth {
                Some(true) => yes.bounds(known),
                Some(false) => no.bounds(known),
                None => {
                    let (yes, no) = (yes.bounds(known), no.bounds(known));
                    let truth = if yes.truth == no.truth { yes.truth } else { None };
                    Bounds { low: yes.low.min(no.low), high: yes.high.max(no.high), truth }
                }
            },
            Expr::Binary(op, left, right) => {
                let left = left.bounds(known);
                match (op, left.truth) {
                    (Op::And, Some(false)) | (Op::Or, Some(true)) => left,
                    _ => binary(*op, left, right.bounds(known)),
                }
            }
        }
    }

    /// Whether a divisor may be 0, so that there may be no value.
    pub(crate) fn divides(&self) -> bool {
        match self {
            Expr::Number(_) | Expr::Name(_) => false,
            Expr::Not(inner) | Expr::Negate(inner) => inner.divides(),
            Expr::Choose(condition, yes, no) => {
                condition.divides() || yes.divides() || no.divides()
            }
            Expr::Binary(Op::Divide, left, right) => {
                let is_safe = matches!(**right, Expr::Number(number) if number != 0.0);
                !is_safe || left.divides()
            }
            Expr::Binary(_, left, right) => left.divides() || right.divides(),
        }
    }
}

/// An expression in the form that bounds are computed from: chains of one operator are one node
/// with the operands side by side, so that little memory is read and a false operand is found
/// early.
#[derive(Debug)]
pub(crate) enum Flat<N> {
    Number(f64),
    Name(N),
    /// `!` before a name, which is frequent in metas.
    NotName(N),
    Not(Box<Flat<N>>),
    All(Box<[Flat<N>]>),
    Any(Box<[Flat<N>]>),
    Sum(Box<[Flat<N>]>),
    Binary(Op, Box<(Flat<N>, Flat<N>)>),
    /// Operators too rare for a form of their own.
    Tree(Expr<N>),
}

impl<N: Clone> Flat<N> {
    /// Turns a chain of `+`, `&&` or `||` into one node with all operands.
    pub(crate) fn of(expr: &Expr<N>) -> Self {
        match expr {
            Expr::Number(number) => Flat::Number(*number),
            Expr::Name(name) => Flat::Name(name.clone()),
            Expr::Not(inner) => match inner.as_ref() {
                Expr::Name(name) => Flat::NotName(name.clone()),
                inner => Flat::Not(Box::new(Flat::of(inner))),
            },
            Expr::Binary(op @ (Op::And | Op::Or | Op::Add), ..) => {
                let mut items = Vec::new();
                let mut left = expr;
                while let Expr::Binary(same, before, item) = left
                    && same == op
                {
                    items.push(Flat::of(item));
                    left = before;
                }
                items.push(Flat::of(left));
                items.reverse();
                match op {
                    Op::And => Flat::All(items.into()),
                    Op::Or => Flat::Any(items.into()),
                    _ => Flat::Sum(items.into()),
                }
            }
            Expr::Binary(op, left, right) => {
                Flat::Binary(*op, Box::new((Flat::of(left), Flat::of(right))))
            }
            Expr::Negate(_) | Expr::Choose(..) => Flat::Tree(expr.clone()),
        }
    }

    /// As [`Expr::bounds`], with `truth` giving the truth of a name alone.
    pub(crate) fn bounds(
        &self,
        truth: &impl Fn(&N) -> Option<bool>,
        known: &impl Fn(&N) -> Bounds,
    ) -> Bounds {
        match self {
            Flat::Number(number) => Bounds::exactly(*number),
            Flat::Name(name) => known(name),
            Flat::NotName(name) => Bounds::truth_of(truth(name).map(|yes| !yes)),
            Flat::Not(inner) => Bounds::truth_of(inner.bounds(truth, known).truth.map(|yes| !yes)),
            Flat::All(items) => {
                let is_false = |item: &Flat<N>| match item {
                    Flat::Name(name) => truth(name) == Some(false),
                    Flat::NotName(name) => truth(name) == Some(true),
                    _ => false,
                };
                if items.iter().any(is_false) {
                    return Bounds::exactly(0.0);
                }
                Self::chain(Op::And, false, items, truth, known)
            }
            Flat::Any(items) => Self::chain(Op::Or, true, items, truth, known),
            Flat::Sum(items) => {
                let (mut low, mut high) = (0.0, 0.0);
                for item in items {
                    let item = match item {
                        // Sums are long, and most of their operands are certainly 0.
                        Flat::Name(name) if truth(name) == Some(false) => continue,
                        item => item.bounds(truth, known),
                    };
                    low += item.low;
                    high += item.high;
                }
                Bounds::between(low, high)
            }
            Flat::Binary(op, sides) => {
                binary(*op, sides.0.bounds(truth, known), sides.1.bounds(truth, known))
            }
            Flat::Tree(expr) => expr.bounds(&|name| known(name)),
        }
    }

    /// The truth of the value, if certain: quicker than [`Flat::bounds`], and never less certain.
    pub(crate) fn truth(
        &self,
        truth: &impl Fn(&N) -> Option<bool>,
        known: &impl Fn(&N) -> Bounds,
    ) -> Option<bool> {
        let of_chain = |items: &[Self], end: bool| {
            let mut all = Some(!end);
            for item in items {
                let of_item = match item {
                    Flat::Name(name) => truth(name),
                    Flat::NotName(name) => truth(name).map(|yes| !yes),
                    item => item.truth(truth, known),
                };
                match of_item {
                    Some(yes) if yes == end => return Some(end),
                    Some(_) => {}
                    None => all = None,
                }
            }
            all
        };
        match self {
            Flat::Number(number) => Some(*number != 0.0),
            Flat::Name(name) => truth(name),
            Flat::NotName(name) => truth(name).map(|yes| !yes),
            Flat::Not(inner) => inner.truth(truth, known).map(|yes| !yes),
            Flat::All(items) => of_chain(items, false),
            Flat::Any(items) => of_chain(items, true),
            Flat::Sum(_) | Flat::Binary(..) | Flat::Tree(_) => self.bounds(truth, known).truth,
        }
    }

    /// Bounds of `a op b op c`, which is decided by the first operand that is certainly `end`.
    fn chain(
        op: Op,
        end: bool,
        items: &[Self],
        truth: &impl Fn(&N) -> Option<bool>,
        known: &impl Fn(&N) -> Bounds,
    ) -> Bounds {
        let mut items = items.iter();
        let mut all = items.next().map_or(Bounds::UNKNOWN, |first| first.bounds(truth, known));
        for item in items {
            if all.truth == Some(end) {
                break;
            }
            all = binary(op, all, item.bounds(truth, known));
        }
        all
    }
}

fn binary(op: Op, a: Bounds, b: Bounds) -> Bounds {
    let less = |a: Bounds, b: Bounds| {
        if a.high < b.low { Some(true) } else { (a.low >= b.high).then_some(false) }
    };
    let equal = if let (Some(a), Some(b)) = (a.exact(), b.exact()) {
        Some(a == b)
    } else {
        (a.high < b.low || b.high < a.low).then_some(false)
    };
    match op {
        Op::And if a.truth == Some(true) => b,
        Op::And => Bounds {
            low: b.low.min(0.0),
            high: b.high.max(0.0),
            truth: if b.truth == Some(false) { Some(false) } else { None },
        },
        Op::Or if a.truth == Some(false) => b,
        Op::Or => Bounds {
            low: a.low.min(b.low),
            high: a.high.max(b.high),
            truth: if b.truth == Some(true) { Some(true) } else { None },
        },
        Op::Xor => match (a.exact(), b.exact()) {
            (Some(a), Some(b)) => Bounds::exactly(((a as u64) ^ (b as u64)) as f64),
            _ => Bounds::UNKNOWN,
        },
        Op::Equal => Bounds::truth_of(equal),
        Op::NotEqual => Bounds::truth_of(equal.map(|yes| !yes)),
        Op::Less => Bounds::truth_of(less(a, b)),
        Op::MoreEqual => Bounds::truth_of(less(a, b).map(|yes| !yes)),
        Op::More => Bounds::truth_of(less(b, a)),
        Op::LessEqual => Bounds::truth_of(less(b, a).map(|yes| !yes)),
        Op::Add => Bounds::between(a.low + b.low, a.high + b.high),
        Op::Subtract => Bounds::between(a.low - b.high, a.high - b.low),
        Op::Multiply => {
            let corners = [a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high];
            let low = corners.iter().copied().fold(f64::INFINITY, f64::min);
            let high = corners.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if corners.iter().any(|c| c.is_nan()) {
                Bounds::UNKNOWN
            } else {
                Bounds::between(low, high)
            }
        }
        Op::Divide => match (a.exact(), b.exact()) {
            (Some(a), Some(b)) if b != 0.0 => Bounds::exactly(a / b),
            (None, Some(b)) if b > 0.0 => Bounds::between(a.low / b, a.high / b),
            _ => Bounds::UNKNOWN,
        },
    }
}

impl Flat<u32> {
    /// Conditions on single names without which it is false: a name doubled, plus 1 if it must be
    /// false.
    pub(crate) fn conjuncts(&self) -> Vec<u32> {
        let single = |item: &Self| match item {
            Flat::Name(name) => Some(name << 1),
            Flat::NotName(name) => Some(name << 1 | 1),
            _ => None,
        };
        match self {
            Flat::All(items) => items.iter().filter_map(single).collect(),
            other => single(other).into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::{parse, tokens};

    fn expr(text: &str) -> Expr<String> {
        parse(&tokens(text), &mut |name, _| Ok(Expr::Name(name.to_owned()))).expect("valid")
    }

    /// A is 3, B is 0, P is unknown from 0 to 1.
    fn bounds(text: &str) -> Bounds {
        let known = |name: &String| match name.as_str() {
            "A" => Bounds::exactly(3.0),
            "P" => Bounds::between(0.0, 1.0),
            _ => Bounds::exactly(0.0),
        };
        let bounds = expr(text).bounds(&known);
        let flat = Flat::of(&expr(text)).bounds(&|name| known(name).truth, &known);
        // A chain finds a false operand sooner; nothing is less certain.
        assert!(bounds.low <= flat.low && flat.high <= bounds.high, "{text}: {flat:?} {bounds:?}");
        assert!(bounds.truth.is_none_or(|yes| flat.truth == Some(yes)), "{text}: {flat:?}");
        let truth = Flat::of(&expr(text)).truth(&|name| known(name).truth, &known);
        assert!(flat.truth.is_none_or(|yes| truth == Some(yes)), "{text}: {flat:?} {truth:?}");
        Bounds { truth, ..flat }
    }

    #[test]
    fn what_is_certain() {
        assert_eq!(bounds("B && P").exact(), Some(0.0));
        assert_eq!(bounds("P && B").exact(), Some(0.0));
        assert_eq!(bounds("A || P").exact(), Some(3.0));
        assert_eq!(bounds("P || A").truth, Some(true));
        assert_eq!(bounds("P || A").exact(), None);
        assert_eq!(bounds("P + A >= 3").exact(), Some(1.0));
        assert_eq!(bounds("P + A > 3").truth, None);
        assert_eq!(bounds("P + B > 1").exact(), Some(0.0));
        assert_eq!(bounds("!P && A").truth, None);
        assert_eq!(bounds("!(P || A)").exact(), Some(0.0));
        assert_eq!(bounds("P ? A : 3").truth, Some(true));
        assert_eq!(bounds("P == 2").exact(), Some(0.0));
        assert!(expr("A && (B / C > 2)").divides());
        assert!(!expr("A && (B / 10 > 2)").divides());
        assert_eq!(bounds("(P * 14) / 7 > 2").exact(), Some(0.0));
    }

    #[test]
    fn every_value_is_within_the_bounds() {
        let leaves = ["A", "P", "B", "2", "1"];
        let operators = ["&&", "||", "+", "-", "*", ">", ">=", "<", "<=", "==", "!=", "^"];
        for first in operators {
            for second in operators {
                for at in 0..leaves.len().pow(3) {
                    let leaf = |n: usize| leaves[at / leaves.len().pow(n as u32) % leaves.len()];
                    let (a, b, c) = (leaf(0), leaf(1), leaf(2));
                    for text in [
                        format!("({a} {first} {b}) {second} {c}"),
                        format!("{a} {first} !{b} {second} {c}"),
                    ] {
                        let bounds = bounds(&text);
                        for p in [0.0, 1.0] {
                            let value = expr(&text).value(&|name| match name.as_str() {
                                "A" => 3.0,
                                "P" => p,
                                _ => 0.0,
                            });
                            let value = value.expect("nothing is divided");
                            assert!(
                                bounds.low <= value && value <= bounds.high,
                                "{text}: {bounds:?}"
                            );
                            let truth = bounds.truth.unwrap_or(value != 0.0);
                            assert_eq!(truth, value != 0.0, "{text}: {bounds:?}, {value}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn single_names_that_must_be_true_or_false() {
        let names = |name: &str| Ok(Expr::Name(u32::from(name.as_bytes()[0] - b'A')));
        let conjuncts = |text: &str| {
            let expr = parse(&tokens(text), &mut |name, _| names(name)).expect("valid");
            Flat::of(&expr).conjuncts()
        };
        assert_eq!(conjuncts("A && !B && (C || D) && E"), [0, 3, 8]);
        assert_eq!(conjuncts("!C"), [5]);
        assert_eq!(conjuncts("A || B"), [0u32; 0]);
        assert_eq!(conjuncts("A + B > 1"), [0u32; 0]);
    }
}
