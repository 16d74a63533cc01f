//! `driftq completions` and `driftq man`: files that packages install with the binary.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Command};
use clap_complete::Shell;

use crate::cli_error::EXIT_CODES;
use crate::output;

/// Print a completion script for a shell
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq completions bash > /etc/bash_completion.d/driftq
  driftq completions zsh > ~/.zfunc/_driftq
  driftq completions fish > ~/.config/fish/completions/driftq.fish")]
pub(crate) struct Completions {
    /// Shell to complete for
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self, mut command: Command) {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "driftq", &mut script);
        output::line(String::from_utf8_lossy(&script).trim_end());
    }
}

/// Write a manual page for each command
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq man ./man1 && man ./man1/driftq.1")]
pub(crate) struct Man {
    /// Directory to write to; created if it does not exist
    dir: PathBuf,
}

impl Man {
    pub(crate) fn run(self, command: Command) -> anyhow::Result<()> {
        let written = || format!("cannot write to {}", self.dir.display());
        std::fs::create_dir_all(&self.dir).with_context(written)?;
        let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let command = command.after_help(format!("{examples}\n\n{EXIT_CODES}"));
        clap_mangen::generate_to(command, &self.dir).with_context(written)?;
        output::line(format_args!("written: {}", self.dir.join("driftq.1").display()));
        Ok(())
    }
}
