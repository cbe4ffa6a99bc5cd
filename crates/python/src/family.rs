//! The own memory of a worker process and of the processes that it has started.
//!
//! A forked child shares pages with its parent, and the resident size of both counts them. Workers share 26 MB with
//! their fork server, and 62 MB where that has imported pandas. So families are weighed by their shares of pages, which
//! takes the system some milliseconds per GB. The growth of a process until the next weighing is added, which takes
//! microseconds to ask for. Children are found through the process that started them, as long as that lives.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often children of other threads are looked for. Tasks run in a worker's main thread, whose children are looked
/// for each time.
const SEARCH: Duration = Duration::from_millis(100);
/// How often a family is weighed, at most. A weighing also waits ten times as long as the last one took.
const WEIGH: Duration = Duration::from_millis(10);
/// How often a process that has started no other is weighed. Its growth is known; a weighing finds pages that it had
/// shared and has copied since.
const WEIGH_ALONE: Duration = Duration::from_millis(500);
/// Shared memory of a process counts if it is more than this. To ask for the exact number takes 3 µs.
const SHARED: u64 = 8 << 20;

/// A worker process, and the processes that it or they have started.
pub struct Family {
    /// The worker comes first.
    members: Vec<Member>,
    /// When children were looked for in all threads; nothing if they do not belong to the family.
    searched: Option<Instant>,
    /// Nothing before the first time.
    weighed: Option<Instant>,
    weighing_took: Duration,
}

impl Family {
    /// Returns the family of a process.
    pub fn of(process: i32) -> io::Result<Self> {
        let mut family = Self::alone(process)?;
        family.searched = Some(Instant::now());
        Ok(family)
    }

    /// Returns a process without the processes that it starts.
    pub fn alone(process: i32) -> io::Result<Self> {
        Ok(Self {
            members: vec![Member::of(process)?],
            searched: None,
            weighed: None,
            weighing_took: Duration::ZERO,
        })
    }

    /// Returns the number of processes beside the worker.
    pub fn num_started(&self) -> usize {
        self.members.len() - 1
    }

    /// Returns the memory that all of them have now: heaps and stacks, and files of all members but the worker. The
    /// worker shares libraries with the program, and the store counts blocks. Returns 0 if all have ended.
    pub fn measure(&mut self) -> u64 {
        let mut is_worker = true;
        self.members
            .retain(|member| std::mem::take(&mut is_worker) || member.resident().is_some());
        let has_more = self.find();
        if self.is_due(has_more) {
            self.weigh();
        }
        self.members.iter().map(Member::bytes).sum()
    }

    /// Returns the processes that have much shared memory, blocks of the store among it, and how much.
    pub fn shared(&mut self) -> Vec<(i32, u64)> {
        let members = self.members.iter_mut();
        let large = members.filter_map(|one| Some((one.process, one.shared()?)));
        large.collect()
    }

    /// Weighs it anew at the next look: others share its pages, or no longer do.
    pub fn weigh_soon(&mut self) {
        self.weighed = None;
    }

    fn is_due(&self, has_more: bool) -> bool {
        let Some(weighed) = self.weighed else {
            return true;
        };
        let since = weighed.elapsed();
        let period = match self.members.len() {
            1 => WEIGH_ALONE,
            _ if has_more => Duration::ZERO,
            _ => WEIGH,
        };
        since >= period && since >= 10 * self.weighing_took
    }

    /// Ends all of them.
    pub fn kill(&self) {
        let worker = &self.members[0];
        if worker.resident().is_some() {
            // SAFETY: takes no pointers. Each worker process leads a process group of its own, which its children are
            // in unless they leave it. The worker runs, so its number belongs to no other group.
            unsafe {
                libc::kill(-worker.process, libc::SIGKILL);
            }
        }
        for member in &self.members {
            member.kill();
        }
    }

