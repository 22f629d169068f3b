//! What runs in a container: a child on a PTY, or a synthetic shell for benchmarks.
//!
//! What must hold: a shell outlives every attach and ends only by itself or with its pod (C-25);
//! what it writes while nobody is attached is lost; while somebody is attached and does not read,
//! it waits. The newest attach gets the output; an older one stays open and gets none.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, mpsc, watch};

use crate::processes;
use crate::pty::{self, Master, Program};

/// Frames under way to an attach before the shell has to wait.
const OUTPUT_FRAMES: usize = 4;
/// Bytes read from the PTY at once; a frame is at most this and its channel byte.
const READ_MAX: usize = 32 * 1024;
/// Input chunks under way to the shell before the attach has to wait.
const INPUT_CHUNKS: usize = 64;
/// How long the rest of the output may take after the last process is gone.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// A running (or ended) process of a container.
pub(crate) struct Shell {
    mark: String,
    leader: Option<u32>,
    master: Option<Arc<Master>>,
    input: mpsc::Sender<Bytes>,
    output: Arc<Output>,
    exit: watch::Sender<Option<i32>>,
    killed: watch::Sender<bool>,
}

/// Where the output goes: to the newest attach, or nowhere.
struct Output {
    sink: Mutex<Option<mpsc::Sender<Bytes>>>,
    replaced: Notify,
}

impl Output {
    fn current(&self) -> Option<mpsc::Sender<Bytes>> {
        self.sink
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn set(&self, sink: Option<mpsc::Sender<Bytes>>) {
        *self.sink.lock().unwrap_or_else(PoisonError::into_inner) = sink;
        self.replaced.notify_waiters();
    }

    /// Hands a frame to whoever is attached, waiting for a slow reader. False where nobody took
    /// it: the frame is lost, as in a cluster.
    async fn send(&self, frame: Bytes) -> bool {
        let replaced = self.replaced.notified();
        let Some(sink) = self.current() else {
            return false;
        };
        tokio::select! {
            sent = sink.send(frame) => {
                if sent.is_err() {
                    self.forget(&sink);
                }
                sent.is_ok()
            }
            () = replaced => false,
        }
    }

    fn forget(&self, gone: &mpsc::Sender<Bytes>) {
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        if sink.as_ref().is_some_and(|one| one.same_channel(gone)) {
            *sink = None;
        }
    }

    /// Waits until somebody is attached.
    async fn attached(&self) {
        loop {
            let replaced = self.replaced.notified();
            if self.current().is_some() {
                return;
            }
            replaced.await;
        }
    }
}

/// One attach's share of a shell.
pub(crate) struct Attached {
    /// Frames, with the channel byte in front, ready to be sent.
    pub(crate) output: mpsc::Receiver<Bytes>,
    pub(crate) input: mpsc::Sender<Bytes>,
    pub(crate) exit: watch::Receiver<Option<i32>>,
}

impl Shell {
    /// Starts a container's program. Must be called within a tokio runtime.
    pub(crate) fn start(program: Program) -> std::io::Result<Arc<Self>> {
        let (input, keys) = mpsc::channel(INPUT_CHUNKS);
        let output = Arc::new(Output {
            sink: Mutex::new(None),
            replaced: Notify::new(),
        });
        let mut shell = Self {
            mark: program.mark.clone(),
            leader: None,
            master: None,
            input,
            output: output.clone(),
            exit: watch::Sender::new(None),
            killed: watch::Sender::new(false),
        };
        if let Some(synthetic) = Synthetic::parse(&program.command) {
            let shell = Arc::new(shell);
            let (exit, killed) = (shell.exit.clone(), shell.killed.subscribe());
            tokio::spawn(synthetic.run(output, keys, exit, killed));
            return Ok(shell);
        }
        let (master, child) = pty::spawn(&program)?;
        let master = Arc::new(master);
        shell.leader = child.id();
        shell.master = Some(master.clone());
        let shell = Arc::new(shell);
        let running = Running {
            master,
            child,
            mark: program.mark,
            output,
            keys,
        };
        tokio::spawn(running.run(shell.exit.clone(), shell.killed.subscribe()));
        Ok(shell)
    }

    /// Attaches: from here on the output comes here.
    pub(crate) fn attach(&self) -> Attached {
        let (sink, output) = mpsc::channel(OUTPUT_FRAMES);
        if self.exit.borrow().is_none() {
            self.output.set(Some(sink));
        }
        Attached {
            output,
            input: self.input.clone(),
            exit: self.exit.subscribe(),
        }
    }

    pub(crate) fn resize(&self, cols: u16, rows: u16) {
        if let Some(master) = &self.master {
            master.resize(cols, rows);
        }
    }

    /// Kills every process of the container.
    pub(crate) fn kill(&self) {
        self.killed.send_replace(true);
        if self.leader.is_some() && self.exit.borrow().is_none() {
            processes::kill_container(self.leader, &self.mark);
        }
    }

    /// Waits for the end; the exit code.
    pub(crate) async fn ended(&self) -> i32 {
        let mut exit = self.exit.subscribe();
        let code = exit
            .wait_for(Option::is_some)
            .await
            .ok()
            .and_then(|code| *code);
        code.unwrap_or(137)
    }

