//! The model of RocksDB's workload mixgraph: which keys are used, by which operations, with values
//! and scans of which lengths.
//!
//! Source: Cao, Dong, Vemuri, Du, "Characterizing, Modeling, and Benchmarking RocksDB Key-Value
//! Workloads at Facebook" (FAST 2020). The parameters have the names of RocksDB's `db_bench`.
//!
//! Invariants: every number depends only on the parameters, the number of keys and the given
//! numbers from 0 to 1. The keys that are used most are the same in every task of a benchmark. A
//! key is below the number of keys, and a length is from 1 to its limit.

use super::generators::unit;
use super::phase::OpKind;
use crate::workload::dataset::BIG_VALUE_BYTES;
use crate::workload::rng::{Rng, mix};

/// The generalized Pareto distribution (Pickands, "Statistical Inference Using Extreme Order
/// Statistics", 1975). The paper models the sizes of values and the lengths of scans by it.
///
/// The share above `x` is `(1 + k (x - theta) / sigma)^(-1 / k)`, and `e^(-(x - theta) / sigma)`
/// if `k` is 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GeneralizedPareto {
    /// Shape: the larger, the more numbers are far above the others.
    pub k: f64,
    /// Scale.
    pub sigma: f64,
    /// Smallest number.
    pub theta: f64,
}

impl GeneralizedPareto {
    /// Returns the number that a share of `u` is below; `u` is from 0 to 1, exclusive.
    pub fn quantile(&self, u: f64) -> f64 {
        let above = 1.0 - u;
        if self.k == 0.0 {
            return self.theta - self.sigma * above.ln();
        }
        self.theta + self.sigma * (above.powf(-self.k) - 1.0) / self.k
    }

    /// Returns [`GeneralizedPareto::quantile`] as a whole number from 1 to `most`: rounded up, and
    /// above `most` the remainder, as in db_bench.
    pub fn whole(&self, u: f64, most: u64) -> u64 {
        let number = self.quantile(u).ceil() as u64;
        let number = if number > most { number % most } else { number };
        number.max(1)
    }
}

/// A power law of ranks: the share of the ranks up to `x` is `a x^b`. The last rank is
/// `(1 / a)^(1 / b)`. The paper models the use of the keys of a range by it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PowerLaw {
    /// Share of the first rank.
    pub a: f64,
    /// Exponent: the smaller, the more shares are with the first ranks.
    pub b: f64,
}

impl PowerLaw {
    /// Returns the rank for `u` in 0..1, from 1. `None` if a parameter is 0, which means that all
    /// keys are used alike.
    pub fn rank(&self, u: f64) -> Option<u64> {
        if self.a == 0.0 || self.b == 0.0 {
            return None;
        }
        Some(((u / self.a).powf(1.0 / self.b).ceil() as u64).max(1))
    }
}

/// A sum of two exponential functions over the key ranges: the share of the range with rank `x`,
/// from 1, is in proportion to `a e^(b x) + c e^(d x)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoTermExponential {
    /// Factor of the first term.
    pub a: f64,
    /// Exponent of the first term.
    pub b: f64,
    /// Factor of the second term.
    pub c: f64,
    /// Exponent of the second term.
    pub d: f64,
    /// Number of key ranges.
    pub ranges: u64,
}

impl TwoTermExponential {
    /// Returns the weight of the range with rank `x`; 0 if the sum is no positive number.
    pub fn weight(&self, x: u64) -> f64 {
        const WEIGHT_MAX: f64 = 1e100;
        let x = x as f64;
        let weight = self.a * (self.b * x).exp() + self.c * (self.d * x).exp();
        if weight > 0.0 { weight.min(WEIGHT_MAX) } else { 0.0 }
    }
}

/// Chooses keys: a range by its share, and a key of the range by the power law.
///
/// The ranges divide the keys in order into equal parts. Which part has which rank is shuffled, and
/// so is which key of a part has which rank. If no range has a share, all keys are one range.
#[derive(Clone, Debug)]
pub struct KeyRanges {
    /// Sums of the weights up to each rank.
    sums: Vec<f64>,
    /// Part of each rank.
    parts: Vec<u64>,
    law: PowerLaw,
    keys: u64,
}

