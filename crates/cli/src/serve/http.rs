//! `serve http`: what a drive does, in a browser, from a recording or from the drive itself.

use crate::door::DoorArgs;
use crate::error::CliError;
use crate::interrupt::pause;
use crate::session::Session;
use crate::site::WatchSite;
use crate::watched::Watched;
use std::path::PathBuf;
use std::sync::Arc;

/// Arguments of `imbrex serve http`.
#[derive(clap::Args, Debug)]
pub(crate) struct HttpArgs {
    /// A recording (`--record`), also while it grows, or a drive with a store that nobody else has open
    what: PathBuf,
    /// Write nothing to the drive, not even to repair what a crash left
    #[arg(long)]
    read_only: bool,
    #[command(flatten)]
    door: DoorArgs,
}

/// The pause between two looks at the recording or the store.
const LOOK_EVERY_MS: u32 = 200;

impl HttpArgs {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        let mut watched = Watched::open(&self.what, self.read_only)?;
        let site = WatchSite::new(watched.feed.clone(), watched.title.clone());
        let door = self.door.open(Arc::new(site), &mut session.out);
        let outcome = door.and_then(|door| {
            let mut looked = Ok(());
            while looked.is_ok() && !session.interrupt.is_asked() {
                pause(LOOK_EVERY_MS);
                looked = watched.look();
            }
            door.close();
            looked
        });
        let closed = watched.close();
        outcome.and(closed)
    }
}
