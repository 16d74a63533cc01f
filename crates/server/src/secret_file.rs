//! Files with a secret.

use std::fs::File;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Opens a file with a secret. Fails if all users of the machine can access it.
pub(crate) fn open(path: &Path) -> Result<File, String> {
    let wrong = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let file = File::open(path).map_err(|error| wrong(&error))?;
    let mode = file.metadata().map_err(|error| wrong(&error))?.permissions().mode();
    if mode & 0o007 != 0 {
        let (mode, path) = (mode & 0o777, path.display());
        let why = format!("all users can access the file (mode {mode:04o}); run `chmod o= {path}`");
        return Err(wrong(&why));
    }
    Ok(file)
}
