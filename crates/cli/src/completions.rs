//! Shell completions and the manual page, generated from the definitions of the command line.

use crate::error::{CliError, Context, EXIT_CODES};
use crate::session::Session;
use clap_complete::Shell;

/// Arguments of `imbrex completions`.
#[derive(clap::Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell to print completions for
    #[arg(value_enum)]
    shell: Shell,
}

impl CompletionsArgs {
    pub(crate) fn run(
        self,
        session: &mut Session,
        mut command: clap::Command,
    ) -> Result<(), CliError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "imbrex", &mut script);
        session.out.bytes(&script)
    }
}

/// `imbrex man`: one page with all commands.
pub(crate) fn manual(session: &mut Session, command: clap::Command) -> Result<(), CliError> {
    let command = command.after_help("");
    let mut page = Vec::new();
    let render = |page: &mut Vec<u8>| -> std::io::Result<()> {
        let man = clap_mangen::Man::new(command.clone());
        man.render_title(page)?;
        man.render_name_section(page)?;
        man.render_synopsis_section(page)?;
        man.render_description_section(page)?;
        man.render_options_section(page)?;
        page.extend_from_slice(b".SH COMMANDS\n");
        let is_shown = |c: &&clap::Command| c.get_name() != "help" && !c.is_hide_set();
        for subcommand in command.get_subcommands().filter(is_shown) {
            describe(subcommand, "imbrex", page)?;
        }
        page.extend_from_slice(b".SH EXIT STATUS\n");
        for line in EXIT_CODES.lines().skip(1) {
            let (code, meaning) = line.trim().split_once(' ').unwrap_or((line, ""));
            page.extend_from_slice(format!(".TP\n{code}\n{}\n", meaning.trim()).as_bytes());
        }
        Ok(())
    };
    render(&mut page).context(|| "cannot write the manual page")?;
    session.out.bytes(&page)
}

/// Writes a section about a command and its arguments, and about its subcommands.
fn describe(command: &clap::Command, parent: &str, page: &mut Vec<u8>) -> std::io::Result<()> {
    let name = format!("{parent} {}", command.get_name());
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    let about = paragraphs(&format!("{}.", about.trim_end_matches('.')), ".PP");
    page.extend_from_slice(format!(".SS {}\n{about}\n", roff(&name)).as_bytes());
    for subcommand in command.get_subcommands().filter(|c| c.get_name() != "help") {
        describe(subcommand, &name, page)?;
    }
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        let value = arg
            .get_value_names()
            .unwrap_or_default()
            .iter()
            .map(|name| format!("<{name}>"))
            .collect::<Vec<_>>()
            .join(" ");
        let takes_value = arg.get_action().takes_values();
        let shown = match arg.get_long() {
            Some(long) if takes_value => format!("--{long} {value}"),
            Some(long) => format!("--{long}"),
            None => value,
        };
        let help = arg.get_long_help().or(arg.get_help());
        let help = paragraphs(&help.map(ToString::to_string).unwrap_or_default(), ".IP");
        page.extend_from_slice(format!(".TP\n\\fB{}\\fR\n{help}\n", roff(&shown)).as_bytes());
    }
    Ok(())
}

/// `text` in roff, with `separator` between its paragraphs.
fn paragraphs(text: &str, separator: &str) -> String {
    text.split("\n\n").map(roff).collect::<Vec<_>>().join(&format!("\n{separator}\n"))
}

/// `text` with the characters escaped that roff would interpret.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('-', "\\-").replace('\n', " ");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}
