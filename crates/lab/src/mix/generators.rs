//! Selection of an operation's record: YCSB's distributions, and a distribution skewed to low keys.
//!
//! The zipfian is that of Gray et al., "Quickly generating billion-record synthetic databases"
//! (SIGMOD 1994), which YCSB uses: exact for the two most frequent ranks, a power law for the
//! others.

use super::hash::fnv64;
use crate::workload::rng::Rng;

/// YCSB's skew.
pub const ZIPFIAN_CONSTANT: f64 = 0.99;
/// Number of ranks of YCSB's scrambled zipfian, independent of the number of records.
const SCRAMBLED_ITEMS: u64 = 10_000_000_000;
/// Zeta of the scrambled zipfian, precomputed because the sum takes minutes.
const SCRAMBLED_ZETA: f64 = 26.46902820178302;

/// Returns a number from 0 (inclusive) to 1 (exclusive).
pub fn unit(rng: &mut Rng) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Ranks with power-law frequencies; rank 0 is the most frequent.
#[derive(Clone, Debug)]
pub struct Zipfian {
    items: u64,
    theta: f64,
    alpha: f64,
    zeta: f64,
    zeta_2: f64,
    eta: f64,
}

impl Zipfian {
    /// Creates a generator of ranks below `items`, which must be at least 1.
    pub fn new(items: u64, theta: f64) -> Zipfian {
        Zipfian::with_zeta(items, theta, zeta(0, items, theta, 0.0))
    }

    fn with_zeta(items: u64, theta: f64, zeta_n: f64) -> Zipfian {
        let zeta_2 = zeta(0, 2, theta, 0.0);
        let alpha = 1.0 / (1.0 - theta);
        let mut made = Zipfian { items, theta, alpha, zeta: zeta_n, zeta_2, eta: 0.0 };
        made.set_eta();
        made
    }

    fn set_eta(&mut self) {
        let share = 2.0 / self.items as f64;
        self.eta = (1.0 - share.powf(1.0 - self.theta)) / (1.0 - self.zeta_2 / self.zeta);
    }

    /// Extends the ranks to all below `items`, and extends the sum incrementally.
    pub fn grow(&mut self, items: u64) {
        if items > self.items {
            self.zeta = zeta(self.items, items, self.theta, self.zeta);
            self.items = items;
            self.set_eta();
        }
    }

    /// Returns the rank for `u` in 0..1.
    pub fn rank(&self, u: f64) -> u64 {
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < 1.0 + 0.5f64.powf(self.theta) {
            return 1;
        }
        (self.items as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha)) as u64
    }

    /// Draws the next rank.
    pub fn next(&self, rng: &mut Rng) -> u64 {
        self.rank(unit(rng)).min(self.items - 1)
    }
}

/// Returns `sum` plus the sum of 1/i^theta for i in `from`+1..=`to`.
fn zeta(from: u64, to: u64, theta: f64, sum: f64) -> f64 {
    (from..to).fold(sum, |sum, index| sum + 1.0 / ((index + 1) as f64).powf(theta))
}

/// Distribution of the operations over the records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// One after another; starts over at 0 after the last.
    Sequential,
    /// Each record once in a shuffled order, then again in another order.
    Shuffled,
    /// Each record equally often.
    Uniform,
    /// A power law, with the frequent records scattered over all.
    Zipfian,
    /// A power law, with the newest records most often.
    Latest,
    /// Lower records more often: a quarter of the records gets half of the operations.
    Low,
    /// A fraction of the operations on a fraction of the records.
    Hotspot {
        /// Fraction of the records that is hot.
        data: f64,
        /// Fraction of the operations on hot records.
        operations: f64,
    },
    /// Exponentially less often with increasing age.
    Exponential {
        /// Fraction of the operations, in percent, on the newest records.
        percentile: f64,
        /// Fraction of the records that counts as newest.
        share: f64,
    },
}

impl Distribution {
    /// Returns the distribution with this name, with YCSB's defaults.
    pub fn parse(name: &str) -> Option<Distribution> {
        Some(match name {
            "sequential" => Distribution::Sequential,
            "shuffled" => Distribution::Shuffled,
            "uniform" => Distribution::Uniform,
            "zipfian" => Distribution::Zipfian,
            "latest" => Distribution::Latest,
            "low" => Distribution::Low,
            "hotspot" => Distribution::Hotspot { data: 0.2, operations: 0.8 },
            "exponential" => Distribution::Exponential { percentile: 95.0, share: 0.8571428571 },
            _ => return None,
        })
    }
}

