//! A disk whose flushes fail as they do under Linux, and that can be cut off from power.
//!
//! 1. A write changes the page cache. A flush makes the pages of the file durable.
//! 2. A flush that fails makes nothing durable, and marks the pages as clean all the same: later
//!    flushes do not write them. Programs can read them until they are evicted.
//! 3. The failure is reported once through each handle that was open, also if another handle was
//!    flushed.
//! 4. When the disk is cut off, only durable content remains.
//!
//! It is a FUSE file system with one directory. Names are durable at once.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, LockOwner, MountOption, Notifier, OpenFlags, RenameFlags,
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

const PAGE: usize = 4_096;
/// The kernel asks again each time, because content changes behind its back.
const TTL: Duration = Duration::ZERO;

/// A flush that will fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedFlush {
    /// The end of the names of its files.
    pub of: &'static str,
    /// Whether the pages that were not written are evicted at once.
    pub evicts: bool,
}

/// A mounted disk.
pub struct FlushDisk {
    at: PathBuf,
    content: Shared,
    session: Option<BackgroundSession>,
}

impl FlushDisk {
    /// Mounts an empty disk. Requires root.
    pub fn mount(at: &Path) -> anyhow::Result<FlushDisk> {
        std::fs::create_dir_all(at)?;
        let mut disk = FlushDisk { at: at.to_owned(), content: Shared::default(), session: None };
        disk.attach()?;
        Ok(disk)
    }

    fn attach(&mut self) -> anyhow::Result<()> {
        let mut options = Config::default();
        options.mount_options =
            vec![MountOption::FSName("driftq-flush-disk".to_owned()), MountOption::NoAtime];
        let session = fuser::spawn_mount(self.content.clone(), &self.at, &options)?;
        self.content.lock().notifier = Some(session.notifier());
        self.session = Some(session);
        Ok(())
    }

    /// The next flush of such a file fails.
    pub fn fail(&self, flush: FailedFlush) {
        let mut content = self.content.lock();
        (content.armed, content.failed_at) = (Some(flush), None);
    }

    /// When the flush failed, if it has.
    pub fn failed_at(&self) -> Option<Instant> {
        self.content.lock().failed_at
    }

    /// Cuts the disk off from power, and mounts what is durable. Its processes must have ended.
    pub fn cut_off(&mut self) -> anyhow::Result<()> {
        self.detach()?;
        let mut content = self.content.lock();
        content.armed = None;
        for file in content.files.values_mut() {
            file.cached = file.durable.clone();
            file.dirty.clear();
        }
        drop(content);
        self.attach()
    }

    fn detach(&mut self) -> anyhow::Result<()> {
        if let Some(session) = self.session.take() {
            session.umount_and_join()?;
        }
        Ok(())
    }
}

impl Drop for FlushDisk {
    fn drop(&mut self) {
        let _unmounted = self.detach();
    }
}

#[derive(Default)]
struct Content {
    names: BTreeMap<String, u64>,
    files: BTreeMap<u64, File>,
    last: u64,
    /// How many failed flushes each open handle has reported.
    handles: BTreeMap<u64, u64>,
    armed: Option<FailedFlush>,
    failed_at: Option<Instant>,
    /// Evicts pages from the kernel's own cache.
    notifier: Option<Notifier>,
}

#[derive(Default)]
struct File {
    mode: u32,
    cached: Vec<u8>,
    durable: Vec<u8>,
    /// Pages that changed since the last flush.
    dirty: BTreeSet<usize>,
    /// Flushes that failed.
    failures: u64,
}

impl File {
    fn write(&mut self, at: usize, data: &[u8]) {
        let end = at + data.len();
        if self.cached.len() < end {
            self.cached.resize(end, 0);
        }
        self.cached[at..end].copy_from_slice(data);
        self.dirty.extend(at / PAGE..end.div_ceil(PAGE));
    }

    fn resize(&mut self, size: usize) {
        let pages = size.min(self.cached.len()) / PAGE..size.max(self.cached.len()).div_ceil(PAGE);
        self.cached.resize(size, 0);
        self.dirty.extend(pages);
    }

    fn flush(&mut self) {
        self.durable.resize(self.cached.len(), 0);
        for page in std::mem::take(&mut self.dirty) {
            let end = self.cached.len().min((page + 1) * PAGE);
            if let Some(cached) = self.cached.get(page * PAGE..end) {
                self.durable[page * PAGE..end].copy_from_slice(cached);
            }
        }
    }

    /// The pages count as clean, and are not durable.
    fn fail_to_flush(&mut self, evicts: bool) {
        self.dirty.clear();
        self.failures += 1;
        if evicts {
            let size = self.cached.len();
            self.cached = self.durable.clone();
            self.cached.resize(size, 0);
        }
    }
}

