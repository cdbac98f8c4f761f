//! Throughput on more CPUs than were measured, by the Universal Scalability Law (N. J. Gunther,
//! "Guerrilla Capacity Planning", 2007): X(n) = λ n / (1 + σ (n - 1) + κ n (n - 1)), with
//! contention σ and coherency κ.
//!
//! n / X is linear in (1, n - 1, n (n - 1)), so that least squares give λ, σ and κ and an error of
//! every prediction. Points weigh by relative error. A coefficient that comes out negative says
//! that the points do not show that effect: it is left out and the rest fitted again.
//!
//! An extrapolation is refused rather than printed where the points cannot carry it.

use serde::{Deserialize, Serialize};

/// Different numbers of CPUs that a fit needs at least: three coefficients and one to judge them
/// by.
pub const COUNTS_MIN: usize = 4;
/// The largest number of CPUs measured is at least so many times the smallest.
pub const SPAN_MIN: f64 = 4.0;
/// Relative error of the fit on its own points (root of the mean square) above which it is refused.
pub const ERROR_MAX: f64 = 0.1;
/// A prediction reaches at most so many times beyond the largest number measured.
pub const REACH_MAX: f64 = 4.0;
/// Upper end of a band over its lower end, above which it says nothing.
pub const BAND_MAX: f64 = 2.0;

/// Throughput that was measured with some CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// CPUs (or nodes) used.
    pub cpus: f64,
    /// Messages/s with all of them.
    pub rate: f64,
}

/// Why there is no fit or no prediction.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Refusal {
    /// A point that cannot be one.
    #[error("{cpus} CPUs and {rate} messages/s is no measurement: both must be above 0")]
    BadPoint {
        /// CPUs of the machine that was measured.
        cpus: f64,
        /// Messages/s with these CPUs.
        rate: f64,
    },
    /// No number of CPUs.
    #[error("{wanted} is no number of CPUs: it must be 1 or more")]
    NoCpus {
        /// CPUs that were requested.
        wanted: f64,
    },
    /// Too few different numbers of CPUs were measured.
    #[error("{found} different numbers of CPUs were measured; a fit needs {}", COUNTS_MIN)]
    TooFew {
        /// Different numbers of CPUs.
        found: usize,
    },
    /// The numbers of CPUs lie too close together.
    #[error("the points span a factor of {span:.1}; a fit needs {}", SPAN_MIN)]
    TooNarrow {
        /// Largest number over smallest.
        span: f64,
    },
    /// The law does not describe them.
    #[error("the law misses the points by {:.0} %, more than {:.0} %: measure again, with less \
             noise", .error * 100.0, ERROR_MAX * 100.0)]
    TooNoisy {
        /// Relative error of the law at the points.
        error: f64,
    },
    /// The prediction reaches too far beyond what was measured.
    #[error("{wanted} CPUs are more than {} times the {measured} that were measured", REACH_MAX)]
    TooFar {
        /// CPUs that were requested.
        wanted: f64,
        /// Largest number of CPUs measured.
        measured: f64,
    },
    /// The band is so wide that it says nothing.
    #[error(
        "at {wanted} CPUs the points allow anything within a factor of more than {}: measure \
         closer to it",
        BAND_MAX
    )]
    TooVague {
        /// CPUs that were requested.
        wanted: f64,
    },
}

/// The law, fitted to points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// Messages/s of one CPU.
    pub lambda: f64,
    /// Contention: the serial share of the work, 0 to 1.
    pub sigma: f64,
    /// Coherency: the cost of each pair of CPUs that keep in step.
    pub kappa: f64,
    /// Relative error on its own points.
    pub error: f64,
    /// Largest number of CPUs measured.
    pub measured_max: f64,
    /// Which of the three terms are in it.
    terms: Vec<usize>,
    /// Inverse of the normal matrix of those terms, by rows.
    inverse: Vec<Vec<f64>>,
    /// Variance of a point's relative error.
    variance: f64,
    /// Points less fitted terms: degrees of freedom of the variance.
    freedom: usize,
}

/// A prediction: extrapolation when it is beyond what was measured.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// CPUs that it is for.
    pub cpus: f64,
    /// Lower end of the 95 % band in messages/s.
    pub low: f64,
    /// Messages/s by the law.
    pub rate: f64,
    /// Upper end of the interval, in messages/s.
    pub high: f64,
    /// Beyond the largest number measured.
    pub extrapolated: bool,
}

/// The three terms at so many CPUs.
fn terms_at(cpus: f64) -> [f64; 3] {
    [1.0, cpus - 1.0, cpus * (cpus - 1.0)]
}

