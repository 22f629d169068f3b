//! Relay and record: MiB of output per CPU second of whoever relays.

use super::child::Measured;
use super::figure::{Figure, Goal};
use super::run::{Place, say};
use super::sink::{Address, Browser};
use super::source::{OVER_TLS, PLAIN};
use super::{Way, relay, verify};
use crate::StageError;
use breakglass::clock::SystemClock;
use breakglass::ports::Clock;
use std::time::Duration;

const MIB: f64 = 1024.0 * 1024.0;
/// Payload bytes of a frame, and what is asked of us there.
const FRAMES: [(usize, f64); 2] = [(4096, 300.0), (128, 250.0)];
/// How much better than Node.
const TIMES_NODE: f64 = 5.0;
/// Of small frames Node relays this part: a run of all would take half a minute. It is still
/// long beside the time in which its code gets warm.
const NODES_PART: usize = 4;
const SMALL: usize = 1024;
/// After this no further run of a frame size is begun: a busy machine gets figures from fewer.
const ENOUGH: Duration = Duration::from_secs(70);

/// How much is relayed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Amount {
    pub(super) mib: usize,
    pub(super) runs: usize,
}

/// The ways in turn, so that what disturbs the machine disturbs each of them.
pub(super) async fn measure(place: &Place, amount: Amount) -> Result<Vec<Figure>, StageError> {
    let mut figures = Vec::new();
    for (frame, least) in FRAMES {
        let mut rates = Way::ALL.map(|way| (way, false, Vec::new())).to_vec();
        rates.push((Way::Ours, true, Vec::new()));
        let start = SystemClock.elapsed();
        for run in 1..=amount.runs {
            if run > 1 && SystemClock.elapsed().since(start) > ENOUGH {
                say("throughput: this machine is slow, no further run");
                break;
            }
            for (way, tls, rates) in &mut rates {
                let over = if *tls { ", over TLS" } else { "" };
                let mib = if *way == Way::Node && frame < SMALL {
                    amount.mib.div_ceil(NODES_PART)
                } else {
                    amount.mib
                };
                say(&format!(
                    "throughput: {}{over}, {frame} B frames, {mib} MiB, run {run} of {}",
                    way.name(),
                    amount.runs
                ));
                let kubeconfig = if *tls { OVER_TLS } else { PLAIN };
                rates.push(one(place, *way, kubeconfig, frame, mib).await?);
            }
        }
        let rated = |(way, tls, rates): &(Way, bool, Vec<f64>)| {
            let over = if *tls { ", over TLS" } else { "" };
            let name = format!("relay + record, {frame} B frames, {}{over}", way.name());
            Figure::median(name, rates, "MiB/CPU-s")
        };
        let mut rated: Vec<Figure> = rates.iter().map(rated).collect();
        let times = rated[0].value() / rated[2].value();
        rated[0] = rated[0].clone().goal(Goal::AtLeast(least));
        let name = format!("relay + record, {frame} B frames, ours against Node");
        rated.push(Figure::new(name, times, "times").goal(Goal::AtLeast(TIMES_NODE)));
        figures.extend(rated);
    }
    Ok(figures)
}

async fn one(
    place: &Place,
    way: Way,
    kubeconfig: &str,
    frame: usize,
    mib: usize,
) -> Result<f64, StageError> {
    let bytes = mib << 20;
    let dir = place.folder()?;
    let pod = format!("flood-{frame}-{bytes}");
    let command = place.relay(way, kubeconfig, &pod, &dir);
    let cores = place.cores;
    let mut process = Measured::start(way.name(), command, cores.relay, cores).await?;
    process.open(1).await?;
    let socket = Address::Unix(dir.join(relay::SOCKET));
    let mut browser = Browser::open(&socket, 0).await?;
    browser.type_in("\n").await?;
    browser.drain(bytes).await?;
    let done = process.stop().await?;
    verify::recorded(&done, bytes)?;
    drop(process);
    let _ = std::fs::remove_dir_all(&dir);
    Ok(bytes as f64 / MIB / done.cpu_seconds)
}