/// Names accepted by [`Distribution::parse`].
pub const DISTRIBUTIONS: &[&str] =
    &["sequential", "shuffled", "uniform", "zipfian", "latest", "low", "hotspot", "exponential"];

/// Chooses records by a distribution. Draws depend only on the given random generator.
#[derive(Clone, Debug)]
pub struct Chooser {
    distribution: Distribution,
    records: u64,
    zipfian: Option<Zipfian>,
    scrambled_over: u64,
    at: u64,
    shuffled: Vec<u32>,
}

impl Chooser {
    /// Creates a chooser over `records` (at least 1). `growth` is the expected number of inserts,
    /// which YCSB's scrambled zipfian covers from the start.
    pub fn new(distribution: Distribution, records: u64, growth: u64, rng: &mut Rng) -> Chooser {
        let records = records.max(1);
        let zipfian = match distribution {
            Distribution::Zipfian => {
                Some(Zipfian::with_zeta(SCRAMBLED_ITEMS, ZIPFIAN_CONSTANT, SCRAMBLED_ZETA))
            }
            Distribution::Latest => Some(Zipfian::new(records, ZIPFIAN_CONSTANT)),
            _ => None,
        };
        let mut made = Chooser {
            distribution,
            records,
            zipfian,
            scrambled_over: records + growth,
            at: 0,
            shuffled: Vec::new(),
        };
        if distribution == Distribution::Shuffled {
            made.shuffled = (0..records as u32).collect();
            made.shuffle(rng);
        }
        made
    }

    fn shuffle(&mut self, rng: &mut Rng) {
        for last in (1..self.shuffled.len()).rev() {
            self.shuffled.swap(last, rng.below(last as u64 + 1) as usize);
        }
    }

    /// Raises the number of records to `records`.
    pub fn grow(&mut self, records: u64) {
        self.records = self.records.max(records);
        if self.distribution == Distribution::Latest
            && let Some(zipfian) = &mut self.zipfian
        {
            zipfian.grow(records);
        }
    }