/// Fits the law.
///
/// # Errors
/// [`Refusal`] says what the points lack.
pub fn fit(points: &[Point]) -> Result<Fit, Refusal> {
    for &Point { cpus, rate } in points {
        if !(cpus >= 1.0 && rate > 0.0 && cpus.is_finite() && rate.is_finite()) {
            return Err(Refusal::BadPoint { cpus, rate });
        }
    }
    let mut counts: Vec<f64> = points.iter().map(|p| p.cpus).collect();
    counts.sort_by(f64::total_cmp);
    counts.dedup();
    let (Some(&least), Some(&most)) = (counts.first(), counts.last()) else {
        return Err(Refusal::TooFew { found: 0 });
    };
    if counts.len() < COUNTS_MIN {
        return Err(Refusal::TooFew { found: counts.len() });
    }
    if most / least < SPAN_MIN {
        return Err(Refusal::TooNarrow { span: most / least });
    }
    // Drop what the points do not show, the most negative first.
    let mut terms = vec![0, 1, 2];
    loop {
        let (solution, inverse) =
            solve(points, &terms).ok_or(Refusal::TooFew { found: counts.len() })?;
        let effects = terms.iter().zip(&solution).filter(|(term, _)| **term > 0);
        let worst = effects.filter(|(_, v)| **v < 0.0).min_by(|a, b| a.1.total_cmp(b.1));
        if let Some(&worst) = worst.map(|(term, _)| term) {
            terms.retain(|t| *t != worst);
            continue;
        }
        return judge(points, terms, &solution, inverse, most);
    }
}

/// Turns coefficients into the law, unless they miss the points.
fn judge(
    points: &[Point],
    terms: Vec<usize>,
    solution: &[f64],
    inverse: Vec<Vec<f64>>,
    measured_max: f64,
) -> Result<Fit, Refusal> {
    let mut all = [0.0; 3];
    for (&term, &value) in terms.iter().zip(solution) {
        if let Some(slot) = all.get_mut(term) {
            *slot = value;
        }
    }
    let [one, contention, coherency] = all;
    let miss = |p: &Point| {
        let predicted: f64 = terms_at(p.cpus).iter().zip(&all).map(|(t, c)| t * c).sum();
        (predicted * p.rate / p.cpus - 1.0).powi(2)
    };
    let squares: f64 = points.iter().map(miss).sum();
    let error = (squares / points.len() as f64).sqrt();
    if error > ERROR_MAX || one <= 0.0 {
        return Err(Refusal::TooNoisy { error });
    }
    let freedom = points.len().saturating_sub(terms.len()).max(1);
    Ok(Fit {
        lambda: 1.0 / one,
        sigma: contention / one,
        kappa: coherency / one,
        error,
        measured_max,
        terms,
        inverse,
        variance: squares / freedom as f64,
        freedom,
    })
}

impl Fit {
    /// The law at so many CPUs, with the band in which a measurement there falls 19 times of 20.
    ///
    /// # Errors
    /// [`Refusal`] when it would be a guess.
    pub fn predict(&self, cpus: f64) -> Result<Prediction, Refusal> {
        if !(cpus >= 1.0 && cpus.is_finite()) {
            return Err(Refusal::NoCpus { wanted: cpus });
        }
        if cpus > self.measured_max * REACH_MAX {
            return Err(Refusal::TooFar { wanted: cpus, measured: self.measured_max });
        }
        let denominator = 1.0 + self.sigma * (cpus - 1.0) + self.kappa * cpus * (cpus - 1.0);
        let rate = self.lambda * cpus / denominator;
        let all = terms_at(cpus);
        let row: Vec<f64> = self.terms.iter().filter_map(|t| all.get(*t).copied()).collect();
        let spread: f64 = self
            .inverse
            .iter()
            .zip(&row)
            .map(|(line, left)| left * line.iter().zip(&row).map(|(a, b)| a * b).sum::<f64>())
            .sum();
        // n / X is what was fitted; a single measurement scatters by the points' own error too.
        let value = cpus / rate;
        let error = (self.variance * (spread + value * value)).sqrt() * student(self.freedom);
        let (low, high) = (cpus / (value + error), cpus / (value - error));
        if value <= error || high / low > BAND_MAX {
            return Err(Refusal::TooVague { wanted: cpus });
        }
        Ok(Prediction { cpus, low, rate, high, extrapolated: cpus > self.measured_max })
    }
}

