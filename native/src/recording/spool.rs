//! The local file that an event is in before it counts as recorded.
//!
//! Invariants: the file only ever grows, by whole lines; `len` and the hash cover exactly what
//! was written without an error; after one error nothing more is accepted. One process at a time
//! has a spool open. The folder is 0700, the files 0600: they hold what people typed.

use super::cast::Header;
use super::events::{MAX_LINE, read_event, read_header};
use sha2::{Digest, Sha256};
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why an event was not recorded, or a spool not opened.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The file could not be written, synced, or is no longer in its folder.
    #[error("the recording's spool cannot be written: {source}")]
    Write {
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// An earlier write failed; nothing was recorded since.
    #[error("the recording's spool failed before, nothing more is recorded")]
    Failed,
    /// The recording is sealed: its session is over.
    #[error("the recording is sealed, nothing more is recorded")]
    Sealed,
    /// There is no spool of this name.
    #[error("there is no spool of this recording")]
    Missing,
    /// Another process, or another part of this one, has it open.
    #[error("the recording's spool is open elsewhere")]
    Busy,
    /// The file is not a recording: it was not written by us, or was damaged since.
    #[error("the recording's spool is damaged: {what}")]
    Damaged {
        /// What is wrong with it; no content.
        what: &'static str,
    },
    /// The file could not be read.
    #[error("the recording's spool cannot be read: {source}")]
    Read {
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// What a spool holds up to some length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prefix {
    /// Bytes.
    pub len: u64,
    /// SHA-256 of those bytes, lower-case hex.
    pub sha256: String,
}

/// An open spool.
#[derive(Debug)]
pub struct Spool {
    file: Arc<File>,
    path: PathBuf,
    hash: Sha256,
    len: u64,
    failed: bool,
}

/// A spool that a former process left, read back.
#[derive(Debug)]
pub struct Recovered {
    /// The spool, open for more.
    pub spool: Spool,
    /// Its header.
    pub header: Header,
    /// The last event's time in microseconds; zero without any event.
    pub last_micros: u64,
    /// How many bytes of a torn last line were cut.
    pub cut: u64,
}

impl Spool {
    /// Creates the spool for the recording `key` with its header line, durable on return.
    ///
    /// # Errors
    /// `Busy` when there is a file of that name already.
    pub fn create(dir: &Path, key: &str, header: &[u8]) -> Result<Self, SpoolError> {
        let write = |source| SpoolError::Write { source };
        make_dir(dir).map_err(write)?;
        let path = dir.join(file_name(key));
        write_key(dir, key).map_err(write)?;
        let opened = OpenOptions::new()
            .append(true)
            .read(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        let file = opened.map_err(|error| {
            if error.kind() == ErrorKind::AlreadyExists {
                SpoolError::Busy
            } else {
                write(error)
            }
        })?;
        let mut spool = Self {
            file: Arc::new(file),
            path,
            hash: Sha256::new(),
            len: 0,
            failed: false,
        };
        match spool.begin(dir, header) {
            Ok(()) => Ok(spool),
            Err(error) => {
                // On a full disk the file may well be empty: it would be found damaged later.
                let _ = spool.remove();
                Err(error)
            }
        }
    }

    fn begin(&mut self, dir: &Path, header: &[u8]) -> Result<(), SpoolError> {
        lock(&self.file)?;
        self.append(header)?;
        let synced = self.file.sync_all().and_then(|()| sync_dir(dir));
        synced.map_err(|source| SpoolError::Write { source })
    }

    /// Opens a spool that an earlier process left, and cuts a torn last line.
    ///
    /// # Errors
    /// `Missing`, `Busy`, or `Damaged` when the file cannot be what we wrote; it is left as it is.
    pub fn recover(dir: &Path, key: &str) -> Result<Recovered, SpoolError> {
        let path = dir.join(file_name(key));
        let opened = OpenOptions::new().append(true).read(true).open(&path);
        let file = opened.map_err(|source| {
            if source.kind() == ErrorKind::NotFound {
                SpoolError::Missing
            } else {
                SpoolError::Read { source }
            }
        })?;
        lock(&file)?;
        let scanned = scan(&file).map_err(|source| SpoolError::Read { source })?;
        let header = scanned.header.ok_or(SpoolError::Damaged {
            what: "its first line is not a header",
        })?;
        let last = last_line(&file, scanned.len).map_err(|source| SpoolError::Read { source })?;
        let last_micros = match last {
            None => 0,
            Some(line) => {
                let event = read_event(&line);
                event
                    .ok_or(SpoolError::Damaged {
                        what: "its last line is not an event",
                    })?
                    .micros
            }
        };
        if scanned.torn > 0 {
            let cut = file.set_len(scanned.len).and_then(|()| file.sync_all());
            cut.map_err(|source| SpoolError::Write { source })?;
        }
        let spool = Self {
            file: Arc::new(file),
            path,
            hash: scanned.hash,
            len: scanned.len,
            failed: false,
        };
        Ok(Recovered {
            spool,
            header,
            last_micros,
            cut: scanned.torn,
        })
    }

    /// Appends whole lines, with one write.
    ///
    /// # Errors
    /// Once it failed, always: the session has to end.
    pub fn append(&mut self, lines: &[u8]) -> Result<(), SpoolError> {
        if self.failed {
            return Err(SpoolError::Failed);
        }
        let written = self
            .in_its_folder()
            .and_then(|()| (&*self.file).write_all(lines));
        if let Err(source) = written {
            self.failed = true;
            return Err(SpoolError::Write { source });
        }
        self.hash.update(lines);
        self.len += lines.len() as u64;
        Ok(())
    }

    /// A write to a file that somebody deleted succeeds, and is lost.
    fn in_its_folder(&self) -> io::Result<()> {
        if self.file.metadata()?.nlink() == 0 {
            return Err(io::Error::new(ErrorKind::NotFound, "the file was deleted"));
        }
        Ok(())
    }

    /// Whether a write or a sync failed.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Nothing more may be appended.
    pub fn fail(&mut self) {
        self.failed = true;
    }

    /// What it holds.
    pub fn prefix(&self) -> Prefix {
        Prefix {
            len: self.len,
            sha256: hex(&self.hash.clone().finalize()),
        }
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it holds nothing; never so after `create`.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file, to sync it elsewhere.
    pub fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Deletes the file: only once the store has confirmed what it holds.
    pub fn remove(&self) -> io::Result<()> {
        for path in [&self.path, &self.path.with_extension(KEY_EXTENSION)] {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.path.parent().map_or(Ok(()), sync_dir)
    }
}

/// Whether a spool can be begun in `dir` at this moment: makes the folder, and writes and removes
/// a file in it that is no spool.
///
/// # Errors
/// What a session would fail with.
pub fn check(dir: &Path) -> io::Result<()> {
    make_dir(dir)?;
    let path = dir.join(format!(".probe-{:016x}", rand::random::<u64>()));
    let written = create(&path).and_then(|mut file| {
        file.write_all(b"probe")?;
        file.sync_all()
    });
    let removed = std::fs::remove_file(&path);
    written.and(removed)
}

fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)
}

/// Keeps the key of a spool whose name cannot hold it, before there is such a spool.
fn write_key(dir: &Path, key: &str) -> io::Result<()> {
    let name = file_name(key);
    if !name.contains(HASHED) {
        return Ok(());
    }
    let mut file = create(&dir.join(name).with_extension(KEY_EXTENSION))?;
    file.write_all(key.as_bytes())?;
    file.sync_all()
}

/// Moves a damaged spool aside, once, so that it is neither retried for ever nor deleted.
pub fn move_aside(dir: &Path, key: &str) -> io::Result<PathBuf> {
    let from = dir.join(file_name(key));
    let to = dir.join(format!("{}.damaged", file_name(key)));
    std::fs::rename(from, &to)?;
    sync_dir(dir)?;
    Ok(to)
}

/// The keys of the recordings that have a spool in `dir`. A folder that is not there has none.
pub fn keys(dir: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut keys = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let Some(name) = name.to_str() else { continue };
        if name.ends_with(SUFFIX) && name.contains(HASHED) {
            keys.extend(read_key(&dir.join(name))?);
        } else {
            keys.extend(key_of(name));
        }
    }
    keys.sort();
    Ok(keys)
}

const SUFFIX: &str = ".spool";
/// The file beside a spool whose name does not hold its key.
const KEY_EXTENSION: &str = "key";
/// Stands before the hash; it is in no other name.
const HASHED: char = '~';
/// The longest name that is used as it is; with `.damaged` it is still a file's name.
const NAME_MAX: usize = 240;
/// How much of a longer one is kept to be read by people.
const SHOWN: usize = 100;
/// Longer than any key.
const KEY_MAX: u64 = 4096;

/// The key that was kept beside a spool; `None` where it is not the spool's.
fn read_key(spool: &Path) -> io::Result<Option<String>> {
    let mut key = String::new();
    let opened = File::open(spool.with_extension(KEY_EXTENSION));
    match opened.and_then(|file| file.take(KEY_MAX).read_to_string(&mut key)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    let is_its = spool
        .file_name()
        .is_some_and(|name| *name == *file_name(&key));
    Ok(is_its.then_some(key))
}

/// One file per key. A short key can be read from the name again; of a long one the name has the
/// beginning and a hash, and the key is kept beside it.
fn file_name(key: &str) -> String {
    let name = escaped(key);
    if name.len() <= NAME_MAX {
        return name;
    }
    // The escapes are ASCII, so any cut is one between characters.
    let hash = hex(&Sha256::digest(key)[..8]);
    format!("{}{HASHED}{hash}{SUFFIX}", &name[..SHOWN])
}

fn escaped(key: &str) -> String {
    let mut name = String::with_capacity(key.len() + SUFFIX.len());
    for byte in key.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => name.push(byte.into()),
            b'.' if !name.is_empty() => name.push('.'),
            _ => name.push_str(&format!("%{byte:02x}")),
        }
    }
    name + SUFFIX
}

