//! `driftq completions` and `driftq man`: what packages install beside the binary.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Command};
use clap_complete::Shell;

use crate::failure::EXIT_CODES;
use crate::output;

/// Print completions for a shell
#[derive(Args)]
#[command(after_help = "\
Examples:
  driftq completions bash > /etc/bash_completion.d/driftq
  driftq completions zsh > ~/.zfunc/_driftq
  driftq completions fish > ~/.config/fish/completions/driftq.fish")]
pub(crate) struct Completions {
    /// The shell
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
    /// The directory to write to
    dir: PathBuf,
}

impl Man {
    pub(crate) fn run(self, command: Command) -> anyhow::Result<()> {
        let written = || format!("write to {}", self.dir.display());
        std::fs::create_dir_all(&self.dir).with_context(written)?;
        let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let command = command.after_help(format!("{examples}\n\n{EXIT_CODES}"));
        clap_mangen::generate_to(command, &self.dir).with_context(written)?;
        output::line(format_args!("written: {}", self.dir.join("driftq.1").display()));
        Ok(())
    }
}