/// Two-sided 95 % quantile of Student's distribution.
fn student(freedom: usize) -> f64 {
    const QUANTILES: [f64; 10] =
        [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    QUANTILES.get(freedom.saturating_sub(1)).copied().unwrap_or(2.0)
}

/// Weighted least squares for these terms: coefficients and the inverse of the normal matrix.
fn solve(points: &[Point], terms: &[usize]) -> Option<(Vec<f64>, Vec<Vec<f64>>)> {
    let size = terms.len();
    // The normal matrix beside the unit matrix beside the right side, to be reduced.
    let mut rows = vec![vec![0.0; size * 2 + 1]; size];
    for point in points {
        let (all, value) = (terms_at(point.cpus), point.cpus / point.rate);
        let row: Vec<f64> = terms.iter().filter_map(|t| Some(all.get(*t)? / value)).collect();
        for (line, left) in rows.iter_mut().zip(&row) {
            for (cell, right) in line.iter_mut().zip(&row) {
                *cell += left * right;
            }
            *line.last_mut()? += left;
        }
    }
    for (i, line) in rows.iter_mut().enumerate() {
        *line.get_mut(size + i)? = 1.0;
    }
    for i in 0..size {
        let pivot = (i..size).max_by(|a, b| rows[*a][i].abs().total_cmp(&rows[*b][i].abs()))?;
        rows.swap(i, pivot);
        let scale = rows[i][i];
        if scale.abs() < f64::MIN_POSITIVE {
            return None;
        }
        rows[i].iter_mut().for_each(|cell| *cell /= scale);
        let reduced = rows[i].clone();
        for (j, line) in rows.iter_mut().enumerate() {
            if j != i {
                let factor = line[i];
                line.iter_mut().zip(&reduced).for_each(|(cell, r)| *cell -= factor * r);
            }
        }
    }
    let solution = rows.iter().filter_map(|line| line.last().copied()).collect();
    let inverse = rows.iter().map(|line| line[size..size * 2].to_vec()).collect();
    Some((solution, inverse))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(pairs: &[(f64, f64)]) -> Vec<Point> {
        pairs.iter().map(|&(cpus, rate)| Point { cpus, rate }).collect()
    }

    fn law(lambda: f64, sigma: f64, kappa: f64, counts: &[f64]) -> Vec<Point> {
        let at = |n: f64| lambda * n / (1.0 + sigma * (n - 1.0) + kappa * n * (n - 1.0));
        counts.iter().map(|&cpus| Point { cpus, rate: at(cpus) }).collect()
    }

    #[test]
    fn a_law_is_found_again() {
        let fit = fit(&law(100.0, 0.05, 0.001, &[1.0, 2.0, 4.0, 8.0, 16.0])).unwrap();
        assert!((fit.lambda - 100.0).abs() < 1e-6, "{fit:?}");
        assert!((fit.sigma - 0.05).abs() < 1e-9 && (fit.kappa - 0.001).abs() < 1e-9, "{fit:?}");
        let expected = law(100.0, 0.05, 0.001, &[32.0])[0].rate;
        let at = fit.predict(32.0).unwrap();
        assert!((at.rate - expected).abs() < 1e-6 && at.extrapolated);
        assert!(!fit.predict(8.0).unwrap().extrapolated);
    }

    #[test]
    fn better_than_linear_becomes_linear() {
        let points = points(&[(1.0, 100.0), (2.0, 202.0), (4.0, 406.0), (8.0, 816.0)]);
        let fit = fit(&points).unwrap();
        assert_eq!((fit.sigma, fit.kappa), (0.0, 0.0), "{fit:?}");
        let at = fit.predict(16.0).unwrap();
        assert!(at.low < 1_600.0 && 1_600.0 < at.high, "{at:?}");
    }

    /// Flow-based scan of the paper on unified threat management, 1 to 6 CPUs.
    #[test]
    fn the_paper_s_figures_carry_a_fit_but_no_leap() {
        let measured = points(&[
            (1.0, 440.92),
            (2.0, 733.68),
            (3.0, 900.39),
            (4.0, 935.67),
            (5.0, 1_248.05),
            (6.0, 1_471.67),
        ]);
        let fit = fit(&measured).unwrap();
        assert_eq!(fit.kappa, 0.0, "they do not show coherency: {fit:?}");
        for point in &measured[1..] {
            let at = fit.predict(point.cpus).unwrap();
            assert!(at.low <= point.rate && point.rate <= at.high, "{point:?} {at:?}");
        }
        assert_eq!(fit.predict(12.0).unwrap_err(), Refusal::TooVague { wanted: 12.0 });
        assert!(matches!(fit.predict(25.0), Err(Refusal::TooFar { .. })));
    }

    #[test]
    fn what_cannot_carry_a_fit_is_refused() {
        // The Brightmail study: 32 and 64 threads of one release.
        let two = points(&[(32.0, 15.2), (64.0, 35.4)]);
        assert_eq!(fit(&two).unwrap_err(), Refusal::TooFew { found: 2 });
        let repeated = points(&[(1.0, 10.0), (1.0, 11.0), (2.0, 20.0), (2.0, 19.0), (2.0, 21.0)]);
        assert_eq!(fit(&repeated).unwrap_err(), Refusal::TooFew { found: 2 });
        let narrow = law(10.0, 0.0, 0.0, &[4.0, 5.0, 6.0, 7.0]);
        assert!(matches!(fit(&narrow), Err(Refusal::TooNarrow { .. })));
        let wild = points(&[(1.0, 100.0), (2.0, 40.0), (4.0, 500.0), (8.0, 90.0)]);
        assert!(matches!(fit(&wild), Err(Refusal::TooNoisy { .. })));
        assert!(matches!(fit(&points(&[(0.0, 1.0)])), Err(Refusal::BadPoint { .. })));
        assert_eq!(fit(&[]).unwrap_err(), Refusal::TooFew { found: 0 });
    }

    #[test]
    fn a_band_that_says_nothing_is_refused() {
        // Four points for three coefficients, with some noise: one degree of freedom.
        let noisy = points(&[(1.0, 100.0), (2.0, 170.0), (4.0, 330.0), (8.0, 420.0)]);
        let fit = fit(&noisy).unwrap();
        assert_eq!(fit.predict(32.0).unwrap_err(), Refusal::TooVague { wanted: 32.0 });
    }
}
