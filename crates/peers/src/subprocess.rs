//! The child's side of a run in a subprocess: it resolves the engine and executes the run.

use std::io::{Read, Write};

use esker_lab::BenchConfig;
use esker_lab::error::{LabError, LabErrorKind, Result};
use esker_lab::experiment::check::Experiment;
use esker_lab::lab::round::LabRound;
use esker_lab::mix::ycsb::Properties;
use esker_lab::run::interleave::single_round;
use esker_lab::run::subprocess::{Reply, Request, Work};
use esker_lab::run::unclosed::write_until_killed;
use esker_lab::tune::knob::{KnobTable, Setting};
use esker_lab::tune::runner::LabRunner;
use esker_lab::tune::workload::{Sizes, parse};

use crate::bench::{config, engine_named, engines_and, split_spec};
use crate::library::trim_memory;
use crate::ycsb::{YcsbRun, run_here};

/// Reads a request from `input`, executes it, and writes the reply to `output`; messages go to
/// `messages`. Fails only if the reply cannot be written.
pub fn serve(
    input: &mut dyn Read,
    output: &mut dyn Write,
    messages: &mut dyn Write,
) -> std::io::Result<()> {
    let reply = answer(input, output, messages)
        .unwrap_or_else(|error| Reply { error: Some(error.to_string()), ..Reply::default() });
    serde_json::to_writer(&mut *output, &reply)?;
    output.flush()
}

fn answer(input: &mut dyn Read, output: &mut dyn Write, messages: &mut dyn Write) -> Result<Reply> {
    let request: Request = serde_json::from_reader(input).map_err(|e| {
        LabError::new(LabErrorKind::Data, format!("the request is not readable: {e}"))
    })?;
    let mut base = config();
    // For the task `recover`, whose store is written by one more process.
    base.child = std::env::current_exe().ok();
    let (name, path) = split_spec(&request.engine);
    base.engine_specs.insert(name.into(), request.engine.clone());
    for (name, value) in &request.flags {
        base.set(name, value).map_err(LabError::usage)?;
    }
    match request.work {
        Work::Ycsb { properties, load, run } => {
            let mut own = Properties::default();
            own.read(&properties).map_err(LabError::usage)?;
            let ycsb = YcsbRun { engine: request.engine, properties: own, load, run, base };
            let unlabelled = run_here(&ycsb, messages)?.into_iter();
            let samples = unlabelled.map(|sample| (String::new(), None, sample)).collect();
            Ok(Reply { samples, ..Reply::default() })
        }
        Work::Unclosed(work) => {
            let engine = engine_named(name, path)?;
            match write_until_killed(&base, engine.as_ref(), &work, output)? {}
        }
        work => round(&request.engine, &base, work, messages),
    }
}

fn round(spec: &str, base: &BenchConfig, work: Work, messages: &mut dyn Write) -> Result<Reply> {
    let (name, path) = split_spec(spec);
    let engine = engine_named(name, path)?;
    match work {
        Work::Bench { base_dir, repetition, round } => {
            let params = (base_dir.as_path(), repetition, round);
            let (samples, session) = single_round(base, engine.as_ref(), params, &trim_memory)?;
            let samples = samples.into_iter().map(|sample| (String::new(), None, sample)).collect();
            Ok(Reply { samples, session: Some(session), ..Reply::default() })
        }
        Work::Redb { base_dir, repetition } => {
            let samples = crate::preset::redb_round(engine.as_ref(), base, &base_dir, repetition)?;
            let samples = samples.into_iter().map(|sample| (String::new(), None, sample)).collect();
            Ok(Reply { samples, ..Reply::default() })
        }
        Work::Lab { name, text, point, seed, base_dir, repetition, round } => {
            let experiment = Experiment::parse(&name, &text, &crate::lab::known())
                .map_err(|_| LabError::usage(format!("the experiment {name} is not right")))?;
            let round = LabRound {
                experiment: &experiment,
                point: &point,
                engine: engine.as_ref(),
                repetition,
                number: round,
                seed,
                base,
                base_dir: &base_dir,
                settle_memory: &trim_memory,
            };
            let done = round.run(messages)?;
            Ok(Reply {
                samples: done.samples,
                session: Some(done.session),
                given: done.given,
                warnings: done.warnings,
                error: None,
            })
        }
        Work::Tune {
            workloads,
            records,
            operations,
            properties,
            robust_points,
            share,
            round,
            base_dir,
        } => {
            let sizes = Sizes { records, operations, properties, robust_points };
            let mut base = base.clone();
            base.progress = false;
            let runner = LabRunner {
                engine: engine.as_ref(),
                // The flags have the whole set.
                table: &KnobTable::default(),
                base: &base,
                workloads: &parse(&workloads, &base, &sizes, &engines_and(name))?,
                base_dir: &base_dir,
                settle_memory: &trim_memory,
                remote: None,
            };
            let samples = runner.measured(&Setting::default(), share, round)?;
            let samples = samples.into_iter().map(|sample| (String::new(), None, sample)).collect();
            Ok(Reply { samples, ..Reply::default() })
        }
        Work::Ycsb { .. } | Work::Unclosed(_) => Err(LabError::usage("this work has no rounds")),
    }
}