    /// Draws the next record, below the number of records.
    pub fn next(&mut self, rng: &mut Rng) -> u64 {
        match (self.distribution, &self.zipfian) {
            (Distribution::Zipfian, Some(zipfian)) => loop {
                // As in YCSB, a record not yet inserted is drawn again.
                let record = fnv64(zipfian.next(rng)) % self.scrambled_over;
                if record < self.records {
                    return record;
                }
            },
            (Distribution::Latest, Some(zipfian)) => self.records - 1 - zipfian.next(rng),
            (Distribution::Low, _) => {
                let share = unit(rng).powi(2);
                ((share * self.records as f64) as u64).min(self.records - 1)
            }
            (Distribution::Sequential, _) => {
                self.at += 1;
                (self.at - 1) % self.records
            }
            (Distribution::Shuffled, _) => {
                let place = self.at as usize % self.shuffled.len();
                if self.at > 0 && place == 0 {
                    self.shuffle(rng);
                }
                self.at += 1;
                u64::from(self.shuffled[place])
            }
            (Distribution::Hotspot { data, operations }, _) => {
                let hot = ((self.records as f64 * data) as u64).clamp(1, self.records);
                if unit(rng) < operations || hot == self.records {
                    rng.below(hot)
                } else {
                    hot + rng.below(self.records - hot)
                }
            }
            (Distribution::Exponential { percentile, share }, _) => loop {
                let gamma = -(1.0 - percentile / 100.0).ln() / (self.records as f64 * share);
                let age = (-unit(rng).max(f64::MIN_POSITIVE).ln() / gamma) as u64;
                if age < self.records {
                    return self.records - 1 - age;
                }
            },
            _ => rng.below(self.records),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 1_000_000;

    /// Returns chi-square of counts against probabilities, and the degrees of freedom.
    fn chi_square(counts: &[u64], probabilities: &[f64]) -> (f64, f64) {
        let total: u64 = counts.iter().sum();
        let (mut chi, mut cells) = (0.0, 0.0);
        for (&count, &probability) in counts.iter().zip(probabilities) {
            let expected = probability * total as f64;
            assert!(expected > 5.0 || count == 0 || expected > 0.0, "an impossible draw");
            if expected >= 5.0 {
                chi += (count as f64 - expected).powi(2) / expected;
                cells += 1.0;
            }
        }
        (chi, cells - 1.0)
    }

    /// Returns a limit far above the 99.99 % quantile for this many degrees (normal approximation).
    fn limit(degrees: f64) -> f64 {
        degrees + 4.0 * (2.0 * degrees).sqrt() + 10.0
    }

    fn counts(distribution: Distribution, records: u64) -> Vec<u64> {
        let mut rng = Rng::new(42);
        let mut chooser = Chooser::new(distribution, records, 0, &mut rng);
        let mut counts = vec![0u64; records as usize];
        (0..DRAWS).for_each(|_| counts[chooser.next(&mut rng) as usize] += 1);
        counts
    }

    /// Returns each rank's share by the formula: the inverse of the u at which the rank begins.
    fn zipfian_shares(items: u64, theta: f64) -> Vec<f64> {
        let zeta_n: f64 = (1..=items).map(|i| 1.0 / (i as f64).powf(theta)).sum();
        let zeta_2 = 1.0 + 0.5f64.powf(theta);
        let eta = (1.0 - (2.0 / items as f64).powf(1.0 - theta)) / (1.0 - zeta_2 / zeta_n);
        let begins = |rank: u64| match rank {
            0 => 0.0,
            1 => 1.0 / zeta_n,
            _ => {
                let u = ((rank as f64 / items as f64).powf(1.0 - theta) - 1.0 + eta) / eta;
                u.clamp(zeta_2 / zeta_n, 1.0)
            }
        };
        (0..items).map(|rank| begins(rank + 1).min(1.0) - begins(rank)).collect()
    }

    #[test]
    fn zipfian_ranks_follow_the_formula() {
        let shares = zipfian_shares(1000, ZIPFIAN_CONSTANT);
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        let (mut rng, zipfian) = (Rng::new(7), Zipfian::new(1000, ZIPFIAN_CONSTANT));
        let mut counts = vec![0u64; 1000];
        (0..DRAWS).for_each(|_| counts[zipfian.next(&mut rng) as usize] += 1);
        let (chi, degrees) = chi_square(&counts, &shares);
        assert!(chi < limit(degrees), "chi-square {chi} of {degrees} degrees");
        // Computed by hand: zeta(1000, 0.99) = 7.7290, so rank 0 has 1 / 7.7290 = 12.94 %.
        assert!((shares[0] - 0.1294).abs() < 0.0001, "{}", shares[0]);
        assert!((shares[1] / shares[0] - 0.5f64.powf(0.99)).abs() < 1e-9);
    }

    #[test]
    fn latest_is_reversed_zipfian_and_follows_inserts() {
        let latest = counts(Distribution::Latest, 1000);
        let mut shares = zipfian_shares(1000, ZIPFIAN_CONSTANT);
        shares.reverse();
        let (chi, degrees) = chi_square(&latest, &shares);
        assert!(chi < limit(degrees), "chi-square {chi} of {degrees} degrees");
        let mut rng = Rng::new(1);
        let mut grown = Chooser::new(Distribution::Latest, 10, 0, &mut rng);
        grown.grow(1000);
        let fresh = Zipfian::new(1000, ZIPFIAN_CONSTANT);
        let zipfian = grown.zipfian.as_ref().expect("made");
        assert!((zipfian.zeta - fresh.zeta).abs() < 1e-9 && zipfian.eta == fresh.eta);
        assert!((0..100).map(|_| grown.next(&mut rng)).filter(|&r| r >= 900).count() > 40);
    }

    #[test]
    fn low_keys_use_square_of_uniform_number() {
        // The share of keys below r is sqrt(r / n).
        let below = |r: usize| (r as f64 / 1000.0).sqrt();
        let shares: Vec<f64> = (0..1000).map(|r| below(r + 1) - below(r)).collect();
        let counts = counts(Distribution::Low, 1000);
        let (chi, degrees) = chi_square(&counts, &shares);
        assert!(chi < limit(degrees), "chi-square {chi} of {degrees} degrees");
        let quarter: u64 = counts[..250].iter().sum();
        assert!((quarter as f64 / DRAWS as f64 - 0.5).abs() < 0.002, "{quarter}");
    }

    #[test]
    fn uniform_and_shuffled_are_uniform() {
        let (chi, degrees) =
            chi_square(&counts(Distribution::Uniform, 500), &vec![1.0 / 500.0; 500]);
        assert!(chi < limit(degrees), "chi-square {chi} of {degrees} degrees");
        assert!(counts(Distribution::Shuffled, 500).iter().all(|&count| count == DRAWS / 500));
        assert!(counts(Distribution::Sequential, 500).iter().all(|&count| count == DRAWS / 500));
    }

    #[test]
    fn scrambled_zipfian_uses_ycsb_hash() {
        let records = 1000;
        let counts = counts(Distribution::Zipfian, records);
        // The frequent ranks are placed one by one at their hash; the other ranks are spread evenly
        // by the same hash.
        let ranks = 300_000u64;
        let zipfian = Zipfian::with_zeta(SCRAMBLED_ITEMS, ZIPFIAN_CONSTANT, SCRAMBLED_ZETA);
        let begins = |rank: u64| match rank {
            0 => 0.0,
            1 => 1.0 / zipfian.zeta,
            _ => {
                let share = (rank as f64 / SCRAMBLED_ITEMS as f64).powf(1.0 - ZIPFIAN_CONSTANT);
                ((share - 1.0 + zipfian.eta) / zipfian.eta).max(zipfian.zeta_2 / zipfian.zeta)
            }
        };
        let rest = (1.0 - begins(ranks)) / records as f64;
        let mut shares = vec![rest; records as usize];
        for rank in 0..ranks {
            shares[(fnv64(rank) % records) as usize] += begins(rank + 1) - begins(rank);
        }
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-6);
        let (chi, degrees) = chi_square(&counts, &shares);
        assert!(chi < limit(degrees), "chi-square {chi} of {degrees} degrees");
        // Rank 0 is YCSB's key 6284781860667377211, the most frequent key.
        let hottest = (6284781860667377211u64 % records) as usize;
        assert_eq!(counts.iter().max(), Some(&counts[hottest]));
        assert!((shares[hottest] - 1.0 / SCRAMBLED_ZETA - rest).abs() < 0.002);
    }

    #[test]
    fn ranks_match_published_generator() {
        // Computed from the generator's formula in another language, for these numbers from 0 to 1.
        let numbers = [0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999];
        for (items, zeta, ranks) in [
            (1000, 7.728953217284729, [0, 0, 0, 2, 4, 10, 22, 47, 103, 221, 471, 687, 927, 992]),
            (
                100_000,
                12.778338062551246,
                [0, 0, 1, 5, 20, 72, 251, 856, 2875, 9518, 31066, 55832, 89021, 98844],
            ),
        ] {
            let zipfian = Zipfian::new(items, ZIPFIAN_CONSTANT);
            assert!((zipfian.zeta - zeta).abs() < 1e-9, "{}", zipfian.zeta);
            assert_eq!(numbers.map(|number| zipfian.rank(number)), ranks);
        }
    }

    #[test]
    fn hotspot_and_exponential_match_their_shares() {
        let hot = counts(Distribution::Hotspot { data: 0.2, operations: 0.8 }, 1000);
        let shares: Vec<f64> =
            (0..1000).map(|r| if r < 200 { 0.8 / 200.0 } else { 0.2 / 800.0 }).collect();
        let (chi, degrees) = chi_square(&hot, &shares);
        assert!(chi < limit(degrees), "chi-square {chi} of {degrees} degrees");
        let aged = counts(Distribution::Exponential { percentile: 95.0, share: 0.5 }, 1000);
        // An age of at least a records has the share 0.05^(a / 500); an age beyond the last record
        // is drawn again.
        let older = |age: usize| 0.05f64.powf(age as f64 / 500.0);
        let all = 1.0 - older(1000);
        let shares: Vec<f64> =
            (0..1000).map(|r| (older(999 - r) - older(1000 - r)) / all).collect();
        let (chi, degrees) = chi_square(&aged, &shares);
        assert!(chi < limit(degrees), "chi-square {chi} of {degrees} degrees");
    }

    #[test]
    fn every_distribution_name_is_known() {
        assert!(DISTRIBUTIONS.iter().all(|name| Distribution::parse(name).is_some()));
        assert_eq!(Distribution::parse("normal"), None);
    }
}
