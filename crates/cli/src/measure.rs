//! `bench`: the store measured, with db_bench's names; the work is the crate `imbrex-bench`'s.

use crate::Session;
use crate::error::{CliError, Context};
use crate::progress::{Progress, Unit};
use imbrex_bench::{BenchError, BenchOptions, run};

/// Arguments of `imbrex bench`.
#[derive(clap::Args, Debug)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    options: BenchOptions,
}

impl BenchArgs {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        let is_json = session.out.is_json()?;
        let mut shown = Ok(());
        let mut progress = Some(Progress::new("measuring", Unit::Time, None));
        let report = run(&self.options, &mut |run| {
            if !is_json && shown.is_ok() {
                // Each benchmark is told as it ends: the next may take a while.
                progress = None;
                shown = session.out.line(run.to_string()).and_then(|()| session.out.flush());
                progress = Some(Progress::new("measuring", Unit::Time, None));
            }
        })
        .map_err(|error| match error {
            BenchError::Options(fault) => CliError::usage(fault),
            error => CliError::of("cannot measure", &error),
        })?;
        drop(progress);
        shown?;
        if is_json {
            let report = serde_json::to_value(&report).context(|| "cannot write JSON")?;
            session.out.json(&report)?;
        }
        Ok(())
    }
}
