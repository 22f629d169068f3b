//! One session's terminal: between a browser that comes and goes and a shell in a pod (spec 03).
//!
//! Invariants: what cannot be recorded does not happen (T-17); neither direction ever waits for
//! the other (T-14); nothing here grows with what a browser or a shell sends (T-2); no terminal
//! byte is logged.
//! Not here: why a session ends, and who may attach (`sessions`).

pub mod browser;
pub mod frames;
mod handle;
mod outgoing;
mod queues;
pub mod relay;
mod run;
pub mod scrollback;
pub mod timers;

pub use handle::{Ages, TerminalEvent, TerminalHandle, TerminalParts};

use tracing::Metadata;
use tracing_subscriber::filter::{FilterFn, LevelFilter};

/// Libraries that, below `info`, log what passes through them: frames with what people type,
/// headers with tokens, statements with their parameters.
pub const QUIET_TARGETS: [&str; 12] = [
    "h2",
    "hyper",
    "hyper_util",
    "kube_client",
    "log",
    "reqwest",
    "rustls",
    "tokio_postgres",
    "tokio_tungstenite",
    "tower",
    "tower_http",
    "tungstenite",
];

/// A layer under which no configured filter makes those libraries say more than `info`.
pub fn quiet() -> FilterFn<fn(&Metadata<'_>) -> bool> {
    fn may_log(metadata: &Metadata<'_>) -> bool {
        let krate = metadata.target().split("::").next().unwrap_or_default();
        *metadata.level() <= LevelFilter::INFO || !QUIET_TARGETS.contains(&krate)
    }
    FilterFn::new(may_log)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_that_log_what_passes_are_quiet_below_info() {
        use tracing_subscriber::layer::SubscriberExt;
        let registry = tracing_subscriber::registry().with(quiet());
        tracing::subscriber::with_default(registry, || {
            assert!(!tracing::enabled!(target: "tungstenite::protocol", tracing::Level::TRACE));
            assert!(!tracing::enabled!(target: "tungstenite", tracing::Level::DEBUG));
            assert!(tracing::enabled!(target: "tungstenite", tracing::Level::INFO));
            assert!(tracing::enabled!(target: "breakglass::terminal", tracing::Level::DEBUG));
        });
    }
}
