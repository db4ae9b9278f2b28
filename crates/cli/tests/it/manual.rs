//! Help, completions and the manual page.

use crate::imbrex;

#[test]
fn every_command_has_help_and_the_manual_names_it() {
    let manual = imbrex(&["man"]).ok();
    let help = imbrex(&["--help"]).ok();
    for command in [
        "load", "get", "put", "delete", "scan", "stats", "compact", "check", "dump", "bench",
        "ycsb", "layouts", "repro", "arrivals", "demo",
    ] {
        assert!(help.contains(&format!("  {command} ")), "{command}");
        assert!(manual.contains(&format!(".SS imbrex {command}")), "{command}");
        let own = imbrex(&[command, "--help"]).ok();
        assert!(own.contains("Usage: imbrex"), "{own}");
    }
    for command in ["create", "info", "bench", "zones"] {
        imbrex(&["drive", command, "--help"]).ok();
        assert!(manual.contains(&format!(".SS imbrex drive {command}")), "{command}");
    }
    for command in ["load", "run"] {
        let own = imbrex(&["ycsb", command, "--help"]).ok();
        assert!(own.contains("-P, --properties <FILE>"), "{own}");
        assert!(manual.contains(&format!(".SS imbrex ycsb {command}")), "{command}");
    }
    assert!(help.contains("130  interrupted") && help.contains("137  killed"));
    assert!(manual.contains(".SH EXIT STATUS"));
}

#[test]
fn every_command_quoted_in_the_manual_exists() {
    let manual = imbrex(&["man"]).ok().replace("\\-", "-");
    let mut quoted = 0;
    for (at, _) in manual.match_indices("`imbrex ") {
        let words = manual[at + 1..].split(['`', '\n']).next().unwrap_or_default();
        let is_word = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        let words = words.split(' ').skip(1).take(2).take_while(is_word);
        let words: Vec<_> = words.filter(|word| !word.starts_with('-')).collect();
        assert_eq!(imbrex(&[&words[..], &["--help"]].concat()).code, Some(0), "{words:?}");
        quoted += 1;
    }
    assert!(quoted > 5, "{quoted}");
}

#[test]
fn completions_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(imbrex(&["completions", shell]).ok().contains("imbrex"), "{shell}");
    }
    imbrex(&["completions", "nosuch"]).fails_clap();
    imbrex(&["nosuch"]).fails_clap();
}

impl crate::Ran {
    #[track_caller]
    fn fails_clap(self) {
        assert_eq!(self.code, Some(2), "{}", self.stderr);
        assert!(self.stderr.starts_with("error: "), "{}", self.stderr);
    }
}
