//! Draws a phase's operations before the clock starts, identical for every engine.
//!
//! The lists depend only on the seed and the state before the phase. Inserts are numbered in the
//! order of drawing, round-robin over the threads, as with YCSB's shared counter.

use super::generators::{Chooser, Zipfian, unit};
use super::phase::{OpKind, Phase};
use super::space::Space;
use super::state::{ABSENT, State, UNSURE};
use crate::workload::rng::Rng;

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// Number of the record.
    pub record: u32,
    /// Kind of the operation.
    pub kind: OpKind,
    /// Index of the field, if only one field is read or written.
    pub field: u8,
    /// Number of records of a scan.
    pub length: u16,
}

/// Operations of each thread.
#[derive(Clone, Debug, Default)]
pub struct Drawn {
    /// One list per thread.
    pub threads: Vec<Vec<Op>>,
    /// Upper bound (exclusive) of record numbers after the phase.
    pub records: u64,
}

impl Drawn {
    /// Returns the number of operations of all threads.
    pub fn operations(&self) -> u64 {
        self.threads.iter().map(|list| list.len() as u64).sum()
    }

    /// Returns the memory used, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.threads.iter().map(|list| (list.capacity() * size_of::<Op>()) as u64).sum()
    }
}

/// Draws `phase` for a point with `entries` records and `threads` threads.
pub fn draw(
    phase: &Phase,
    space: &Space,
    state: &State,
    entries: u64,
    threads: usize,
    seed: u64,
) -> Drawn {
    let threads = phase.threads.unwrap_or(threads);
    let mut rng = Rng::for_part(seed, 0xD4A3);
    let mut operations = phase.operations.value(entries, state.records).max(1);
    let mut most_operations = operations;
    if let Some(until) = phase.until {
        // The expected number of operations, for generators that need it. The record count ends the
        // phase.
        let missing = until.value(entries, state.records).saturating_sub(state.live().1);
        let gain = phase.share(OpKind::Insert) - phase.share(OpKind::Delete);
        operations = ((missing as f64 / gain) as u64).max(1);
        most_operations = operations.saturating_mul(UNTIL_TIMES_MAX);
    }
    let rows = space.rows().map(|(rows, _)| rows);
    let known = if state.records > 0 { state.records } else { entries };
    let range = rows.unwrap_or(if phase.grow { state.records + operations } else { known });
    let mut next_insert = state.records;
    // YCSB spreads the zipfian over the expected final number of records; the mean is doubled for
    // safety.
    let growth = (operations as f64 * phase.share(OpKind::Insert) * 2.0) as u64;
    let range =
        if phase.share(OpKind::Insert) > 0.0 && rows.is_none() { state.records } else { range };
    let mut chooser = Chooser::new(phase.keys, range, growth, &mut rng);
    let mut drawn = Drawn { threads: vec![Vec::new(); threads], records: 0 };
    let shares: Vec<Vec<(OpKind, f64)>> = (0..threads).map(|t| phase.shares_of(t)).collect();
    let lengths = Zipfian::new(phase.scan.most - phase.scan.least + 1, 0.99);
    let fields = space.fields() as u64;
    let mut live = phase.until.map(|until| Live::new(state, until.value(entries, state.records)));
    for index in 0..most_operations {
        if live.as_ref().is_some_and(Live::reached) {
            break;
        }
        let thread = (index % threads as u64) as usize;
        let kind = kind(&shares[thread], &mut rng);
        let record = if kind == OpKind::Insert {
            next_insert += 1;
            chooser.grow(next_insert);
            space.record_of_row(next_insert - 1)
        } else {
            space.record_of_row(chooser.next(&mut rng))
        };
        let length = match kind {
            OpKind::Scan if phase.scan.zipfian => phase.scan.least + lengths.next(&mut rng),
            OpKind::Scan => phase.scan.least + rng.below(phase.scan.most - phase.scan.least + 1),
            _ => 0,
        };
        let field = if fields > 1 { rng.below(fields) as u8 } else { 0 };
        if let Some(live) = &mut live {
            live.note(kind, record);
        }
        drawn.threads[thread].push(Op { record, kind, field, length: length as u16 });
    }
    let most = space.rows().map_or(range, |(_, records)| records);
    drawn.records = next_insert.max(if phase.writes() { most } else { state.records });
    drawn
}

