//! Small versions of the campaigns of `make crash`, with minimum counts.
//!
//! These tests guard against past failures: acknowledged writes lost or restored by a power cut at
//! any operation; a store that does not reopen; damage returned as data; errors taken for the end.

use esker::{Policy, ValueSeparation};
use esker_testkit::campaign::corruption::{self, Store};
use esker_testkit::campaign::cuts::{self, Effort};
use esker_testkit::campaign::faults::{self, Cause};
use esker_testkit::campaign::model;
use esker_testkit::campaign::repair_failures;
use esker_testkit::campaign::script::{Script, Step, Theme, script};
use esker_testkit::campaign::script_run::PlantedBug;
use esker_testkit::campaign::tally::{Tally, in_parallel};
use esker_testkit::campaign::task_faults::{self, InitialState, Task};
use esker_testkit::crash::Flaws;

fn assert_no_failure(tally: &Tally) {
    println!("{:?}", tally.counts);
    assert!(tally.failures.is_empty(), "{}", tally.report());
}

fn effort() -> Effort {
    Effort { seeds: 1, nest_one_in: 100, depth: 3, flaws: Flaws::default(), bug: PlantedBug::None }
}

#[test]
fn power_cut_after_any_operation_keeps_durable_writes() {
    for (seed, policy) in Policy::ALL.iter().enumerate() {
        let themes: Vec<_> = Theme::ALL.iter().enumerate().collect();
        let tally = in_parallel(&themes, |(number, theme)| {
            cuts::run(&script(*policy, **theme, (seed * 9 + number) as u64, 28), &effort())
        });
        assert_no_failure(&tally);
        for what in ["images", "nested images", "images of depth 3", "checkpoints"] {
            assert!(tally.of(what) > 0, "{policy} had no {what}");
        }
        assert!(tally.of("flushes") > 20 && tally.of("merges") > 0, "{policy}");
        assert!(tally.of("manifests") > tally.of("scripts"), "{policy} rewrote no manifest");
        assert!(tally.of("value files") > 10 && tally.of("forks") > 0, "{policy}");
        assert!(tally.of("changes read") > 0 && tally.of("copies of the feed") > 100, "{policy}");
    }
}

/// Returns an encrypted script with all values in value files.
fn encrypted(policy: Policy, theme: Theme, seed: u64, steps: usize) -> Script {
    let mut script = script(policy, theme, seed, steps).into_encrypted();
    script.options.value_separation_min_bytes = ValueSeparation::From(0);
    script
}

#[test]
fn encrypted_store_survives_cuts_faults_and_damage() {
    let effort = Effort { depth: 2, ..effort() };
    let tally = cuts::run(&encrypted(Policy::Leveled, Theme::Levels, 4, 16), &effort);
    assert_no_failure(&tally);
    assert!(tally.of("images") > 200 && tally.of("value files") > 0);
    let mut script = encrypted(Policy::Leveled, Theme::Levels, 6, 4);
    script.steps.retain(|step| !matches!(step, Step::Kill));
    let tally = faults::run(&script, &Cause::ALL, |fs| fs);
    assert_no_failure(&tally);
    assert!(tally.of("positions") > 100);
    let script = encrypted(Policy::Leveled, Theme::Levels, 1, 3);
    let tally = corruption::random(&Store::of(script, true), 1, 300);
    assert_no_failure(&tally);
    assert!(tally.of("detected") > 100);
}

#[test]
fn same_seed_gives_same_images() {
    let run = || cuts::run(&script(Policy::Fluid, Theme::Mixed, 9, 20), &effort());
    assert_eq!(run().counts, run().counts);
}

#[test]
fn any_operation_may_fail_once_or_permanently() {
    for (seed, policy) in Policy::ALL.iter().enumerate() {
        let mut script = script(*policy, Theme::ALL[seed], seed as u64, 16);
        script.steps.retain(|step| !matches!(step, Step::Kill));
        let tally = faults::run(&script, &Cause::ALL, |fs| fs);
        assert_no_failure(&tally);
        assert!(tally.of("positions") > 200, "{policy}");
    }
}

#[test]
fn merges_expiry_and_filters_survive_cuts_and_faults() {
    let policies: Vec<_> = (0..).zip(Policy::ALL).collect();
    let tally = in_parallel(&policies, |(seed, policy)| {
        let effort = Effort { nest_one_in: 300, ..effort() };
        cuts::run(&script(**policy, Theme::Rules, *seed, 60), &effort)
    });
    assert_no_failure(&tally);
    for what in ["merged operands", "puts that expire", "expired pairs", "filtered pairs"] {
        assert!(tally.of(what) > 0, "{what}: {:?}", tally.counts);
    }
    let mut script = script(Policy::Fluid, Theme::Rules, 9, 18);
    script.steps.retain(|step| !matches!(step, Step::Kill));
    let tally = faults::run(&script, &[Cause::Full, Cause::Broken, Cause::SyncDrops], |fs| fs);
    assert_no_failure(&tally);
    assert!(tally.of("positions") > 100, "{:?}", tally.counts);
}

