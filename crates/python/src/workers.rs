//! The worker processes that the guard of the memory limit watches: what each has, and which one it stops.
//!
//! Shared memory that functions have mapped counts by shares of its pages, which take the system some milliseconds to
//! tell. All that a process has mapped is known at each look, and is the most that its share can be. So shares are
//! asked for when the program may soon be beyond its limit with all of that. Until the next weighing, a worker has the
//! same part of what it maps. Why not every few milliseconds? The growth between two weighings was a guess: functions
//! were stopped at 266 to 410 of 512 MB.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::family::Family;
use crate::shared_memory::OfProgram;

/// Growth of workers between two looks that makes the next look come sooner.
pub const GROWTH_BYTES: u64 = 1 << 20;

/// A worker process, and the processes that the functions in it have started.
pub struct Worker {
    family: Family,
    /// The memory that is set apart for it, with the slack that it is granted.
    allowed_bytes: u64,
    own_bytes: u64,
    /// The growth of its own memory since the look before.
    own_grown: u64,
    shared: Shared,
    /// The memory that it had when it was stopped, and the number of processes beside its own.
    stopped: Option<(u64, usize)>,
}

/// The shared memory that a worker has mapped, blocks of the store among it.
#[derive(Default)]
struct Shared {
    mapped_bytes: u64,
    /// The growth of that since the look before.
    mapped_grown: u64,
    /// Its share of what functions have mapped, when it was weighed last, and what it had mapped at that time.
    weighed_bytes: u64,
    weighed_mapped: u64,
}

impl Shared {
    fn measure(&mut self, mapped_bytes: u64) {
        self.mapped_grown = mapped_bytes.saturating_sub(self.mapped_bytes);
        self.mapped_bytes = mapped_bytes;
    }

    /// Returns the bytes of so many mapped ones that are its own, if it has the same part of them as when weighed.
    fn part(&self, mapped_bytes: u64) -> u64 {
        let own =
            u128::from(mapped_bytes) * u128::from(self.weighed_bytes.min(self.weighed_mapped));
        // The quotient is no more than the mapped bytes.
        (own / u128::from(self.weighed_mapped.max(1))) as u64
    }

    /// Returns the most that its share can be: pages that others have left since are all its own if it `is_old`.
    fn most_bytes(&self, is_old: bool) -> u64 {
        let since = self.mapped_bytes.saturating_sub(self.weighed_mapped);
        match is_old {
            true => self.mapped_bytes,
            false => self.mapped_bytes.min(self.weighed_bytes + since),
        }
    }
}

impl Worker {
    /// Watches a family that may have so much.
    pub fn of(family: Family, allowed_bytes: u64) -> Self {
        Self {
            family,
            allowed_bytes,
            own_bytes: 0,
            own_grown: 0,
            shared: Shared::default(),
            stopped: None,
        }
    }

    fn measure(&mut self) {
        let own = self.family.measure();
        self.own_grown = own.saturating_sub(self.own_bytes);
        self.own_bytes = own;
        let mapped = self.family.shared().iter().map(|(_, bytes)| bytes).sum();
        self.shared.measure(mapped);
    }

    /// Asks for its share of shared memory.
    fn weigh_shared(&mut self, program: &OfProgram) {
        let members = self.family.shared();
        let shares = members.iter().map(|(process, _)| program.beside(*process));
        self.shared.weighed_bytes = shares.sum();
        self.shared.weighed_mapped = members.iter().map(|(_, bytes)| bytes).sum();
    }

    fn maps_nothing(&self) -> bool {
        self.shared.mapped_bytes == 0
    }

    /// Returns its memory, with its part of shared memory of functions.
    fn used_bytes(&self) -> u64 {
        self.own_bytes + self.shared.part(self.shared.mapped_bytes)
    }

    /// Returns the memory that it has taken since the look before.
    fn grown_bytes(&self) -> u64 {
        self.own_grown + self.shared.part(self.shared.mapped_grown)
    }

    fn beyond(&self) -> u64 {
        self.used_bytes().saturating_sub(self.allowed_bytes)
    }
}

/// Workers, and the processes that they are forked from, by their numbers.
#[derive(Default)]
pub struct Workers {
    all: HashMap<i32, Worker>,
    /// When they were measured last.
    measured: Option<Instant>,
    /// The memory that they take, or map, in the time of two weighings.
    soon_bytes: u64,
    /// When shared memory was weighed last.
    weighed: Option<Instant>,
    weighing_took: Duration,
}

impl Workers {
    /// After so long a weighing says nothing: processes that shared pages may have ended since.
    const OLD: Duration = Duration::from_millis(100);
    /// A weighing is expected to take so long, or as long as the last one. 400 MB took 2 to 3 ms on an idle machine.
    const WEIGHING: Duration = Duration::from_millis(5);
    /// It is not worth a weighing to know the share of so little.
    const LITTLE: u64 = 8 << 20;
    /// A weighing waits so many times as long as the last one took if that found blocks of the store alone. Else it waits
    /// as long: one core fills new pages at 1.6 to 2.2 GB/s.
    const PATIENCE: u32 = 10;

    /// Watches one more.
    pub fn insert(&mut self, process: i32, worker: Worker) {
        self.all.insert(process, worker);
        self.weigh_all();
    }

