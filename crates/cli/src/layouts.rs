//! `layouts`: the list of layouts, one line each. Its column `full` is the share of a drive that live
//! data may take under uniform overwrites, `?` if that was not measured; a note below says of which drives
//! that is true.

use crate::error::CliError;
use crate::output::Table;
use crate::session::Session;
use imbrex::Layout;
use serde_json::json;

/// On which drives the shares were measured, and what a smaller drive sustains. `gear`, `sealdb` and `smrdb`
/// had the published sizes then.
///
/// Source: docs/results/full_drives.md and steady.md; drives of 56 to 73 MiB: `imbrex bench shares --num 13000
/// --shares 70,80,90 --layouts leveled-zones,imbrex-zones,imbrex,gear,leveled-first-fit,smrdb`.
const ABOUT_FULL: &str = "full: the share of the drive that live data may take under uniform overwrites, measured \
on drives of 220 MiB to\n3.2 GiB. Smaller drives sustain less: at 64 MiB, 80 % instead of 90 %, and smrdb-paper \
less than 70 %.\n`imbrex bench shares --layouts NAME` measures it.";

/// Arguments of `imbrex layouts`.
#[derive(clap::Args, Debug)]
pub(crate) struct LayoutsArgs {}

impl LayoutsArgs {
    pub(crate) fn run(self, session: &mut Session) -> Result<(), CliError> {
        if session.out.is_json()? {
            let layouts: Vec<_> = Layout::all()
                .map(|layout| {
                    json!({
                        "name": layout.name(),
                        "recording": layout.recording().name(),
                        "flash": layout.takes_flash(),
                        "placement": layout.placement(),
                        "sustained_percent": layout.sustained_percent(),
                        "summary": layout.summary(),
                        "source": layout.source(),
                    })
                })
                .collect();
            return session.out.json(&json!(layouts));
        }
        let mut table = Table::new(&["layout", "drive", "full", "what it is"]);
        for layout in Layout::all() {
            let flash = if layout.takes_flash() { ", flash" } else { "" };
            table.row(vec![
                layout.name().to_owned(),
                format!("{}{flash}", layout.recording().name()),
                layout.sustained_percent().map_or("?".to_owned(), |percent| format!("{percent} %")),
                layout.summary().to_owned(),
            ]);
        }
        session.out.bytes(format!("{}\n{ABOUT_FULL}\n", table.text()).as_bytes())
    }
}
