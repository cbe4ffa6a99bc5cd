//! The targets: each hands its bytes on as a file or a spilled block goes, with a bound on memory.
//!
//! A target ends the process, which is a finding, if our own code panics or holds more memory than what it read was planned
//! for. Panics of parsers that are not ours become errors (`crates/io/src/guard.rs`), and are none.

mod files;
mod memory;
mod spills;

pub use files::read_file;
pub use spills::restore;

/// Ends the process when code of this project panics, whatever catches the panic.
fn watch_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            let is_ours = |place: &std::panic::Location<'_>| {
                let file = place.file();
                !file.contains("/registry/") && !file.starts_with("/rustc/")
            };
            if panic.location().is_none_or(is_ours) {
                eprintln!("{panic}\n{}", std::backtrace::Backtrace::force_capture());
                std::process::abort();
            }
        }));
    });
}