    /// Looks for processes that were started, and returns whether there are more.
    fn find(&mut self) -> bool {
        let Some(searched) = self.searched.as_mut() else {
            return false;
        };
        let in_all_threads = searched.elapsed() >= SEARCH;
        if in_all_threads {
            *searched = Instant::now();
        }
        let known = self.members.len();
        let mut index = 0;
        while index < self.members.len() {
            for process in self.members[index].children(in_all_threads) {
                if !self.members.iter().any(|one| one.process == process) {
                    // The process may have ended already.
                    self.members.extend(Member::started(process));
                }
            }
            index += 1;
        }
        self.members.len() > known
    }

    fn weigh(&mut self) {
        let begun = Instant::now();
        for index in 0..self.members.len() {
            let (before, rest) = self.members.split_at_mut(index);
            if before.iter().any(|other| rest[0].is_in_memory_of(other)) {
                continue;
            }
            rest[0].weigh(index > 0);
        }
        self.weighed = Some(begun);
        self.weighing_took = begun.elapsed();
    }
}

struct Member {
    process: i32,
    /// None on systems without `/proc`, where nobody counts.
    described: Option<Description>,
    weight: Weight,
    /// The bytes of files in its memory, when they were asked for last.
    file_bytes: u64,
}

/// The files in which the system describes a process. The open files keep standing for this process when another gets
/// its number.
struct Description {
    folder: File,
    statm: File,
    status: File,
    /// The file of its main thread's children; not all systems have it.
    children: Option<File>,
}

/// The measured memory of a process, and its resident size at that time.
#[derive(Clone, Copy, Default)]
struct Weight {
    bytes: u64,
    resident: u64,
}

impl Member {
    fn of(process: i32) -> io::Result<Self> {
        let described = if cfg!(target_os = "linux") {
            let folder = PathBuf::from(format!("/proc/{process}"));
            Some(Description {
                statm: File::open(folder.join("statm"))?,
                status: File::open(folder.join("status"))?,
                children: File::open(folder.join(format!("task/{process}/children"))).ok(),
                folder: File::open(folder)?,
            })
        } else {
            None
        };
        Ok(Self {
            process,
            described,
            weight: Weight::default(),
            file_bytes: 0,
        })
    }

    /// Returns a process that another has started. Until it is weighed, it counts as the bytes that it grows by, since
    /// it may share all pages with the process that forked it.
    fn started(process: i32) -> Option<Self> {
        let mut member = Self::of(process).ok()?;
        let resident = member.resident()?;
        member.weight = Weight { bytes: 0, resident };
        Some(member)
    }

    /// Returns its part when it was weighed, and what it has taken or given back since.
    fn bytes(&self) -> u64 {
        let Some(resident) = self.resident() else {
            return 0;
        };
        (self.weight.bytes + resident).saturating_sub(self.weight.resident)
    }

    /// Returns the bytes of its memory that belong to no file and no block, shared with others or not; nothing if it
    /// has ended.
    fn resident(&self) -> Option<u64> {
        let Some(described) = &self.described else {
            return Some(0);
        };
        unfiled_bytes(&described.statm)
    }

    /// Returns its shared memory that is no file; nothing if it has little.
    fn shared(&mut self) -> Option<u64> {
        let described = self.described.as_ref()?;
        let (_, shared) = memory_bytes(&described.statm)?;
        if shared.saturating_sub(self.file_bytes) <= SHARED {
            return None;
        }
        // The process may have loaded libraries since.
        let mut text = [0; 4096];
        let len = described.status.read_at(&mut text, 0).unwrap_or(0);
        let status = String::from_utf8_lossy(&text[..len]);
        let unfiled = field_bytes(&status, "RssShmem:")?;
        self.file_bytes = shared.saturating_sub(unfiled);
        Some(unfiled).filter(|&bytes| bytes > SHARED)
    }

    /// Returns how the system describes its memory; nothing if the system refuses.
    fn rollup(&self) -> String {
        fs::read_to_string(format!("/proc/{}/smaps_rollup", self.process)).unwrap_or_default()
    }

