//! A person's terminal: a PTY on which a program runs as if somebody had started it there.
//!
//! Invariant: the program leads a session of its own with the PTY as its controlling terminal, so
//! that a change of size and Ctrl-C reach it as they reach anybody's.

use crate::StageError;
use crate::processes::until;
use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::process::{Child, Command};

/// How long anything may take to appear.
const WITHIN: Duration = Duration::from_secs(60);

/// A terminal, and everything that was shown on it.
pub struct Pty {
    keys: std::fs::File,
    terminal: OwnedFd,
    shown: Arc<Mutex<Vec<u8>>>,
}

fn failed(error: impl Into<std::io::Error>) -> StageError {
    StageError::of("the terminal", error.into())
}

impl Pty {
    /// A new one of this size.
    pub fn open(cols: u16, rows: u16) -> Result<Self, StageError> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).map_err(failed)?;
        rustix::io::fcntl_setfd(&master, rustix::io::FdFlags::CLOEXEC).map_err(failed)?;
        grantpt(&master).map_err(failed)?;
        unlockpt(&master).map_err(failed)?;
        let name = ptsname(&master, Vec::new()).map_err(failed)?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let terminal = rustix::fs::open(name.as_c_str(), flags, Mode::empty()).map_err(failed)?;
        let keys = std::fs::File::from(master);
        let mut screen = keys.try_clone().map_err(failed)?;
        let shown = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&shown);
        // It ends with the terminal: reading fails once nobody holds the other side.
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(read @ 1..) = screen.read(&mut buffer) {
                let mut shown = into.lock().unwrap_or_else(PoisonError::into_inner);
                shown.extend_from_slice(&buffer[..read]);
            }
        });
        let this = Self {
            keys,
            terminal,
            shown,
        };
        this.resize(cols, rows)?;
        Ok(this)
    }

    /// Runs a program on it.
    pub fn run(&self, command: &Command) -> Result<Child, StageError> {
        let side = || self.terminal.try_clone().map(Stdio::from).map_err(failed);
        let command = command.as_std();
        // A controlling terminal is taken between fork and exec; this program does just that.
        let mut leader = Command::new("setsid");
        leader.arg("--ctty").arg(command.get_program());
        leader.args(command.get_args());
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                leader.env(name, value);
            }
        }
        leader.stdin(side()?).stdout(side()?).stderr(side()?);
        leader.kill_on_drop(true).spawn().map_err(failed)
    }

    /// Presses keys.
    pub fn type_in(&self, text: &str) -> Result<(), StageError> {
        (&self.keys).write_all(text.as_bytes()).map_err(failed)
    }

    /// Changes its size; who has it is told (SIGWINCH).
    pub fn resize(&self, cols: u16, rows: u16) -> Result<(), StageError> {
        let size = Winsize {
            ws_row: rows,
            ws_col: cols,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&self.terminal, size).map_err(failed)
    }

    /// Its settings.
    pub fn settings(&self) -> Result<Termios, StageError> {
        tcgetattr(&self.terminal).map_err(failed)
    }

    /// Waits until it has shown this text since it was last forgotten.
    pub async fn shows(&self, text: &str) -> Result<(), StageError> {
        let seen = || async { self.shown().contains(text).then_some(()) };
        until(&format!("`{text}` on the terminal"), WITHIN, seen)
            .await
            .map_err(|error| StageError::of(format!("shown: {:?}", self.shown()), error))
    }

    /// Types a line and waits for what it brings.
    pub async fn ask(&self, line: &str, expected: &str) -> Result<(), StageError> {
        self.forget();
        self.type_in(&format!("{line}\r"))?;
        self.shows(expected).await
    }

    /// Forgets what was shown so far.
    pub fn forget(&self) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        shown.clear();
    }

    /// What was shown since.
    pub fn shown(&self) -> String {
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&shown).into_owned()
    }
}
