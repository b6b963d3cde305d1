//! The task `recover`: another process writes and is killed, and the store that it left is opened,
//! which is timed, and compared as a whole.

use std::time::Instant;

use super::Session;
use crate::error::{LabError, Result};
use crate::measure::counters::Moment;
use crate::record::schema::TaskSample;
use crate::run::progress::Progress;
use crate::run::threads::Outcome;
use crate::run::unclosed::{Unclosed, write_and_kill};
use crate::run::work::Done;
use crate::workload::prepare::{OpList, Plan, prepare};
use crate::workload::tasks::{TaskKind, TaskSpec, parse_tasks};

impl Session<'_> {
    /// Lets another process write what the task `recover` opens.
    pub(super) fn leave_unclosed(&self, position: usize) -> Result<()> {
        let (round, config) = (self.round, self.round.config);
        let unclosed = Unclosed {
            dir: round.engine_dir.store(),
            num: config.num,
            csv: config.csv.clone(),
            threads: config.threads,
            seed: config.seed,
            repetition: round.repetition,
            position,
            generation: self.generation,
        };
        write_and_kill(config, round.engine, unclosed)
    }

    /// Compares every pair of the store with what the killed process had written.
    pub(super) fn check_recovered(
        &mut self,
        task: &TaskSpec,
        sample: &mut TaskSample,
    ) -> Result<()> {
        if task.kind != TaskKind::Recover {
            return Ok(());
        }
        self.make_room();
        let moment = Moment::now();
        let scan = &parse_tasks("readseq")?[0];
        let plan = Plan { reads: u64::MAX, threads: 1, ..self.plan(sample.position) };
        let prepared = prepare(scan, &plan)
            .ok_or_else(|| LabError::engine("the content cannot be compared"))?;
        let progress = Progress::new(false, "", 1);
        let done = self.run_lists(scan, &prepared, plan.reads, &progress)?.done;
        self.checks.add(&moment);
        sample.wrong += done.wrong;
        if let (Some(first), None) = (done.first_wrong, &sample.error) {
            let why = format!("the store is not what the killed process wrote: {first}");
            sample.error = Some(why);
        }
        Ok(())
    }

    /// Opens the store, and gets the pair that was written last, if another process wrote.
    pub(super) fn opened(&mut self, written: Option<&OpList>) -> Result<Outcome> {
        let start = Instant::now();
        self.open()?;
        let mut done = Done { operations: 1, ..Done::default() };
        let written = written.filter(|list| !list.is_empty());
        if let (Some(list), Some(target)) = (written, &self.target) {
            let value = self.round.data.value(list.values[list.len() - 1]);
            let mut is_right = false;
            target.get(list.keys.get(list.len() - 1), &mut |found| is_right = found == value)?;
            if !is_right {
                done.mistake(|| "the pair that was written last is not there".into());
            }
        }
        done.elapsed = start.elapsed();
        Ok(Outcome { done, writer: None, wall: None })
    }
}