impl KeyRanges {
    /// Creates the ranges over `keys` keys, of which there must be at least 1.
    pub fn new(model: &Mixgraph, keys: u64) -> KeyRanges {
        let keys = keys.max(1);
        let shares = &model.ranges;
        let weights = (1..=shares.ranges.min(keys)).map(|x| shares.weight(x));
        let mut sums: Vec<f64> = weights
            .scan(0.0, |sum, weight| {
                *sum += weight;
                Some(*sum)
            })
            .collect();
        if sums.last().is_none_or(|&sum| sum == 0.0) {
            sums = vec![1.0];
        }
        let mut parts: Vec<u64> = (0..sums.len() as u64).collect();
        let mut rng = Rng::for_part(0x3147, sums.len() as u64);
        for last in (1..parts.len()).rev() {
            parts.swap(last, rng.below(last as u64 + 1) as usize);
        }
        KeyRanges { sums, parts, law: model.law, keys }
    }

    /// Returns the keys of the range with rank `x`, from 0.
    fn part(&self, x: usize) -> std::ops::Range<u64> {
        let count = self.parts.len() as u128;
        let begin = |part: u64| (u128::from(self.keys) * u128::from(part) / count) as u64;
        begin(self.parts[x])..begin(self.parts[x] + 1)
    }

    /// Draws the next key, below the number of keys.
    pub fn next(&self, rng: &mut Rng) -> u64 {
        let total = self.sums.last().copied().unwrap_or(1.0);
        let at = unit(rng) * total;
        let x = self.sums.partition_point(|&sum| sum <= at).min(self.sums.len() - 1);
        let part = self.part(x);
        let len = part.end - part.start;
        let offset = match self.law.rank(unit(rng)) {
            Some(rank) => mix(rank ^ mix(part.start)) % len,
            None => rng.below(len),
        };
        part.start + offset
    }
}

/// All parameters. [`Default`] gives those of the workload `prefix_dist` in the published command
/// lines of db_bench, which are fitted to ZippyDB's traces.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mixgraph {
    /// Shares of the key ranges: `keyrange_dist_a` to `keyrange_dist_d`, `keyrange_num`.
    pub ranges: TwoTermExponential,
    /// Use of the keys of a range: `key_dist_a`, `key_dist_b`.
    pub law: PowerLaw,
    /// Bytes of a value: `value_k`, `value_sigma`, `value_theta`.
    pub value: GeneralizedPareto,
    /// Pairs of a scan: `iter_k`, `iter_sigma`, `iter_theta`.
    pub scan: GeneralizedPareto,
    /// Share of gets: `mix_get_ratio`.
    pub get: f64,
    /// Share of puts: `mix_put_ratio`.
    pub put: f64,
    /// Share of scans, each a seek and the pairs from there: `mix_seek_ratio`.
    pub seek: f64,
    /// Most pairs of a scan: `mix_max_scan_len`.
    pub scan_most: u64,
    /// Most bytes of a value: `mix_max_value_size`.
    pub value_most: u64,
}

impl Default for Mixgraph {
    fn default() -> Mixgraph {
        Mixgraph {
            ranges: TwoTermExponential { a: 14.18, b: -2.917, c: 0.0164, d: -0.08082, ranges: 30 },
            law: PowerLaw { a: 0.002312, b: 0.3467 },
            value: GeneralizedPareto { k: 0.2615, sigma: 25.45, theta: 0.0 },
            scan: GeneralizedPareto { k: 2.517, sigma: 14.236, theta: 0.0 },
            get: 0.83,
            put: 0.14,
            seek: 0.03,
            scan_most: 10_000,
            value_most: 1024,
        }
    }
}

/// Names of the parameters that are numbers.
const NUMBERS: [&str; 15] = [
    "keyrange_dist_a",
    "keyrange_dist_b",
    "keyrange_dist_c",
    "keyrange_dist_d",
    "key_dist_a",
    "key_dist_b",
    "value_k",
    "value_sigma",
    "value_theta",
    "iter_k",
    "iter_sigma",
    "iter_theta",
    "mix_get_ratio",
    "mix_put_ratio",
    "mix_seek_ratio",
];

