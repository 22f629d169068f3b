//! The debug container's own deadline (C-25): the real command, in a real shell on a real PTY, with
//! nobody left to end it.

use super::world::{NAME, NAMESPACE, StandinWorld, world};
use breakglass::fakes::cluster_contract::World;
use breakglass::ports::cluster::{PodRef, Shell, ShellEvent, ShellInput};
use bytes::Bytes;
use decisions::debug_container::{DebugSpec, DebugUser, debug_container};
use decisions::names::debug_container_name;
use decisions::pod::PodFacts;
use standin::DEBUG_IMAGE;
use std::future::poll_fn;
use std::time::Duration;
use tokio::time::Instant;

const SOON: Duration = Duration::from_secs(60);
/// The shell was killed, and its container says so.
const KILLED: i64 = 137;

/// Adds a debug container with this deadline, its command behind `before`.
async fn launched(world: &StandinWorld, seconds: u32, before: &[&str]) -> (PodRef, String) {
    let id = world.grant().await;
    let pod = world.pod().await;
    let pods = world.standin.pods(NAMESPACE);
    let read = pods
        .iter()
        .find(|found| found["metadata"]["uid"].as_str() == pod.uid.as_deref());
    let facts = PodFacts::read(read.expect("the pod")).expect("a pod");
    let container = debug_container(&DebugSpec {
        id: &id,
        image: DEBUG_IMAGE,
        pod: &facts,
        container: "app",
        process_access: false,
        mounts: &[],
        deadline_seconds: seconds,
        user: DebugUser::default(),
    });
    let container = container.expect("a debug container");
    let mut container = serde_json::to_value(&container).expect("JSON");
    let own = container["command"].as_array().cloned().expect("a command");
    container["command"] = before
        .iter()
        .map(|word| (*word).into())
        .chain(own)
        .collect();
    let added = world.on(NAME).add_debug_container(&pod, &container).await;
    added.expect("the container is added");
    (pod, debug_container_name(&id))
}

/// The exit code, once the container is over; then nothing of it runs.
async fn ended(world: &StandinWorld, pod: &PodRef, name: &str) -> i64 {
    let code = || {
        let pods = world.standin.pods(NAMESPACE);
        let found = pods
            .iter()
            .find(|found| found["metadata"]["uid"].as_str() == pod.uid.as_deref())?;
        let statuses = found["status"]["ephemeralContainerStatuses"].as_array()?;
        let own = statuses.iter().find(|status| status["name"] == name)?;
        own["state"]["terminated"]["exitCode"].as_i64()
    };
    let waiting = async {
        loop {
            match code() {
                Some(code) => return code,
                None => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let code = tokio::time::timeout(SOON, waiting).await;
    let code = code.expect("the container ends by itself");
    assert!(world.standin.processes().is_empty(), "nothing runs on");
    code
}

async fn type_in(shell: &mut dyn Shell, text: &'static str) {
    poll_fn(|cx| shell.poll_ready(cx)).await.expect("room");
    let input = ShellInput::Stdin(Bytes::from_static(text.as_bytes()));
    shell.start_send(input).expect("the input is taken");
    poll_fn(|cx| shell.poll_flush(cx)).await.expect("sent");
}

async fn until_output(shell: &mut dyn Shell, text: &str) {
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains(text) {
        let event = poll_fn(|cx| shell.poll_event(cx)).await;
        match event.transpose().expect("no break") {
            Some(ShellEvent::Output(bytes)) => seen.extend_from_slice(&bytes),
            Some(ShellEvent::Pong | ShellEvent::Status(_)) => {}
            None => panic!("over before `{text}`: {}", String::from_utf8_lossy(&seen)),
        }
    }
}

#[tokio::test]
async fn c_25_a_shell_that_nobody_came_to_ends_at_its_own_deadline() {
    let world = world().await;
    let began = Instant::now();
    let (pod, name) = launched(&world, 1, &[]).await;
    assert_eq!(ended(&world, &pod, &name).await, KILLED);
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(1), "not before: {took:?}");
}

#[tokio::test]
async fn c_25_a_shell_that_ignores_every_signal_ends_at_its_own_deadline() {
    let world = world().await;
    let began = Instant::now();
    let (pod, name) = launched(&world, 8, &[]).await;
    let cluster = world.on(NAME);
    let running = cluster.await_running(&pod, &name, SOON).await;
    running.expect("it runs");
    let mut shell = cluster.attach(&pod, &name).await.expect("attached");
    // The first line releases the launcher.
    type_in(&mut *shell, "\n").await;
    type_in(&mut *shell, "trap '' HUP INT TERM; sleep 9999 &\n").await;
    type_in(&mut *shell, "echo up-$((40 + 2)); while :; do :; done\n").await;
    until_output(&mut *shell, "up-42").await;
    // The sidecar, its stream and its grant may all be gone.
    drop(shell);
    assert_eq!(ended(&world, &pod, &name).await, KILLED);
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(8), "not before: {took:?}");
}

#[tokio::test]
async fn c_25_an_image_without_sleep_has_no_session_instead_of_one_without_a_deadline() {
    let world = world().await;
    let (pod, name) = launched(&world, 3600, &["/usr/bin/env", "PATH=/nowhere"]).await;
    assert_eq!(ended(&world, &pod, &name).await, KILLED);
}
