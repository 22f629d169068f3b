//! What an idle session costs: the growth of private memory over a thousand of them.
//!
//! An idle session here has all that one has in service: a shell over TLS, an open recording, a
//! browser that is attached, and the prompt that was relayed to it.

use super::child::Measured;
use super::figure::{Figure, Goal};
use super::machine::private_bytes;
use super::run::{Place, say};
use super::sink::{Address, Browser};
use super::source::OVER_TLS;
use super::{Way, relay};
use crate::StageError;
use std::time::Duration;

/// Sessions before it counts: pools, code and caches are there.
const WARM_UP: usize = 32;
/// How long the processes settle before memory is read.
const SETTLE: Duration = Duration::from_secs(2);
const MOST: f64 = 40.0;

/// Ours, judged, and kube's loop beside it.
pub(super) async fn measure(place: &Place, sessions: usize) -> Result<Vec<Figure>, StageError> {
    let mut figures = Vec::new();
    for way in [Way::Ours, Way::Kube] {
        say(&format!("memory: {sessions} idle sessions, {}", way.name()));
        let kilobytes = one(place, way, sessions).await?;
        let name = format!("an idle recorded session over TLS, {}", way.name());
        let figure = Figure::new(name, kilobytes, "kB");
        figures.push(if way == Way::Ours {
            figure.goal(Goal::AtMost(MOST))
        } else {
            figure
        });
    }
    Ok(figures)
}

async fn one(place: &Place, way: Way, sessions: usize) -> Result<f64, StageError> {
    let dir = place.folder()?;
    let cores = place.cores;
    let command = place.relay(way, OVER_TLS, "idle", &dir);
    let mut process = Measured::start(way.name(), command, cores.relay, cores).await?;
    let socket = Address::Unix(dir.join(relay::SOCKET));
    let mut browsers = Vec::new();
    let mut before = 0;
    for (more, counts) in [(WARM_UP, false), (sessions, true)] {
        if counts {
            before = private_bytes(process.pid()?)?;
        }
        process.open(more).await?;
        for session in browsers.len()..browsers.len() + more {
            let mut browser = Browser::open(&socket, session).await?;
            browser.output().await?;
            browsers.push(browser);
        }
        tokio::time::sleep(SETTLE).await;
    }
    let after = private_bytes(process.pid()?)?;
    drop(process);
    let _ = std::fs::remove_dir_all(&dir);
    Ok(after.saturating_sub(before) as f64 / sessions as f64 / 1000.0)
}