/// Maximum length of a phase that ends at a record count, as a multiple of the expected operations.
const UNTIL_TIMES_MAX: u64 = 8;

/// The existing records, tracked while a phase that ends at a record count is drawn.
struct Live {
    there: Vec<bool>,
    count: u64,
    until: u64,
}

impl Live {
    fn new(state: &State, until: u64) -> Live {
        let there: Vec<bool> =
            (0..state.records as u32).map(|record| state.version(record, 0) != ABSENT).collect();
        let count = there.iter().filter(|there| **there).count() as u64;
        Live { there, count, until }
    }

    fn reached(&self) -> bool {
        self.count >= self.until
    }

    fn note(&mut self, kind: OpKind, record: u32) {
        let record = record as usize;
        if !kind.writes() {
            return;
        }
        if record >= self.there.len() {
            self.there.resize(record + 1, false);
        }
        let after = kind != OpKind::Delete;
        match (self.there[record], after) {
            (false, true) => self.count += 1,
            (true, false) => self.count -= 1,
            _ => {}
        }
        self.there[record] = after;
    }
}

fn kind(shares: &[(OpKind, f64)], rng: &mut Rng) -> OpKind {
    if let [(only, _)] = shares {
        return *only;
    }
    let total: f64 = shares.iter().map(|(_, share)| share).sum();
    let mut left = unit(rng) * total;
    for (kind, share) in shares {
        left -= share;
        if left < 0.0 {
            return *kind;
        }
    }
    shares.last().map_or(OpKind::Read, |(kind, _)| *kind)
}

