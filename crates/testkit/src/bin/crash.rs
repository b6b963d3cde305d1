//! Runs the crash campaigns and prints one table; exits with 1 if a promise was broken.
use esker::Policy;
use esker_testkit::campaign::cuts::{self, Effort};
use esker_testkit::campaign::script::{Theme, script};
use esker_testkit::campaign::tally::in_parallel;
use esker_testkit::crash::Flaws;
fn main() {
    let steps: usize = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(60);
    let base: u64 = std::env::args().nth(2).and_then(|s| s.parse().ok()).unwrap_or(0);
    let mut scripts = Vec::new();
    for (i, policy) in Policy::ALL.iter().enumerate() {
        for (j, theme) in Theme::ALL.iter().enumerate() {
            scripts.push(script(*policy, *theme, base + 1 + (i * 8 + j) as u64, steps));
        }
    }
    if std::env::args().nth(3).as_deref() == Some("r") {
        use esker_testkit::campaign::rot::{Store, every_bit, random};
        for closed in [true, false] {
            let began = std::time::Instant::now();
            let store = Store::make(
                Policy::ALL[base as usize % 5],
                Theme::ALL[base as usize % 8],
                1 + base,
                steps,
                closed,
            );
            let tally = every_bit(&store);
            println!("bits {:?} {:?}", tally.counts, began.elapsed());
            println!("{} failures\n{}", tally.failures.len(), tally.report());
            let store = Store::make(
                Policy::ALL[base as usize % 5],
                Theme::ALL[base as usize % 8],
                1 + base,
                steps * 5,
                closed,
            );
            let tally = random(&store, base, 20000);
            println!("random {:?} {:?}", tally.counts, began.elapsed());
            println!("{} failures\n{}", tally.failures.len(), tally.report());
        }
        return;
    }
    if std::env::args().nth(3).is_some() {
        let mut s =
            script(Policy::ALL[base as usize % 5], Theme::ALL[base as usize % 8], 1 + base, steps);
        s.steps.retain(|step| !matches!(step, esker_testkit::campaign::script::Step::Kill));
        let began = std::time::Instant::now();
        let tally = esker_testkit::campaign::faults::run(
            &s,
            &esker_testkit::campaign::faults::Cause::ALL,
            |fs| fs,
        );
        println!("{:?} {:?}", tally.counts, began.elapsed());
        println!("{} failures\n{}", tally.failures.len(), tally.report());
        return;
    }
    let began = std::time::Instant::now();
    let effort = Effort { seeds: 1, nest_one_in: 100, depth: 3, flaws: Flaws::default() };
    let tally = in_parallel(&scripts, |s| cuts::run(s, &effort));
    println!("{:?} {:?}", tally.counts, began.elapsed());
    println!("{} failures\n{}", tally.failures.len(), tally.report());
}
