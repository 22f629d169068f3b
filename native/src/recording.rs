//! A session's recording: encoder, spool, and the object that a shell cannot be opened without.
//!
//! Invariants: an event is in the local spool before it counts as recorded; a spool that
//! cannot be written ends the session; nothing local is deleted before the store has
//! confirmed the same bytes. The file's format is `docs/recording-format.md`.
//! Not here: where recordings are kept (port `Recordings`), and what a session's row says.

pub mod cast;
mod events;
pub mod live;
mod recorder;
pub mod schedule;
pub mod spool;
mod verified;

pub use cast::{CastEncoder, Header};
pub use events::{Event, read_event, read_header};
pub use live::LiveRecording;
pub use recorder::{Gate, Recorder, Resumed, Settled};
pub use spool::SpoolError;