    /// Whether both are in the same memory: a process that was just started is, until it runs its program.
    ///
    /// Without this, a worker that started a program counted twice, and was stopped for it.
    #[cfg(target_os = "linux")]
    fn is_in_memory_of(&self, other: &Self) -> bool {
        const KCMP_VM: libc::c_int = 1;
        // SAFETY: takes no pointers. Systems that do not tell say that they are not.
        let order =
            unsafe { libc::syscall(libc::SYS_kcmp, self.process, other.process, KCMP_VM, 0, 0) };
        order == 0
    }

    /// No system but Linux has the files that processes are measured by.
    #[cfg(not(target_os = "linux"))]
    fn is_in_memory_of(&self, _: &Self) -> bool {
        false
    }

    /// Notes its part of the pages that it shares. The worker's files are those of the program.
    fn weigh(&mut self, with_files: bool) {
        let Some(resident) = self.resident() else {
            return;
        };
        // The system refuses to describe some processes: they count as they are.
        let text = self.rollup();
        let Some(own) = field_bytes(&text, "Pss_Anon:") else {
            return;
        };
        let files = field_bytes(&text, "Pss_File:").filter(|_| with_files);
        let bytes = own + files.unwrap_or(0);
        self.weight = Weight { bytes, resident };
    }

    /// Returns the processes that it has started, or some of them.
    fn children(&self, in_all_threads: bool) -> Vec<i32> {
        let mut found = Vec::new();
        if in_all_threads {
            let threads = fs::read_dir(format!("/proc/{}/task", self.process));
            for thread in threads.into_iter().flatten().flatten() {
                if let Ok(text) = fs::read(thread.path().join("children")) {
                    found.extend(numbers(&text));
                }
            }
        } else if let Some(children) = self.described.as_ref().and_then(|it| it.children.as_ref()) {
            let mut text = [0; 4096];
            let len = children.read_at(&mut text, 0).unwrap_or(0);
            found.extend(numbers(&text[..len]));
        }
        found
    }

    fn kill(&self) {
        if let Some(described) = &self.described {
            described.kill();
        }
    }
}

impl Description {
    #[cfg(target_os = "linux")]
    fn kill(&self) {
        use std::os::fd::AsRawFd;
        // SAFETY: the pointer is null, which stands for no further information. The folder is open, and while it is
        // open it stands for this process. Systems without this call end the processes in the worker's group.
        unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.folder.as_raw_fd(),
                libc::SIGKILL,
                std::ptr::null::<libc::siginfo_t>(),
                0,
            );
        }
    }

    /// Never called: such systems describe no process.
    #[cfg(not(target_os = "linux"))]
    fn kill(&self) {
        let _ = &self.folder;
    }
}

/// Returns the bytes of a process's memory that belong to no file and no block, from its open `statm`; nothing if it has
/// ended.
pub fn unfiled_bytes(statm: &File) -> Option<u64> {
    memory_bytes(statm).map(|(unfiled, _)| unfiled)
}

/// Returns the same, and the bytes that belong to files, blocks and other shared memory.
fn memory_bytes(statm: &File) -> Option<(u64, u64)> {
    let mut text = [0; 128];
    let len = statm.read_at(&mut text, 0).ok()?;
    let fields = std::str::from_utf8(&text[..len]).ok()?;
    let mut pages = fields.split(' ').map_while(|field| field.parse().ok());
    let (size, resident, shared): (u64, u64, u64) = (pages.next()?, pages.next()?, pages.next()?);
    // A process that has ended but was not waited for has no memory.
    let bytes = |pages: u64| pages * page_bytes();
    (size > 0).then(|| (bytes(resident.saturating_sub(shared)), bytes(shared)))
}

/// Reads the numbers in a list, each with a space behind it; a number that was cut off is left out.
fn numbers(text: &[u8]) -> impl Iterator<Item = i32> + '_ {
    let end = text.iter().rposition(|&byte| byte == b' ').unwrap_or(0);
    let words = text[..end].split(|&byte| byte == b' ');
    words.filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok())
}

/// Returns a number of kB in a list from the system, in bytes.
pub fn field_bytes(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

fn page_bytes() -> u64 {
    // SAFETY: takes no pointers.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(4096)
}
