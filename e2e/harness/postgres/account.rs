//! The user account for PostgreSQL, which refuses to run as root.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use anyhow::ensure;

/// The account that the PostgreSQL packages create.
const USER: &str = "postgres";

/// Creates a command through `command`. If the current user is root, the program runs as the
/// PostgreSQL user. The wrapper execs the program, so the process id is the program's own.
pub(crate) fn command(program: &OsStr, command: impl Fn(&OsStr) -> Command) -> Command {
    if !is_root() {
        return command(program);
    }
    let mut command = command("setpriv".as_ref());
    command.args(["--reuid", USER, "--regid", USER, "--init-groups", "--"]).arg(program);
    // That user may have no access to the current directory.
    command.current_dir("/");
    command
}

/// If the current user is root, changes the owner of a path to that account.
pub(crate) fn own(path: &Path) -> anyhow::Result<()> {
    if is_root() {
        let mut chown = Command::new("chown");
        let given = chown.arg(format!("{USER}:{USER}")).arg(path).status()?;
        ensure!(given.success(), "PostgreSQL does not run as root, and user {USER} does not exist");
    }
    Ok(())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