/// Records the writes of the phase in `state`, thread by thread. Records with racing writers become
/// unsure.
pub fn apply(phase: &Phase, drawn: &Drawn, state: &mut State) {
    let version = state.next_version;
    let partial = !phase.write_all_fields;
    let racy = drawn.threads.len() > 1 && (partial || phase.share(OpKind::Delete) > 0.0);
    const CONTESTED: u16 = u16::MAX;
    let mut owners: Vec<u16> = vec![0; if racy { drawn.records as usize } else { 0 }];
    for (thread, list) in drawn.threads.iter().enumerate() {
        for op in list.iter().filter(|op| op.kind.writes()) {
            let one = partial && matches!(op.kind, OpKind::Update | OpKind::ReadModifyWrite);
            let field = one.then_some(usize::from(op.field));
            let new = if op.kind == OpKind::Delete { ABSENT } else { version };
            state.set(op.record, field, new);
            if let Some(owner) = owners.get_mut(op.record as usize) {
                let own = thread as u16 + 1;
                *owner = if *owner == 0 || *owner == own { own } else { CONTESTED };
            }
        }
    }
    for (record, _) in owners.iter().enumerate().filter(|(_, owner)| **owner == CONTESTED) {
        state.set(record as u32, None, UNSURE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mix::phase::PhaseFile;
    use crate::mix::space::{FieldLength, KeyForm};

    fn space(fields: usize) -> Space {
        Space::new(KeyForm::Decimal { width: 16 }, fields, FieldLength::Constant(10), 0.5, 1)
    }

    fn phase(text: &str) -> Phase {
        toml::from_str::<PhaseFile>(text).expect("toml").phase("p").expect("right")
    }

    fn filled(records: u64, fields: usize) -> State {
        let mut state = State::empty(fields);
        state.grow(records);
        (0..records as u32).for_each(|record| state.set(record, None, 1));
        state.next_version = 2;
        state
    }

    #[test]
    fn shares_are_kept_and_equal_seeds_draw_equally() {
        let phase = phase("read = 0.95\nupdate = 0.05\noperations = 100000");
        let draw = |seed| draw(&phase, &space(1), &filled(1000, 1), 1000, 2, seed);
        let drawn = draw(7);
        let updates = drawn.threads.iter().flatten().filter(|op| op.kind == OpKind::Update).count();
        assert!((4700..5300).contains(&updates), "{updates}");
        assert_eq!(drawn.threads[0].len(), drawn.threads[1].len());
        assert_eq!(drawn.threads, draw(7).threads);
        assert_ne!(drawn.threads, draw(8).threads);
    }

    #[test]
    fn inserts_are_sequential_and_latest_reads_follow_them() {
        let phase = phase("read = 0.95\ninsert = 0.05\nkeys = \"latest\"\noperations = 20000");
        let drawn = draw(&phase, &space(1), &filled(1000, 1), 1000, 1, 3);
        let mut next = 1000;
        for op in &drawn.threads[0] {
            if op.kind == OpKind::Insert {
                assert_eq!(op.record, next);
                next += 1;
            }
            assert!(op.record < next, "{op:?} was not inserted yet");
        }
        assert_eq!(u64::from(next), drawn.records);
        assert!((1900..2100).contains(&next), "{next}");
    }

    #[test]
    fn scan_lengths_stay_within_bounds() {
        let phase = phase("scan = 1\nscan_records = [1, 100]\noperations = 50000");
        let drawn = draw(&phase, &space(1), &filled(1000, 1), 1000, 1, 3);
        let lengths: Vec<u64> = drawn.threads[0].iter().map(|op| u64::from(op.length)).collect();
        assert_eq!((lengths.iter().min(), lengths.iter().max()), (Some(&1), Some(&100)));
        let mean = lengths.iter().sum::<u64>() as f64 / 50_000.0;
        assert!((mean - 50.5).abs() < 0.5, "{mean}");
    }

    #[test]
    fn ageing_ends_at_target_size() {
        let text = "insert = 6\ndelete = 2\nupdate = 2\nuntil = \"entries\"";
        let phase = phase(text);
        let mut state = State::empty(1);
        let drawn = draw(&phase, &space(1), &state, 5000, 1, 3);
        state.grow(drawn.records);
        apply(&phase, &drawn, &mut state);
        assert_eq!(state.live().1, 5000);
        let deletes = drawn.threads[0].iter().filter(|op| op.kind == OpKind::Delete).count();
        assert!(drawn.operations() > 9000 && deletes > 1500, "{deletes} of {}", drawn.operations());
        assert!(
            draw(&phase, &space(1), &state, 5000, 1, 3).operations() == 0,
            "it is there already"
        );
    }

    #[test]
    fn records_written_by_several_threads_are_uncertain() {
        let mut state = filled(4, 2);
        let mut phase = phase("update = 1");
        phase.write_all_fields = false;
        let op = |record, field| Op { record, kind: OpKind::Update, field, length: 0 };
        let threads = vec![vec![op(0, 0), op(1, 1)], vec![op(1, 0), op(2, 1)]];
        apply(&phase, &Drawn { threads, records: 4 }, &mut state);
        let versions = |record| [0, 1].map(|field| state.version(record, field));
        assert_eq!((versions(0), versions(1)), ([2, 1], [UNSURE, UNSURE]));
        assert_eq!((versions(2), versions(3)), ([1, 2], [1, 1]));
    }

    #[test]
    fn growing_phases_choose_from_their_own_inserts() {
        let phase = phase("update = 1\nkeys = \"low\"\ngrow = true\noperations = \"entries/4\"");
        let drawn = draw(&phase, &space(1), &State::empty(1), 4000, 1, 3);
        assert_eq!((drawn.operations(), drawn.records), (1000, 1000));
    }
}
