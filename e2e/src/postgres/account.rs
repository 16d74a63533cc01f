//! Whose PostgreSQL is: it refuses to be root's.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use anyhow::ensure;

/// The account that its packages make.
const USER: &str = "postgres";

/// A command of our own account, or of that of PostgreSQL if ours is root, made by `command` from a program. It replaces
/// what starts it, so the id is its own.
pub(crate) fn command(program: &OsStr, command: impl Fn(&OsStr) -> Command) -> Command {
    if !is_root() {
        return command(program);
    }
    let mut command = command("setpriv".as_ref());
    command.args(["--reuid", USER, "--regid", USER, "--init-groups", "--"]).arg(program);
    // It may not be allowed to be where we are.
    command.current_dir("/");
    command
}

/// Gives a directory or a file to that account.
pub(crate) fn own(path: &Path) -> anyhow::Result<()> {
    if is_root() {
        let mut chown = Command::new("chown");
        let given = chown.arg(format!("{USER}:{USER}")).arg(path).status()?;
        ensure!(given.success(), "PostgreSQL refuses to run as root, and there is no user {USER}");
    }
    Ok(())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
