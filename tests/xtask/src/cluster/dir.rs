//! The folder of one cluster: where everything in it is.
//!
//! Invariant: a folder is emptied only if it carries the mark that `up` put there.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::ClusterError;

/// The mark of a folder that is a test cluster's and nobody else's.
const MARK: &str = ".breakglass-test-cluster";

/// A Unix socket's path has 107 bytes; the longest in here is 40 below the folder.
const PATH_BYTES_MAX: usize = 60;

/// The folder of a test cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClusterDir(PathBuf);

impl ClusterDir {
    /// The folder `dir`, which need not be there yet.
    ///
    /// # Errors
    /// [`ClusterError::LongPath`], or where the working directory cannot be told.
    pub(crate) fn at(dir: &Path) -> Result<Self, ClusterError> {
        let path = std::path::absolute(dir).map_err(ClusterError::io("find", dir))?;
        // One name for one folder, so that the machine's claim can be compared.
        let path = path.canonicalize().unwrap_or(path);
        if path.as_os_str().len() > PATH_BYTES_MAX {
            return Err(ClusterError::LongPath(path));
        }
        Ok(Self(path))
    }

    /// The folder itself.
    #[must_use]
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A kubeconfig of a cluster admin: for a test's own set-up, never for the sidecar.
    #[must_use]
    pub(crate) fn admin_conf(&self) -> PathBuf {
        self.0.join("admin.conf")
    }

    /// A file with the reference of the image that [`super::deploy_app`] runs.
    #[must_use]
    pub(crate) fn app_image(&self) -> PathBuf {
        self.0.join("app-image")
    }

    pub(super) fn kubeconfig(&self, user: &str) -> PathBuf {
        self.0.join(format!("{user}.conf"))
    }

    pub(super) fn certificate(&self, name: &str) -> PathBuf {
        self.0.join("pki").join(format!("{name}.crt"))
    }

    pub(super) fn key(&self, name: &str) -> PathBuf {
        self.0.join("pki").join(format!("{name}.key"))
    }

    pub(super) fn public_key(&self, name: &str) -> PathBuf {
        self.0.join("pki").join(format!("{name}.pub"))
    }

    pub(super) fn log(&self, part: &str) -> PathBuf {
        self.0.join("log").join(format!("{part}.log"))
    }

    pub(super) fn process(&self, part: &str) -> PathBuf {
        self.0.join("run").join(format!("{part}.json"))
    }

    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.0.join("bin").join(name)
    }

    pub(super) fn containerd_socket(&self) -> PathBuf {
        self.0.join("containerd/c.sock")
    }

    pub(super) fn containerd_state(&self) -> PathBuf {
        self.0.join("containerd/state")
    }

    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Is this a folder that a cluster was made in?
    pub(super) fn is_marked(&self) -> bool {
        self.0.join(MARK).is_file()
    }

    /// Makes the folder and what is in it, afresh.
    ///
    /// # Errors
    /// [`ClusterError::ForeignFolder`] where something else is there.
    pub(super) fn create(&self) -> Result<(), ClusterError> {
        self.remove()?;
        for name in [
            "bin",
            "pki",
            "log",
            "run",
            "etcd",
            "kubelet",
            "containerd",
            "cni",
            "images",
        ] {
            let path = self.0.join(name);
            fs::create_dir_all(&path).map_err(ClusterError::io("create", &path))?;
        }
        self.write(
            MARK,
            "A test cluster of Break-glass; `cargo xtask cluster down` removes it.\n",
        )
    }

    /// Removes the folder, if it is a cluster's. Nothing may be mounted in it any more.
    pub(super) fn remove(&self) -> Result<(), ClusterError> {
        let is_empty = match fs::read_dir(&self.0) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(ClusterError::io("read", &self.0)(error)),
        };
        if !is_empty && !self.is_marked() {
            return Err(ClusterError::ForeignFolder(self.0.clone()));
        }
        fs::remove_dir_all(&self.0).map_err(ClusterError::io("remove", &self.0))
    }

    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), ClusterError> {
        let path = self.0.join(name);
        fs::write(&path, text).map_err(ClusterError::io("write", &path))
    }

    /// Writes a file that only its owner may read.
    pub(super) fn write_secret(&self, path: &Path, text: &str) -> Result<(), ClusterError> {
        use std::io::Write;
        use std::os::unix::fs::OpenOptionsExt;
        fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(ClusterError::io("write", path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_something_else_in_it_is_left_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("thesis.txt"), "years").expect("a file");
        let dir = ClusterDir::at(folder.path()).expect("short enough");
        let foreign = |r| matches!(r, Err(ClusterError::ForeignFolder(_)));
        assert!(foreign(dir.create()) && foreign(dir.remove()));
        assert!(folder.path().join("thesis.txt").is_file());
    }

    #[test]
    fn a_folder_that_up_made_can_be_made_again_and_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        let dir = ClusterDir::at(&folder.path().join("c")).expect("short enough");
        dir.create().expect("there is nothing yet");
        dir.write("admin.conf", "x").expect("a file");
        dir.create().expect("it is ours");
        assert!(!dir.admin_conf().exists() && dir.is_marked());
        dir.remove().expect("it is ours");
        dir.remove().expect("gone is gone");
    }

    #[test]
    fn a_path_that_no_socket_could_have_is_refused_before_anything_starts() {
        let long = format!("/{}", "x".repeat(PATH_BYTES_MAX));
        assert!(matches!(
            ClusterDir::at(Path::new(&long)),
            Err(ClusterError::LongPath(_))
        ));
    }
}