#[test]
fn damaged_data_is_never_returned() {
    for closed in [true, false] {
        let tally =
            corruption::every_bit(&Store::make(Policy::Leveled, Theme::Levels, 1, 8, closed));
        assert_no_failure(&tally);
        // The last write was synced, and some record proves it, whichever bit flips.
        assert_eq!(tally.of("unproven tail"), 0);
        let tally =
            corruption::random(&Store::make(Policy::Fluid, Theme::Mixed, 2, 50, closed), 1, 2_000);
        assert_no_failure(&tally);
        assert!(tally.of("detected") > 500 && tally.of("forged") > 500);
        let store = Store::make(Policy::Lazy, Theme::Rules, 4, 60, closed);
        let tally = corruption::random(&store, 2, 600);
        assert_no_failure(&tally);
        assert!(tally.of("detected") > 100 && tally.of("forged") > 100);
    }
}

#[test]
fn all_option_sets_match_oracle() {
    let tally = model::run(&model::option_sets(16), Theme::Mixed, 5, 700, 300);
    assert_no_failure(&tally);
    assert_eq!(tally.of("option sets"), 80);
    assert!(tally.of("merges") > 500);
    let tally = model::run(&model::option_sets(3), Theme::Rules, 6, 700, 300);
    assert_no_failure(&tally);
    for what in ["merged operands", "expired pairs", "filtered pairs"] {
        assert!(tally.of(what) > 100, "{what}: {:?}", tally.counts);
    }
}

#[test]
fn any_operation_of_a_task_may_fail_once_or_permanently() {
    for (policy, theme) in [(Policy::Leveled, Theme::Mixed), (Policy::Fluid, Theme::Logs)] {
        let state = InitialState::make(&script(policy, theme, 5, 26));
        let tally = task_faults::run(&state, &Task::ALL, |fs| fs);
        assert_no_failure(&tally);
        assert!(tally.of("positions") > 1000, "{policy}");
    }
    // Tables with range tombstones, in guards.
    let state = InitialState::make(&script(Policy::Fragmented, Theme::Ranges, 8, 60));
    assert_no_failure(&task_faults::run(&state, &[Task::Read, Task::Seek, Task::Merge], |fs| fs));
}

#[test]
fn any_operation_of_open_after_power_cut_may_fail() {
    for (policy, theme) in [(Policy::Lazy, Theme::Restarts), (Policy::Leveled, Theme::Rollover)] {
        let states = InitialState::after_cuts(&script(policy, theme, 11, 26), 12);
        let tally = in_parallel(&states, |state| task_faults::run(state, &[Task::Open], |fs| fs));
        assert_no_failure(&tally);
        assert!(tally.of("positions") > 1000, "{policy}");
    }
}

#[test]
fn any_operation_of_repair_may_fail_also_after_killed_repair() {
    for (policy, theme) in [(Policy::Leveled, Theme::Mixed), (Policy::Fluid, Theme::Ranges)] {
        let tally = repair_failures::faults(&Store::make(policy, theme, 7, 10, false), 2);
        assert_no_failure(&tally);
        assert!(tally.of("positions") > 1000, "{policy}");
    }
}

#[test]
fn repair_of_any_damage_gives_intact_store_or_error() {
    let stores = [(Policy::Leveled, Theme::Levels, false), (Policy::Tiered, Theme::Logs, true)];
    for (policy, theme, closed) in stores {
        let tally = corruption::repaired(&Store::make(policy, theme, 3, 55, closed), 1, 1_200);
        assert_no_failure(&tally);
        assert!(
            tally.of("repaired partly") > 200 && tally.of("repaired completely") > 50,
            "{policy}"
        );
    }
}

#[test]
fn power_cut_during_repair_loses_no_recoverable_data() {
    for (policy, theme, closed) in
        [(Policy::Leveled, Theme::Mixed, false), (Policy::Fluid, Theme::Logs, true)]
    {
        let store = Store::make(policy, theme, 7, 28, closed);
        let effort = Effort { nest_one_in: 50, ..effort() };
        let tally = repair_failures::cuts(&store, &effort);
        assert_no_failure(&tally);
        for what in ["images", "nested images", "images of depth 3", "refused", "opened"] {
            assert!(tally.of(what) > 0, "{policy} had no {what}");
        }
    }
}