    /// The processes alive in this container.
    pub(crate) fn processes(&self) -> Vec<u32> {
        match self.leader {
            Some(leader) => processes::of_container(Some(leader), &self.mark),
            None => Vec::new(),
        }
    }
}

/// A child on a PTY with the tasks that serve it.
struct Running {
    master: Arc<Master>,
    child: tokio::process::Child,
    mark: String,
    output: Arc<Output>,
    keys: mpsc::Receiver<Bytes>,
}

impl Running {
    async fn run(mut self, exit: watch::Sender<Option<i32>>, mut killed: watch::Receiver<bool>) {
        let leader = self.child.id();
        let writer = tokio::spawn(write_keys(self.master.clone(), self.keys));
        let mut pump = tokio::spawn(pump(self.master, self.output.clone()));
        let status = tokio::select! {
            status = self.child.wait() => status,
            () = until_killed(&mut killed) => {
                processes::kill_container(leader, &self.mark);
                self.child.wait().await
            }
        };
        // A container ends with its first process: what it left behind dies too.
        processes::kill_container(leader, &self.mark);
        if tokio::time::timeout(DRAIN_MAX, &mut pump).await.is_err() {
            pump.abort();
        }
        writer.abort();
        exit.send_replace(Some(status.map_or(137, exit_code)));
        self.output.set(None);
    }
}

async fn until_killed(killed: &mut watch::Receiver<bool>) {
    // An error means that nobody is left who could kill it: that ends it as well.
    let _ = killed.wait_for(|killed| *killed).await;
}

fn exit_code(status: std::process::ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status
        .code()
        .unwrap_or_else(|| 128 + status.signal().unwrap_or(9))
}

async fn write_keys(master: Arc<Master>, mut keys: mpsc::Receiver<Bytes>) {
    while let Some(bytes) = keys.recv().await {
        if master.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

async fn pump(master: Arc<Master>, output: Arc<Output>) {
    let mut buffer = vec![0; READ_MAX + 1];
    buffer[0] = crate::stream::STDOUT;
    loop {
        match master.read(&mut buffer[1..]).await {
            Ok(0) | Err(_) => return,
            Ok(length) => {
                output
                    .send(Bytes::copy_from_slice(&buffer[..=length]))
                    .await;
            }
        }
    }
}

/// A shell without a process, for measuring a relay and not the machine's PTYs.
///
/// `["standin-flood", "<bytes>", "<frame>"]` writes that many bytes (0: without end) in frames of
/// that size while somebody is attached; Ctrl-C (0x03) stops it and is answered by `^C\r\n`.
/// `["standin-echo"]` writes back each key. Ctrl-D (0x04) ends either with exit code 0.
enum Synthetic {
    Flood { bytes: u64, frame: usize },
    Echo,
}

impl Synthetic {
    fn parse(command: &[String]) -> Option<Self> {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["standin-flood", bytes, frame] => {
                let frame = frame.parse().unwrap_or(4096_usize).clamp(1, 1024 * 1024);
                Some(Self::Flood {
                    bytes: bytes.parse().unwrap_or(0),
                    frame,
                })
            }
            ["standin-echo"] => Some(Self::Echo),
            _ => None,
        }
    }

    async fn run(
        self,
        output: Arc<Output>,
        mut keys: mpsc::Receiver<Bytes>,
        exit: watch::Sender<Option<i32>>,
        mut killed: watch::Receiver<bool>,
    ) {
        let work = async {
            match self {
                Self::Flood { bytes, frame } => {
                    if flood(&output, &mut keys, bytes, frame).await == Ended::No {
                        while !keys.recv().await.is_none_or(|keys| keys.contains(&4)) {}
                    }
                }
                Self::Echo => echo(&output, &mut keys).await,
            }
        };
        let code = tokio::select! {
            () = work => 0,
            () = until_killed(&mut killed) => 137,
        };
        exit.send_replace(Some(code));
        output.set(None);
    }
}

#[derive(PartialEq)]
enum Ended {
    Yes,
    No,
}

async fn flood(
    output: &Output,
    keys: &mut mpsc::Receiver<Bytes>,
    bytes: u64,
    frame: usize,
) -> Ended {
    output.attached().await;
    let text: Vec<u8> = std::iter::once(crate::stream::STDOUT)
        .chain((b' '..=b'~').cycle().take(frame))
        .collect();
    let full = Bytes::from(text);
    let mut left = if bytes == 0 { u64::MAX } else { bytes };
    while left > 0 {
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(frame);
        tokio::select! {
            biased;
            pressed = keys.recv() => match pressed {
                Some(pressed) if pressed.contains(&3) => {
                    output.send(Bytes::from_static(b"\x01^C\r\n")).await;
                    return Ended::No;
                }
                Some(pressed) if pressed.contains(&4) => return Ended::Yes,
                Some(_) => {}
                None => return Ended::Yes,
            },
            sent = output.send(full.slice(..=length)) => match sent {
                true => left -= length as u64,
                // Nobody there: it waits for the next attach and does not spin.
                false => output.attached().await,
            },
        }
    }
    Ended::No
}

async fn echo(output: &Output, keys: &mut mpsc::Receiver<Bytes>) {
    while let Some(pressed) = keys.recv().await {
        if pressed.contains(&4) {
            return;
        }
        let mut frame = Vec::with_capacity(pressed.len() + 1);
        frame.push(crate::stream::STDOUT);
        frame.extend_from_slice(&pressed);
        output.send(frame.into()).await;
    }
}
