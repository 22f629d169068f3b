//! A child process on a pseudo-terminal of its own.
//!
//! What must hold: the child leads a session of its own with the PTY as its controlling terminal,
//! so that Ctrl-C reaches what runs in it; it sees none of our environment; where we are root it
//! is not. The unsafe code of this crate is here: the hook between fork and exec, and a descriptor's
//! registration.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tokio::io::unix::AsyncFd;
use tokio::process::{Child, Command};

/// The variable that marks every process of one container, however it detaches.
pub(crate) const MARK: &str = "STANDIN_CONTAINER";

/// What to run.
pub(crate) struct Program {
    /// The program and its arguments; never empty.
    pub(crate) command: Vec<String>,
    /// User and group; only used where we are root.
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// Value of [`MARK`].
    pub(crate) mark: String,
}

/// The master side of a PTY.
pub(crate) struct Master {
    fd: AsyncFd<OwnedFd>,
}

impl Master {
    /// Reads what the child wrote; 0 at the end of it.
    pub(crate) async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.fd.readable().await?;
            match ready.try_io(|fd| Ok(rustix::io::read(fd.get_ref(), &mut *buffer)?)) {
                // Linux says EIO when the last process has closed the terminal.
                Ok(Err(error)) if error.raw_os_error() == Some(5) => return Ok(0),
                Ok(result) => return result,
                Err(_would_block) => {}
            }
        }
    }

    /// Writes keys to the child, all of them.
    pub(crate) async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let mut ready = self.fd.writable().await?;
            match ready.try_io(|fd| Ok(rustix::io::write(fd.get_ref(), bytes)?)) {
                Ok(written) => bytes = &bytes[written?..],
                Err(_would_block) => {}
            }
        }
        Ok(())
    }

    /// Sets the window's size and tells the foreground processes (SIGWINCH).
    pub(crate) fn resize(&self, cols: u16, rows: u16) {
        let size = rustix::termios::Winsize {
            ws_row: rows,
            ws_col: cols,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        // A terminal that is gone has no size.
        let _ = rustix::termios::tcsetwinsize(self.fd.get_ref(), size);
    }
}

/// Starts `program` on a new PTY.
pub(crate) fn spawn(program: &Program) -> io::Result<(Master, Child)> {
    let (master, terminal) = open_pair()?;
    let [first, arguments @ ..] = program.command.as_slice() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no command"));
    };
    let mut command = Command::new(first);
    command
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("TERM", "xterm-256color")
        .env("HOME", "/tmp")
        .env(MARK, &program.mark)
        .current_dir("/tmp")
        .stdin(Stdio::from(terminal.try_clone()?))
        .stdout(Stdio::from(terminal.try_clone()?))
        .kill_on_drop(true);
    if rustix::process::geteuid().is_root() {
        let (user, group) = (program.user, program.group);
        rustix::fs::fchown(
            &terminal,
            Some(rustix::fs::Uid::from_raw(user)),
            Some(rustix::fs::Gid::from_raw(group)),
        )?;
        command.uid(user).gid(group);
    }
    command.stderr(Stdio::from(terminal));
    lead_a_session(&mut command);
    let child = command.spawn()?;
    Ok((Master { fd: watch(master)? }, child))
}

#[expect(
    unsafe_code,
    reason = "the safe constructor is deprecated for types that lend their fd"
)]
fn watch(master: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the AsyncFd owns the descriptor, and an OwnedFd gives the same one until it closes.
    Ok(unsafe { AsyncFd::register(master) }?)
}

fn open_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    rustix::io::fcntl_setfd(&master, rustix::io::FdFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let terminal = rustix::fs::open(name.as_c_str(), flags, Mode::empty())?;
    rustix::io::ioctl_fionbio(&master, true)?;
    Ok((master, terminal))
}

#[expect(
    unsafe_code,
    reason = "a controlling terminal can only be taken between fork and exec"
)]
fn lead_a_session(command: &mut Command) {
    // SAFETY: the hook makes two system calls and touches neither memory nor locks that another
    // thread may have held at the fork.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
            Ok(())
        });
    }
}
