//! `breakglass session attach` as a person has it: on a terminal of their own.

use crate::stage;
use breakglass_tests::cli::Person;
use breakglass_tests::pty::Pty;
use breakglass_tests::scenario::nothing_is_left;
use breakglass_tests::{StageError, smoke};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{LocalModes, SpecialCodeIndex};
use std::fmt::Debug;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Child;
use tokio::sync::watch;

/// A way to Backstage that can be cut.
struct Way {
    url: String,
    cut: watch::Sender<()>,
}

impl Way {
    async fn to(backstage: &str) -> Self {
        let address = backstage.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("its address"));
        let cut = watch::Sender::new(());
        let cuts = cut.clone();
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let (address, mut cut) = (address.clone(), cuts.subscribe());
                tokio::spawn(async move {
                    let Ok(mut far) = TcpStream::connect(address).await else {
                        return;
                    };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Self { url, cut }
    }

    /// Every connection breaks; new ones are taken.
    fn cut(&self) {
        let _ = self.cut.send(());
    }
}

/// Everything that raw mode changes.
fn modes(pty: &Pty) -> impl PartialEq + Debug + use<> {
    let is = pty.settings().expect("a terminal");
    let codes = [SpecialCodeIndex::VMIN, SpecialCodeIndex::VTIME];
    (
        (is.input_modes, is.output_modes),
        (is.control_modes, is.local_modes),
        codes.map(|code| is.special_codes[code]),
    )
}

fn is_raw(pty: &Pty) -> bool {
    let is = pty.settings().expect("a terminal").local_modes;
    !is.intersects(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
}

async fn exit_code(mut child: Child) -> Option<i32> {
    let left = tokio::time::timeout(Duration::from_secs(60), child.wait()).await;
    left.expect("it ends").expect("it ran").code()
}

fn attach(pty: &Pty, person: &Person, id: &str) -> Result<Child, StageError> {
    pty.forget();
    pty.run(&person.command(&["session", "attach", id])?)
}

/// Ctrl-C is a key like any other: it stops what runs in the shell, and not this program.
async fn ctrl_c_is_the_shells(pty: &Pty) -> Result<(), StageError> {
    pty.ask("echo go-$((1 + 1)); sleep 98765", "go-2").await?;
    pty.forget();
    pty.type_in("\u{3}")?;
    pty.shows("$ ").await?;
    pty.ask("echo code-$?", "code-130").await
}

/// The person makes the window larger. The size and the keys are not in one order: asked again
/// until it has arrived.
async fn a_size_arrives(pty: &Pty) -> Result<(), StageError> {
    pty.resize(132, 43)?;
    for _ in 0..20 {
        pty.ask("stty size; echo asked-$((3 + 4))", "asked-7")
            .await?;
        if pty.shown().contains("43 132") {
            return Ok(());
        }
    }
    Err(StageError::new(format!("no new size: {}", pty.shown())))
}

/// The connection breaks, comes back by itself, and the screen with it.
async fn a_cut_is_mended(pty: &Pty, way: &Way) -> Result<(), StageError> {
    pty.ask("echo before-$((4 + 4))", "before-8").await?;
    pty.forget();
    way.cut();
    pty.shows("the connection broke; connecting again").await?;
    pty.shows("before-8").await?;
    assert!(is_raw(pty), "also between two connections");
    pty.ask("echo behind-$((4 + 5))", "behind-9").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_at_a_terminal() -> Result<(), StageError> {
    let stage = stage().await;
    let way = Way::to(stage.backstage.url()).await;
    let mut alice = stage.person("alice").await?;
    let opened = smoke::open(&stage, &alice).await?;
    let id = opened.id();
    alice.url = way.url.clone();
    let pty = Pty::open(80, 24)?;
    let before = modes(&pty);
    assert!(!is_raw(&pty));

    // Refusals leave the terminal as it is, and each has its exit code.
    let bob = stage.person("bob").await?;
    let nobody = Person {
        token: "garbage".to_owned(),
        ..alice.clone()
    };
    let nowhere = Person {
        url: "http://127.0.0.1:1".to_owned(),
        ..alice.clone()
    };
    for (person, id, code) in [
        (&nobody, id, 3),
        (&bob, id, 4),
        (&alice, "000000000000", 5),
        (&nowhere, id, 7),
    ] {
        let left = exit_code(attach(&pty, person, id)?).await;
        assert_eq!(left, Some(code), "{}", pty.shown());
        assert_eq!(modes(&pty), before);
    }

    // Left with `~.`: the session goes on.
    let child = attach(&pty, &alice, id)?;
    pty.shows("is recorded and kept for").await?;
    pty.ask("stty size", "24 80").await?;
    assert!(is_raw(&pty));
    ctrl_c_is_the_shells(&pty).await?;
    pty.type_in("\r~.")?;
    pty.shows("detached: you left the terminal").await?;
    assert_eq!(exit_code(child).await, Some(0));
    assert_eq!(modes(&pty), before);

    // Told to stop from outside: the person's terminal is theirs again.
    let child = attach(&pty, &alice, id)?;
    pty.shows("code-130").await?;
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    let pid = pid.and_then(Pid::from_raw).expect("it runs");
    kill_process(pid, Signal::TERM).expect("told");
    assert_eq!(exit_code(child).await, Some(1), "{}", pty.shown());
    assert_eq!(modes(&pty), before);

    // The shell's own exit code is the shell's: that the session ended is what was asked for.
    let child = attach(&pty, &alice, id)?;
    pty.shows("code-130").await?;
    a_size_arrives(&pty).await?;
    a_cut_is_mended(&pty, &way).await?;
    pty.type_in("exit 7\r")?;
    pty.shows("ended: shell exited").await?;
    assert_eq!(exit_code(child).await, Some(0));
    assert_eq!(modes(&pty), before);

    smoke::ended(&alice, id).await?;
    assert_eq!(exit_code(attach(&pty, &alice, id)?).await, Some(5));
    nothing_is_left(&stage, &opened).await
}