impl Content {
    fn attributes(&self, number: u64) -> Option<FileAttr> {
        let (kind, perm, size) = if number == INodeNo::ROOT.0 {
            (FileType::Directory, 0o700, 0)
        } else {
            let file = self.files.get(&number)?;
            (FileType::RegularFile, file.mode as u16 & 0o777, file.cached.len() as u64)
        };
        let at = SystemTime::UNIX_EPOCH;
        Some(FileAttr {
            ino: INodeNo(number),
            size,
            blocks: size.div_ceil(512),
            atime: at,
            mtime: at,
            ctime: at,
            crtime: at,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: PAGE as u32,
            flags: 0,
        })
    }

    fn open(&mut self, number: u64) -> FileHandle {
        self.last += 1;
        let failures = self.files.get(&number).map_or(0, |file| file.failures);
        self.handles.insert(self.last, failures);
        FileHandle(self.last)
    }

    fn flush(&mut self, number: u64, handle: u64) -> Result<(), Errno> {
        let is_named =
            |of: &str| self.names.iter().any(|(name, file)| *file == number && name.ends_with(of));
        let failed = self.armed.filter(|flush| is_named(flush.of));
        let file = self.files.get_mut(&number).ok_or(Errno::ENOENT)?;
        match failed {
            Some(flush) if !file.dirty.is_empty() => {
                file.fail_to_flush(flush.evicts);
                if let Some(notifier) = self.notifier.clone().filter(|_| flush.evicts) {
                    // On another thread, because the kernel may answer with requests to this one.
                    std::thread::spawn(move || notifier.inval_inode(INodeNo(number), 0, 0));
                }
                (self.armed, self.failed_at) = (None, Some(Instant::now()));
            }
            Some(_) | None => file.flush(),
        }
        let reported = self.handles.entry(handle).or_default();
        let is_new = *reported < file.failures;
        *reported = file.failures;
        if is_new { Err(Errno::EIO) } else { Ok(()) }
    }
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Content>>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn answered(reply: ReplyEmpty, done: Result<(), Errno>) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}

impl Filesystem for Shared {
    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let content = self.lock();
        let number = content.names.get(&*name.to_string_lossy());
        match number.and_then(|number| content.attributes(*number)) {
            Some(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.lock().attributes(number.0) {
            Some(attributes) => reply.attr(&TTL, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mut content = self.lock();
        if let Some(file) = content.files.get_mut(&number.0) {
            file.mode = mode.unwrap_or(file.mode);
            if let Some(size) = size {
                file.resize(size as usize);
            }
        }
        match content.attributes(number.0) {
            Some(attributes) => reply.attr(&TTL, &attributes),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn create(
        &self,
        _: &Request,
        _: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let mut content = self.lock();
        content.last = content.last.max(INodeNo::ROOT.0) + 1;
        let number = content.last;
        content.names.insert(name.to_string_lossy().into_owned(), number);
        content.files.insert(number, File { mode, ..File::default() });
        let attributes = content.attributes(number).expect("it was just created");
        let handle = content.open(number);
        reply.created(&TTL, &attributes, Generation(0), handle, FopenFlags::empty());
    }

    fn open(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.opened(self.lock().open(number.0), FopenFlags::empty());
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.lock().files.get(&number.0) {
            Some(file) => {
                let from = file.cached.len().min(offset as usize);
                let to = file.cached.len().min(from + size as usize);
                reply.data(&file.cached[from..to]);
            }
            None => reply.error(Errno::ENOENT),
        }
    }

    fn write(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.lock().files.get_mut(&number.0) {
            Some(file) => {
                file.write(offset as usize, data);
                reply.written(data.len() as u32);
            }
            None => reply.error(Errno::ENOENT),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, number: INodeNo, handle: FileHandle, _: bool, reply: ReplyEmpty) {
        answered(reply, self.lock().flush(number.0, handle.0));
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn unlink(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        // Its content stays for processes that have it open.
        let removed = self.lock().names.remove(&*name.to_string_lossy());
        answered(reply, removed.map(drop).ok_or(Errno::ENOENT));
    }

    fn rename(
        &self,
        _: &Request,
        _: INodeNo,
        name: &OsStr,
        _: INodeNo,
        new: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let mut content = self.lock();
        let number = content.names.remove(&*name.to_string_lossy());
        let renamed =
            number.map(|number| content.names.insert(new.to_string_lossy().into_owned(), number));
        answered(reply, renamed.map(drop).ok_or(Errno::ENOENT));
    }

    fn readdir(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let content = self.lock();
        for (at, (name, number)) in content.names.iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(*number), at as u64 + 1, FileType::RegularFile, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        const BLOCKS: u64 = 1 << 20;
        reply.statfs(BLOCKS, BLOCKS, BLOCKS, 1 << 20, 1 << 20, PAGE as u32, 255, PAGE as u32);
    }
}