/// Names of the parameters that are whole numbers.
const WHOLE: [&str; 3] = ["keyrange_num", "mix_max_scan_len", "mix_max_value_size"];

impl Mixgraph {
    /// Returns the kind of an operation for `u` in 0..1; a get if no kind has a share.
    pub fn kind(&self, u: f64) -> OpKind {
        let at = u * (self.get + self.put + self.seek);
        if at < self.put {
            OpKind::Update
        } else if at < self.put + self.seek {
            OpKind::Scan
        } else {
            OpKind::Read
        }
    }

    /// Returns the bytes of the value that the writes numbered `generation` give a key.
    pub fn value_bytes(&self, key: u64, generation: u32) -> usize {
        let spread = mix(key ^ mix(u64::from(generation) | 0x51_2E << 32));
        let u = (spread >> 11) as f64 / (1u64 << 53) as f64;
        self.value.whole(u, self.value_most) as usize
    }

    /// Returns the pairs of a scan for `u` in 0..1.
    pub fn scan_length(&self, u: f64) -> u16 {
        self.scan.whole(u, self.scan_most) as u16
    }

    /// Returns the share of the operations that write, from 0 to 1.
    pub fn write_share(&self) -> f64 {
        let all = self.get + self.put + self.seek;
        if all > 0.0 { self.put / all } else { 0.0 }
    }

