//! How the sidecar logs (O-5): one line a step, and never what passes through it.

use crate::config::{LogConfig, LogFormat};
use crate::terminal::quiet;
use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;

/// What logs as configured. Targets that would log what passes through them stay silent whatever
/// the filter says.
///
/// # Errors
/// The filter cannot be read.
pub fn subscriber<W>(
    config: &LogConfig,
    writer: W,
) -> Result<Box<dyn Subscriber + Send + Sync>, ParseError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let filter = EnvFilter::try_new(&config.filter)?;
    let registry = tracing_subscriber::registry().with(quiet()).with(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(writer);
    Ok(match config.format {
        LogFormat::Json => Box::new(registry.with(lines.json().flatten_event(true))),
        LogFormat::Text => Box::new(registry.with(lines.with_ansi(false))),
    })
}
