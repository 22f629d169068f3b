//! One cluster at a time on a machine: its ports are fixed, so the machine is claimed for it.
//!
//! Invariant: the claim is written before the first process starts and cleared after the last one
//! ended, so a driver that is killed in between leaves a claim by which the next one finds and
//! clears what remains. The gate is held only while a driver works, and the system opens it when
//! that driver dies.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::dir::ClusterDir;
use super::error::ClusterError;
use super::process::{ProcessId, running};
use super::settings::PARTS;

/// On a file system that a reboot empties, as it empties the process table.
const FOLDER: &str = "/run/breakglass-test-cluster";

/// Which cluster this machine is claimed for.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Claim {
    dir: PathBuf,
    /// The process whose end is the cluster's end; none where it stays up until `down`.
    owner: Option<ProcessId>,
}

/// What a claim says about the cluster that it is for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// Nobody: there is no claim, or what it was for is over. `left_in` wants clearing up.
    Nobody { left_in: Option<ClusterDir> },
    /// A living process.
    Process { pid: i32, dir: PathBuf },
    /// A cluster that was left up, all of it running.
    Cluster { dir: PathBuf },
}

/// The right to bring clusters up and down, held by one driver at a time.
#[derive(Debug)]
pub(super) struct Gate {
    folder: PathBuf,
    _locked: File,
}

impl Gate {
    /// # Errors
    /// [`ClusterError::Busy`] while another driver is at work.
    pub(super) fn enter() -> Result<Self, ClusterError> {
        Self::enter_at(Path::new(FOLDER))
    }

    fn enter_at(folder: &Path) -> Result<Self, ClusterError> {
        fs::create_dir_all(folder).map_err(ClusterError::io("create", folder))?;
        let path = folder.join("lock");
        let lock = File::create(&path).map_err(ClusterError::io("create", &path))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self {
                folder: folder.to_owned(),
                _locked: lock,
            }),
            Err(error) if error == rustix::io::Errno::WOULDBLOCK => Err(ClusterError::Busy),
            Err(error) => Err(ClusterError::io("lock", &path)(error.into())),
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.join("claim.json")
    }

    /// Whom the machine belongs to at present.
    pub(super) fn holder(&self) -> Holder {
        let claim = fs::read_to_string(self.path()).ok();
        // A claim cut short by a crash names no folder: whatever runs holds the ports and shows.
        let claim = claim.and_then(|text| serde_json::from_str::<Claim>(&text).ok());
        let Some(Claim { dir, owner }) = claim else {
            return Holder::Nobody { left_in: None };
        };
        let Ok(cluster) = ClusterDir::at(&dir) else {
            return Holder::Nobody { left_in: None };
        };
        match owner {
            Some(owner) if owner.is_alive() => Holder::Process {
                pid: owner.pid,
                dir,
            },
            None if PARTS.iter().all(|part| running(&cluster, part).is_some()) => {
                Holder::Cluster { dir }
            }
            Some(_) | None => Holder::Nobody {
                left_in: Some(cluster),
            },
        }
    }

    /// Claims the machine for the cluster in `dir`, until `owner` ends or until `down`.
    pub(super) fn claim(
        &self,
        dir: &ClusterDir,
        owner: Option<ProcessId>,
    ) -> Result<(), ClusterError> {
        let claim = serde_json::json!(Claim {
            dir: dir.path().to_owned(),
            owner
        });
        let (path, new) = (self.path(), self.folder.join("claim.new"));
        fs::write(&new, claim.to_string())
            .and_then(|()| fs::rename(&new, &path))
            .map_err(ClusterError::io("write", &path))
    }

    /// Gives the machine back.
    pub(super) fn clear(&self) -> Result<(), ClusterError> {
        match fs::remove_file(self.path()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(ClusterError::io("remove", &self.path())(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene() -> (tempfile::TempDir, Gate, ClusterDir) {
        let folder = tempfile::tempdir().expect("a folder");
        let gate = Gate::enter_at(folder.path()).expect("nobody else knows it");
        let dir = ClusterDir::at(&folder.path().join("c")).expect("short enough");
        (folder, gate, dir)
    }

    #[test]
    fn two_drivers_do_not_work_at_once() {
        let (folder, gate, _) = scene();
        assert!(matches!(
            Gate::enter_at(folder.path()),
            Err(ClusterError::Busy)
        ));
        drop(gate);
        Gate::enter_at(folder.path()).expect("the first is done");
    }

    #[test]
    fn a_living_owner_keeps_the_machine() {
        let (_folder, gate, dir) = scene();
        let own = ProcessId::own().expect("this test runs");
        gate.claim(&dir, Some(own)).expect("written");
        let pid = own.pid;
        assert_eq!(
            gate.holder(),
            Holder::Process {
                pid,
                dir: dir.path().to_owned()
            }
        );
        gate.clear().expect("removed");
        gate.clear().expect("cleared is cleared");
        assert_eq!(gate.holder(), Holder::Nobody { left_in: None });
    }

    #[test]
    fn what_a_killed_owner_left_is_named() {
        let (_folder, gate, dir) = scene();
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("`sleep`");
        let owner = ProcessId::of(i32::try_from(child.id()).expect("an id")).expect("it runs");
        gate.claim(&dir, Some(owner)).expect("written");
        assert!(matches!(gate.holder(), Holder::Process { .. }));
        child
            .kill()
            .and_then(|()| child.wait())
            .expect("it was ours");
        assert_eq!(gate.holder(), Holder::Nobody { left_in: Some(dir) });
    }

    #[test]
    fn a_cluster_that_is_not_wholly_running_is_over() {
        let (_folder, gate, dir) = scene();
        gate.claim(&dir, None).expect("written");
        assert_eq!(gate.holder(), Holder::Nobody { left_in: Some(dir) });
    }

    #[test]
    fn a_claim_that_cannot_be_read_is_nobodys() {
        let (_folder, gate, _) = scene();
        fs::write(gate.path(), "{\"dir\": \"/x").expect("written");
        assert_eq!(gate.holder(), Holder::Nobody { left_in: None });
    }
}