    /// Sets the parameter `name`. Returns false if there is none of that name. The error states
    /// what the value must be.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, String> {
        if let Some(place) = NUMBERS.iter().position(|known| *known == name) {
            let number = value.trim().parse::<f64>().ok().filter(|number| number.abs() <= 1e9);
            let signed = name.starts_with("keyrange") || name.ends_with("_k");
            let number = number.filter(|&number| signed || number >= 0.0);
            let bound = if signed { "" } else { ", 0 or more" };
            *self.numbers()[place] = number
                .ok_or_else(|| format!("--{name} must be a number{bound}, found {value:?}"))?;
            return Ok(true);
        }
        let (place, most) = match name {
            "keyrange_num" => (&mut self.ranges.ranges, 1 << 20),
            "mix_max_scan_len" => (&mut self.scan_most, u64::from(u16::MAX)),
            "mix_max_value_size" => (&mut self.value_most, BIG_VALUE_BYTES as u64),
            _ => return Ok(false),
        };
        let number = value.trim().replace('_', "").parse().ok();
        let number = number.filter(|number| (1..=most).contains(number));
        *place = number.ok_or_else(|| {
            format!("--{name} must be a whole number, 1 to {most}, found {value:?}")
        })?;
        Ok(true)
    }

    /// Returns every parameter: its name and its value.
    pub fn parameters(&self) -> Vec<(&'static str, String)> {
        let mut own = *self;
        let whole = [own.ranges.ranges, own.scan_most, own.value_most];
        let numbers = NUMBERS.into_iter().zip(own.numbers()).map(|(n, v)| (n, v.to_string()));
        numbers.chain(WHOLE.into_iter().zip(whole).map(|(n, v)| (n, v.to_string()))).collect()
    }

    /// Returns the parameters in the order of [`NUMBERS`].
    fn numbers(&mut self) -> [&mut f64; 15] {
        let Mixgraph { ranges, law, value, scan, get, put, seek, .. } = self;
        [
            &mut ranges.a,
            &mut ranges.b,
            &mut ranges.c,
            &mut ranges.d,
            &mut law.a,
            &mut law.b,
            &mut value.k,
            &mut value.sigma,
            &mut value.theta,
            &mut scan.k,
            &mut scan.sigma,
            &mut scan.theta,
            get,
            put,
            seek,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u64 = 1_000_000;

    /// Asserts that `count` of [`DRAWS`] draws is within five standard deviations of `share`.
    fn is_share(count: u64, share: f64, what: &str) {
        let found = count as f64 / DRAWS as f64;
        let deviation = (share * (1.0 - share) / DRAWS as f64).sqrt();
        assert!((found - share).abs() <= 5.0 * deviation, "{what}: {found}, not {share}");
    }

    #[test]
    fn pareto_draws_follow_the_formula() {
        let model = Mixgraph::default();
        for pareto in [model.value, model.scan, GeneralizedPareto { theta: 7.0, ..model.value }] {
            let mut rng = Rng::new(301);
            let drawn: Vec<f64> = (0..DRAWS).map(|_| pareto.quantile(unit(&mut rng))).collect();
            assert!(drawn.iter().all(|&x| x >= pareto.theta));
            for x in [8.0, 20.0, 50.0, 100.0, 500.0, 10_000.0] {
                let base = 1.0 + pareto.k * (x - pareto.theta) / pareto.sigma;
                let above = drawn.iter().filter(|&&found| found > x).count() as u64;
                is_share(above, base.powf(-1.0 / pareto.k), &format!("above {x} of {pareto:?}"));
            }
        }
        // The mean is theta + sigma / (1 - k) if k is below 1: 25.45 / 0.7385 = 34.46.
        let mut rng = Rng::new(302);
        let sum: f64 = (0..DRAWS).map(|_| model.value.quantile(unit(&mut rng))).sum();
        assert!((sum / DRAWS as f64 - 34.46).abs() < 0.3, "{}", sum / DRAWS as f64);
        // Computed by hand: the median of the scans is sigma (2^k - 1) / k.
        assert!((model.scan.quantile(0.5) - 26.72).abs() < 0.01, "{}", model.scan.quantile(0.5));
        let exponential = GeneralizedPareto { k: 0.0, sigma: 2.0, theta: 1.0 };
        assert!((exponential.quantile(0.5) - (1.0 + 2.0 * 2f64.ln())).abs() < 1e-12);
    }

    #[test]
    fn lengths_are_whole_and_within_their_limit() {
        let model = Mixgraph::default();
        let mut rng = Rng::new(303);
        let lengths: Vec<u64> =
            (0..DRAWS).map(|_| u64::from(model.scan_length(unit(&mut rng)))).collect();
        assert!(lengths.iter().all(|length| (1..=10_000).contains(length)));
        // 5.13 % of the scans are longer than 10,000 and leave a remainder, of which 0 becomes 1.
        let above = (1.0f64 + 2.517 * 10_000.0 / 14.236).powf(-1.0 / 2.517);
        assert!((above - 0.0513).abs() < 0.0001, "{above}");
        let short = 1.0 - (1.0f64 + 2.517 * 20.0 / 14.236).powf(-1.0 / 2.517);
        let found = lengths.iter().filter(|&&length| length <= 20).count() as f64 / DRAWS as f64;
        assert!((short..short + above / 100.0).contains(&found), "{found}, at least {short}");
        let sizes = (0..DRAWS).map(|key| model.value_bytes(key, 3));
        let (sum, most) = sizes.fold((0, 0), |(sum, most), size| (sum + size, size.max(most)));
        // Rounding up adds about a half to the mean.
        let mean = sum as f64 / DRAWS as f64;
        assert!((mean - 34.96).abs() < 0.5 && most <= 1024, "{mean}, at most {most}");
        assert_eq!(GeneralizedPareto { k: 0.0, sigma: 0.0, theta: 0.0 }.whole(0.5, 9), 1);
    }

    #[test]
    fn ranks_follow_the_power_law() {
        let law = Mixgraph::default().law;
        let mut rng = Rng::new(304);
        let ranks: Vec<u64> = (0..DRAWS).filter_map(|_| law.rank(unit(&mut rng))).collect();
        for x in [1u64, 10, 1000, 100_000, 10_000_000] {
            let up_to = ranks.iter().filter(|&&rank| rank <= x).count() as u64;
            is_share(up_to, law.a * (x as f64).powf(law.b), &format!("ranks up to {x}"));
        }
        let last = (1.0 / law.a).powf(1.0 / law.b);
        assert!(ranks.iter().all(|&rank| rank >= 1 && rank as f64 <= last.ceil()));
        assert_eq!(PowerLaw { a: 0.0, b: 0.3 }.rank(0.5), None);
    }

    #[test]
    fn ranges_have_the_shares_of_two_exponential_terms() {
        const KEYS: u64 = 100_007;
        let model = Mixgraph::default();
        let ranges = KeyRanges::new(&model, KEYS);
        let mut rng = Rng::new(305);
        let mut counts = vec![0u64; KEYS as usize];
        (0..DRAWS).for_each(|_| counts[ranges.next(&mut rng) as usize] += 1);
        let weight = |x: f64| 14.18 * (-2.917 * x).exp() + 0.0164 * (-0.08082 * x).exp();
        let total: f64 = (1..=30).map(|x| weight(f64::from(x))).sum();
        for x in 0..30 {
            let part = ranges.part(x);
            let count = counts[part.start as usize..part.end as usize].iter().sum();
            is_share(count, weight(x as f64 + 1.0) / total, &format!("range {x}"));
        }
        let mut parts: Vec<_> = (0..30).map(|x| ranges.part(x)).collect();
        parts.sort_by_key(|part| part.start);
        assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!((parts[0].start, parts[29].end), (0, KEYS));
        // The most used key has the first rank of the first range. Other ranks share its place.
        let hot = weight(1.0) / total * model.law.a;
        let most = counts.iter().max().copied().unwrap_or(0) as f64 / DRAWS as f64;
        assert!((hot * 0.9..hot * 1.3).contains(&most), "{most}, expected about {hot}");
    }

    #[test]
    fn parameters_of_zero_use_all_keys_alike() {
        let mut model = Mixgraph::default();
        for name in ["keyrange_dist_a", "keyrange_dist_c", "key_dist_a"] {
            assert_eq!(model.set(name, "0"), Ok(true));
        }
        let ranges = KeyRanges::new(&model, 500);
        let mut rng = Rng::new(306);
        let mut counts = vec![0u64; 500];
        (0..DRAWS).for_each(|_| counts[ranges.next(&mut rng) as usize] += 1);
        counts.iter().for_each(|&count| is_share(count, 1.0 / 500.0, "a key"));
        // More ranges than keys are as many as keys.
        let few = KeyRanges::new(&Mixgraph::default(), 3);
        assert!((0..1000).all(|_| few.next(&mut rng) < 3));
    }

    #[test]
    fn equal_seeds_draw_equally_and_shares_are_kept() {
        let draw = |seed| -> Vec<u64> {
            let (ranges, mut rng) = (KeyRanges::new(&Mixgraph::default(), 10_000), Rng::new(seed));
            (0..1000).map(|_| ranges.next(&mut rng)).collect()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        let (model, mut rng) = (Mixgraph::default(), Rng::new(307));
        let kinds: Vec<OpKind> = (0..DRAWS).map(|_| model.kind(unit(&mut rng))).collect();
        let wanted = [(OpKind::Read, 0.83), (OpKind::Update, 0.14), (OpKind::Scan, 0.03)];
        for (kind, share) in wanted {
            let count = kinds.iter().filter(|&&found| found == kind).count() as u64;
            is_share(count, share, kind.name());
        }
        assert!((model.write_share() - 0.14).abs() < 1e-12);
    }

    #[test]
    fn parameters_have_names_and_bounds() {
        let mut model = Mixgraph::default();
        let given = model.parameters();
        assert_eq!(given.len(), NUMBERS.len() + WHOLE.len());
        for (name, value) in &given {
            assert_eq!(model.set(name, value), Ok(true), "{name}");
        }
        assert_eq!(model, Mixgraph::default(), "a parameter's text is its value");
        for (name, value) in [
            ("key_dist_a", "-1"),
            ("value_sigma", "wide"),
            ("iter_k", "NaN"),
            ("mix_put_ratio", "inf"),
            ("keyrange_num", "0"),
            ("mix_max_scan_len", "65536"),
            ("mix_max_value_size", "1M"),
        ] {
            let error = model.set(name, value).expect_err(name);
            assert!(error.contains(name), "{error}");
        }
        assert_eq!(model.set("keyrange_dist_b", "-2.5"), Ok(true));
        assert_eq!(model.set("key_dist_c", "1"), Ok(false));
    }
}