    /// Lets it have so much from now on; returns whether it is watched.
    pub fn allow(&mut self, process: i32, allowed_bytes: u64) -> bool {
        let worker = self.all.get_mut(&process);
        worker.map(|it| it.allowed_bytes = allowed_bytes).is_some()
    }

    /// Watches one less.
    pub fn remove(&mut self, process: i32) {
        if self.all.remove(&process).is_some() {
            self.weigh_all();
        }
    }

    /// Returns the memory that a worker had when it was stopped, and the number of processes beside its own.
    pub fn stopped(&self, process: i32) -> Option<(u64, usize)> {
        self.all.get(&process)?.stopped
    }

    /// Has all of them weighed at the next look: more or fewer processes share their pages.
    fn weigh_all(&mut self) {
        for worker in self.all.values_mut() {
            worker.family.weigh_soon();
        }
    }

    /// Measures all of them, and returns the memory that they have taken, or mapped, since the look before.
    pub fn measure(&mut self) -> u64 {
        self.all.values_mut().for_each(Worker::measure);
        let grown = |worker: &Worker| worker.own_grown + worker.shared.mapped_grown;
        let grown = self.all.values().map(grown).sum();
        let measured = self.measured.replace(Instant::now());
        let since = measured.map_or(Self::WEIGHING, |at| at.elapsed());
        let soon = 2 * self.weighing_took.max(Self::WEIGHING);
        self.soon_bytes = (grown as f64 * soon.as_secs_f64() / since.as_secs_f64()) as u64;
        grown
    }

    /// Returns the memory of all of them, as far as it is known.
    pub fn used_bytes(&self) -> u64 {
        self.all.values().map(Worker::used_bytes).sum()
    }

    /// Returns the most that the memory of all of them can be before a weighing that begins now has ended.
    pub fn soon_bytes(&self) -> u64 {
        self.most_bytes().saturating_add(self.soon_bytes)
    }

    fn most_bytes(&self) -> u64 {
        let is_old = self.is_old();
        let most = |worker: &Worker| worker.own_bytes + worker.shared.most_bytes(is_old);
        self.all.values().map(most).sum()
    }

    fn is_old(&self) -> bool {
        self.weighed.is_none_or(|at| at.elapsed() > Self::OLD)
    }

    /// Weighs the shared memory of all of them at one time, if it is due: what one has more of, another has less of.
    pub fn weigh_shared(&mut self) {
        let is_known =
            !self.is_old() && self.most_bytes().saturating_sub(self.used_bytes()) <= Self::LITTLE;
        if is_known || self.is_too_soon() || self.all.values().all(Worker::maps_nothing) {
            return;
        }
        let begun = Instant::now();
        let program = OfProgram::now();
        for worker in self.all.values_mut() {
            worker.weigh_shared(&program);
        }
        self.weighed = Some(Instant::now());
        self.weighing_took = begun.elapsed();
    }

    fn is_too_soon(&self) -> bool {
        let has_weight = |worker: &Worker| worker.shared.weighed_bytes > 0;
        let patience = match self.all.values().any(has_weight) {
            true => 1,
            false => Self::PATIENCE,
        };
        self.weighed
            .is_some_and(|at| at.elapsed() < patience * self.weighing_took)
    }

    /// Returns the memory that workers have taken since the look before, of those that have more than is set apart for
    /// them.
    pub fn grown_beyond(&self) -> u64 {
        let running = self.all.values().filter(|worker| worker.stopped.is_none());
        let greedy = running.filter(|worker| worker.beyond() > 0);
        greedy.map(Worker::grown_bytes).sum()
    }

    /// Stops the worker that has most beyond what is set apart for it, if one has. While another is about to end, whose
    /// memory goes back within some 100 ms, stops only a worker that takes more.
    pub fn stop_worst(&mut self) {
        let is_ending = |worker: &Worker| worker.stopped.is_some() && worker.used_bytes() > 0;
        let is_one_ending = self.all.values().any(is_ending);
        let worst = self
            .all
            .values_mut()
            .filter(|worker| worker.stopped.is_none())
            .filter(|worker| worker.grown_bytes() > GROWTH_BYTES || !is_one_ending)
            .max_by_key(|worker| worker.beyond());
        if let Some(worker) = worst.filter(|worker| worker.beyond() > 0) {
            worker.stopped = Some((worker.used_bytes(), worker.family.num_started()));
            worker.family.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_memory_counts_by_the_part_that_was_weighed() {
        let mut shared = Shared::default();
        shared.measure(100);
        // Nobody knows whether these are blocks of the store.
        assert_eq!((shared.part(100), shared.most_bytes(true)), (0, 100));
        (shared.weighed_bytes, shared.weighed_mapped) = (50, 100);
        shared.measure(180);
        assert_eq!(shared.mapped_grown, 80);
        assert_eq!(shared.part(shared.mapped_bytes), 90);
        assert_eq!(shared.part(shared.mapped_grown), 40);
        assert_eq!(
            (shared.most_bytes(false), shared.most_bytes(true)),
            (130, 180)
        );
        shared.measure(20);
        assert_eq!(shared.mapped_grown, 0);
        assert_eq!((shared.part(20), shared.most_bytes(false)), (10, 20));
    }

    #[test]
    fn a_share_is_no_more_than_what_is_mapped() {
        let shared = Shared {
            mapped_bytes: 100,
            weighed_bytes: 120,
            weighed_mapped: 100,
            ..Shared::default()
        };
        assert_eq!(shared.part(100), 100);
    }
}