fn key_of(name: &str) -> Option<String> {
    let mut parts = name.strip_suffix(SUFFIX)?.split('%');
    let mut key = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        key.push(u8::from_str_radix(code, 16).ok()?);
        key.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(key).ok()
}

fn make_dir(dir: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

fn lock(file: &File) -> Result<(), SpoolError> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => SpoolError::Busy,
        TryLockError::Error(source) => SpoolError::Read { source },
    })
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

struct Scanned {
    hash: Sha256,
    /// Bytes up to and with the last `\n`.
    len: u64,
    /// Bytes after it.
    torn: u64,
    header: Option<Header>,
}

/// Hashes the whole lines, a block at a time.
fn scan(mut file: &File) -> io::Result<Scanned> {
    let mut scanned = Scanned {
        hash: Sha256::new(),
        len: 0,
        torn: 0,
        header: None,
    };
    let mut first_line = Some(Vec::new());
    let mut since_newline = Vec::new();
    let mut block = vec![0; 64 * 1024];
    file.seek(SeekFrom::Start(0))?;
    loop {
        let read = match file.read(&mut block) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            read => read?,
        };
        let bytes = &block[..read];
        if read == 0 {
            scanned.torn += since_newline.len() as u64;
            return Ok(scanned);
        }
        if let Some(line) = &mut first_line {
            let end = bytes.iter().position(|byte| *byte == b'\n');
            line.extend_from_slice(&bytes[..end.unwrap_or(bytes.len())]);
            if end.is_some() || line.len() > MAX_LINE {
                scanned.header = read_header(line);
                first_line = None;
            }
        }
        match bytes.iter().rposition(|byte| *byte == b'\n') {
            Some(last) => {
                scanned.hash.update(&since_newline);
                scanned.hash.update(&bytes[..=last]);
                scanned.len += (since_newline.len() + last + 1) as u64;
                since_newline.clear();
                since_newline.extend_from_slice(&bytes[last + 1..]);
            }
            None => since_newline.extend_from_slice(bytes),
        }
        // No line of ours is that long: the file is not ours.
        if since_newline.len() > MAX_LINE {
            let size = file.metadata()?.len();
            scanned.torn = size - scanned.len;
            return Ok(scanned);
        }
    }
}

/// The last of the whole lines in the first `len` bytes, without its `\n`; `None` when that is
/// the header.
fn last_line(mut file: &File, len: u64) -> io::Result<Option<Vec<u8>>> {
    let from = len.saturating_sub(MAX_LINE as u64 + 1);
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    file.take(len - from).read_to_end(&mut tail)?;
    tail.pop(); // its own `\n`
    Ok(tail
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map(|before| tail.split_off(before + 1)))
}

#[cfg(test)]
mod tests;
