//! From a keystroke to its echo: what the relay adds to a direct attach, and Node to that; and
//! what a process adds that only copies bytes, which no relay can do without.
//!
//! Invariant: the four are typed at in turn, one keystroke each, so that they see the same
//! machine; what is said is the difference of their percentiles.

use super::child::Measured;
use super::figure::{Figure, Goal, percentile};
use super::run::{Place, say};
use super::sink::{Address, Browser};
use super::source::OVER_TLS;
use super::{Way, copier, relay};
use crate::StageError;
use breakglass::clock::SystemClock;
use breakglass::ports::Clock;
use breakglass::ports::cluster::{Shell, ShellEvent, ShellInput};
use bytes::Bytes;
use std::future::poll_fn;
use std::task::ready;
use std::time::Duration;

/// Between two keystrokes: faster than anybody types, slow enough that nothing piles up.
const PACE: Duration = Duration::from_millis(2);
/// Keystrokes before it counts.
const WARM_UP: usize = 200;
const LETTERS: &[u8; 26] = b"abcdefghijklmnopqrstuvwxyz";

/// After this nothing more is typed: a busy machine gets figures from fewer keystrokes.
const ENOUGH: Duration = Duration::from_secs(70);

/// Types so many keystrokes at each.
pub(super) async fn measure(place: &Place, keys: usize) -> Result<Vec<Figure>, StageError> {
    let dir = place.folder()?;
    let cores = place.cores;
    let command = place.relay(Way::Ours, OVER_TLS, "echo", &dir);
    let mut process = Measured::start("the relay", command, cores.relay, cores).await?;
    process.open(2).await?;
    let socket = dir.join(relay::SOCKET);
    let piped = place.node("node-pipe.mjs", [socket.as_os_str()]);
    let pipe = Measured::start("node-pipe.mjs", piped, cores.relay, cores).await?;
    let port = pipe.ready["port"]
        .as_u64()
        .and_then(|port| u16::try_from(port).ok());
    let port = port.ok_or_else(|| StageError::new("node-pipe.mjs has no port"))?;

    let cluster = relay::cluster(&place.source.join(OVER_TLS)).await?;
    let mut direct = relay::attach(&cluster, "echo").await?;
    output(direct.as_mut()).await?; // the prompt
    let (_copier, through) = copier::start(place, &dir).await?;
    let mut copied = relay::attach(&relay::cluster(&through).await?, "echo").await?;
    output(copied.as_mut()).await?;
    let mut relayed = Browser::open(&Address::Unix(socket), 0).await?;
    relayed.settle().await?;
    let mut through_node = Browser::open(&Address::Tcp(port), 1).await?;
    through_node.settle().await?;

    let mut micros: [Vec<f64>; 4] = Default::default();
    let begun = SystemClock.elapsed();
    for key in 0..WARM_UP + keys {
        if SystemClock.elapsed().since(begun) > ENOUGH {
            say("latency: this machine is slow, no further keystrokes");
            break;
        }
        if key % 1000 == WARM_UP {
            say(&format!("latency: {} of {keys} keystrokes", key - WARM_UP));
        }
        // Neighbours differ, so that a late echo is not taken for the next one.
        let letter = LETTERS[key % LETTERS.len()];
        let typed = char::from(letter).to_string();
        let start = SystemClock.elapsed();
        type_directly(direct.as_mut(), letter).await?;
        let direct_at = SystemClock.elapsed();
        tokio::time::sleep(PACE).await;
        let start_copied = SystemClock.elapsed();
        type_directly(copied.as_mut(), letter).await?;
        let copied_at = SystemClock.elapsed();
        tokio::time::sleep(PACE).await;
        let start_relayed = SystemClock.elapsed();
        relayed.type_in(&typed).await?;
        relayed.echo(letter).await?;
        let relayed_at = SystemClock.elapsed();
        tokio::time::sleep(PACE).await;
        let start_node = SystemClock.elapsed();
        through_node.type_in(&typed).await?;
        through_node.echo(letter).await?;
        let node_at = SystemClock.elapsed();
        tokio::time::sleep(PACE).await;
        if key >= WARM_UP {
            let took = [
                (direct_at, start),
                (copied_at, start_copied),
                (relayed_at, start_relayed),
                (node_at, start_node),
            ];
            for (micros, (end, start)) in micros.iter_mut().zip(took) {
                micros.push(end.since(start).as_nanos() as f64 / 1000.0);
            }
        }
    }
    let _ = std::fs::remove_dir_all(&dir);
    Ok(figures(&micros))
}

fn figures([direct, copied, relayed, through_node]: &[Vec<f64>; 4]) -> Vec<Figure> {
    let mut figures = vec![Figure::new(
        "keystrokes counted",
        direct.len() as f64,
        "of each",
    )];
    for (percent, most) in [(50, 100.0), (99, 1000.0)] {
        let at = |micros: &[f64]| percentile(micros, percent);
        let figure =
            |name: &str, value| Figure::new(format!("keystroke, p{percent}, {name}"), value, "µs");
        figures.extend([
            figure("direct attach", at(direct)),
            figure("added by a bare copier", at(copied) - at(direct)),
            figure("added by the relay", at(relayed) - at(direct)).goal(Goal::AtMost(most)),
            figure("added by relay and Node", at(through_node) - at(direct)),
        ]);
    }
    figures
}

async fn type_directly(shell: &mut dyn Shell, letter: u8) -> Result<(), StageError> {
    let mut key = Some(ShellInput::Stdin(vec![letter].into()));
    poll_fn(|cx| {
        if key.is_some() {
            ready!(shell.poll_ready(cx))?;
            if let Some(key) = key.take() {
                shell.start_send(key)?;
            }
        }
        shell.poll_flush(cx)
    })
    .await
    .map_err(|error| StageError::of("the direct attach", error))?;
    while !output(shell).await?.ends_with(&[letter]) {}
    Ok(())
}

async fn output(shell: &mut dyn Shell) -> Result<Bytes, StageError> {
    loop {
        match poll_fn(|cx| shell.poll_event(cx)).await {
            Some(Ok(ShellEvent::Output(bytes))) => return Ok(bytes),
            Some(Ok(ShellEvent::Pong)) => {}
            Some(Ok(ShellEvent::Status(_)) | Err(_)) | None => {
                return Err(StageError::new("the direct attach ended"));
            }
        }
    }
}
