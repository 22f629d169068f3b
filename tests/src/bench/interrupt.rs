//! Ctrl-C during a flood, with a browser that does not read (T-14): from the key to the shell.
//!
//! Invariant: the flood stands still when the key is typed: every buffer between shell and
//! browser is full. Both moments are on the machine's one clock.

use super::child::Measured;
use super::figure::{Figure, Goal};
use super::run::{Place, say};
use super::sink::{Address, Browser};
use super::source::{INTERRUPTED, OVER_TLS};
use super::{Way, relay};
use crate::StageError;
use breakglass::clock::SystemClock;
use breakglass::ports::{Clock, Elapsed};
use std::path::Path;
use std::time::Duration;

/// Floods that are interrupted, each in a session of its own.
const FLOODS: usize = 20;
/// Until every buffer is full: they hold some MiB, which take far less.
const FILLS: Duration = Duration::from_millis(300);
/// How often is looked whether the shell has the key.
const LOOKS: Duration = Duration::from_millis(2);
/// After this the key is lost.
const WITHIN: Duration = Duration::from_secs(10);
const MOST_MILLIS: f64 = 50.0;

/// The slowest of all, judged.
pub(super) async fn measure(place: &Place) -> Result<Vec<Figure>, StageError> {
    say(&format!("interrupt: {FLOODS} floods"));
    let dir = place.folder()?;
    let cores = place.cores;
    let command = place.relay(Way::Ours, OVER_TLS, "endless", &dir);
    let mut process = Measured::start("the relay", command, cores.relay, cores).await?;
    process.open(FLOODS).await?;
    let socket = Address::Unix(dir.join(relay::SOCKET));
    let came = place.source.join(INTERRUPTED);
    let mut slowest: f64 = 0.0;
    for session in 0..FLOODS {
        let mut browser = Browser::open(&socket, session).await?;
        tokio::time::sleep(FILLS).await;
        let typed = SystemClock.elapsed();
        browser.type_in("\u{3}").await?;
        let took = when(&came).await?.since(typed);
        slowest = slowest.max(took.as_nanos() as f64 / 1e6);
    }
    drop(process);
    let _ = std::fs::remove_dir_all(&dir);
    let name = format!("Ctrl-C in a flood that is not read, slowest of {FLOODS}");
    let figure = Figure::new(name, slowest, "ms");
    Ok(vec![figure.goal(Goal::AtMost(MOST_MILLIS))])
}

/// When the shell had the key, as the source says in a file; the file goes.
async fn when(came: &Path) -> Result<Elapsed, StageError> {
    let reading = async {
        loop {
            let text = std::fs::read_to_string(came).unwrap_or_default();
            if let Some(nanos) = text.strip_suffix('\n').and_then(|nanos| nanos.parse().ok()) {
                return Elapsed::new(Duration::from_nanos(nanos));
            }
            tokio::time::sleep(LOOKS).await;
        }
    };
    let at = tokio::time::timeout(WITHIN, reading).await;
    let at = at.map_err(|_| StageError::new(format!("Ctrl-C did not arrive in {WITHIN:?}")))?;
    std::fs::remove_file(came)
        .map_err(|error| StageError::of("the source's file cannot be deleted", error))?;
    Ok(at)
}
