//! Gives idle memory of the engine's process back to the system, in a thread of its own.

use std::io;
use std::sync::mpsc::{sync_channel, SyncSender};
use std::sync::Weak;
use std::thread::{self, JoinHandle};

use exoshuffle_allocator::libraries::Releasing;

use crate::memory::{release_idle, PERIOD};

/// Releases idle memory in a thread of its own, one release at a time.
///
/// A release took up to 93 ms on busy cores. While the thread that watches the workers did it, two of them took a
/// program to 750 of 512 MB.
pub struct Releaser {
    /// Nothing waits in it: a message arrives only while the thread is ready for it.
    sender: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Releaser {
    /// Starts the thread.
    pub fn of(store: &Weak<exoshuffle_store::Store>) -> io::Result<Self> {
        let (sender, receiver) = sync_channel::<()>(0);
        let store = Weak::clone(store);
        let release = move || {
            let mut releasing = Releasing::default();
            while receiver.recv().is_ok() {
                release_idle();
                if let Some(store) = store.upgrade() {
                    store.let_files_go();
                }
                releasing.start();
                thread::sleep(PERIOD);
            }
        };
        let thread = thread::Builder::new()
            .name("exoshuffle-release".into())
            .spawn(release)?;
        Ok(Self {
            sender: Some(sender),
            thread: Some(thread),
        })
    }

    /// Begins a release, unless one runs or has just ended.
    pub fn start(&self) {
        if let Some(sender) = &self.sender {
            let _ = sender.try_send(());
        }
    }
}

impl Drop for Releaser {
    /// Waits for the end of the release.
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
