//! The memory that this process may use: that of the machine, or the limit of its cgroup if that is
//! lower.

use std::path::Path;

use super::BUDGET_BYTES_MIN;

/// The default budget: half of the memory, and at least [`BUDGET_BYTES_MIN`].
pub fn default_bytes() -> u64 {
    (memory_bytes(Path::new("/")).unwrap_or(0) / 2).max(BUDGET_BYTES_MIN)
}

/// Returns `None` if the system does not report its memory.
fn memory_bytes(root: &Path) -> Option<u64> {
    let meminfo = std::fs::read_to_string(root.join("proc/meminfo")).ok();
    let machine = meminfo.as_deref().and_then(machine_bytes);
    machine.into_iter().chain(cgroup_bytes(root)).min()
}

fn machine_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1_024)
}

/// Returns the lowest limit of the cgroup and its ancestors, for cgroup versions 1 and 2.
fn cgroup_bytes(root: &Path) -> Option<u64> {
    let cgroups = std::fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let limits = cgroups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, kinds, path) = (parts.next(), parts.next(), parts.next());
        let kinds = kinds.unwrap_or_default();
        let (mount, file) = if kinds.split(',').any(|kind| kind == "memory") {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        } else {
            ("sys/fs/cgroup", "memory.max")
        };
        let path = path.unwrap_or_default().trim_start_matches('/');
        // In a container, the path may be the one on the host, which is not mounted. The limit is
        // then at the root of the mount.
        let around = Path::new(path).ancestors();
        around.filter_map(|path| limit(&root.join(mount).join(path).join(file))).collect::<Vec<_>>()
    });
    limits.min()
}

/// Reads one limit. If there is none, version 2 writes `max`, and version 1 writes a number larger
/// than any machine.
fn limit(file: &Path) -> Option<u64> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Creates a machine with 8 GiB of memory and these files.
    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        let meminfo = ("proc/meminfo", "MemTotal:        8388608 kB\nMemFree:  1 kB\n");
        for (path, text) in files.iter().copied().chain([meminfo]) {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("the path has a parent")).expect("a directory");
            fs::write(path, text).expect("a file");
        }
        root
    }

    fn memory_mib(files: &[(&str, &str)]) -> Option<u64> {
        memory_bytes(machine(files).path()).map(|bytes| bytes >> 20)
    }

    #[test]
    fn without_a_cgroup_it_is_that_of_the_machine() {
        assert_eq!(memory_mib(&[]), Some(8_192));
        let unlimited = [
            ("proc/self/cgroup", "0::/system.slice/driftq.service\n"),
            ("sys/fs/cgroup/system.slice/driftq.service/memory.max", "max\n"),
        ];
        assert_eq!(memory_mib(&unlimited), Some(8_192));
    }

    #[test]
    fn the_lowest_limit_of_version_2_counts() {
        let limited = [
            ("proc/self/cgroup", "0::/system.slice/driftq.service\n"),
            ("sys/fs/cgroup/system.slice/driftq.service/memory.max", "max\n"),
            ("sys/fs/cgroup/system.slice/memory.max", "1073741824\n"),
        ];
        assert_eq!(memory_mib(&limited), Some(1_024));
        let container =
            [("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/memory.max", "536870912\n")];
        assert_eq!(memory_mib(&container), Some(512));
    }

    #[test]
    fn the_limit_of_version_1_counts() {
        let cgroups = ("proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/docker/abc\n0::/\n");
        let here = ("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "268435456\n");
        assert_eq!(memory_mib(&[cgroups, here]), Some(256));
        let top = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "134217728\n");
        assert_eq!(memory_mib(&[cgroups, top]), Some(128), "the path of the host is not mounted");
        let none = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(memory_mib(&[cgroups, none]), Some(8_192));
    }

    #[test]
    fn the_default_is_at_least_256_mebibytes() {
        assert!(default_bytes() >= BUDGET_BYTES_MIN);
    }
}
