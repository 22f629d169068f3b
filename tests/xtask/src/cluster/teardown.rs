//! Taking a cluster away, whatever state it is in: running, half started, or left by a driver that
//! was killed.
//!
//! Invariant: nothing is asked of the cluster itself, for it may not answer. Processes go first,
//! then what they mounted, then the folder, and a folder with a mount in it is never removed.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::dir::ClusterDir;
use super::error::ClusterError;
use super::kyverno;
use super::packages::on_path;
use super::process::{self, ProcessId, contains, running};
use super::settings::{NODE_BRIDGE, PARTS, POD_BRIDGE, POD_NETWORK};

/// Ends every process of the cluster in `dir` and undoes what it did to the machine. The folder
/// stays, with its logs.
pub(super) fn stop(dir: &ClusterDir) -> Result<(), ClusterError> {
    if !dir.is_marked() {
        remove_bridges();
        return Ok(());
    }
    let shim_sockets = shim_sockets(dir);
    // What runs beside the cluster, then the kubelet, so that it restarts nothing; containerd last
    // but for its shims.
    for part in PARTS.iter().chain(&kyverno::PARTS).rev() {
        if let Some(id) = running(dir, part) {
            id.end(part)?;
        }
    }
    for id in containers(dir) {
        id.kill("a container")?;
    }
    for socket in shim_sockets {
        remove_quietly(&socket);
    }
    unmount(dir)?;
    remove_bridges();
    remove_traces(dir);
    Ok(())
}

/// The shims of this cluster's containerd, and everything below them.
fn containers(dir: &ClusterDir) -> Vec<ProcessId> {
    let socket = dir.containerd_socket();
    let socket = socket.as_os_str().as_encoded_bytes();
    let all = process::all();
    let mut found: Vec<ProcessId> = Vec::new();
    let mut parents = BTreeSet::new();
    for (id, _, command_line) in &all {
        if contains(command_line, b"containerd-shim") && contains(command_line, socket) {
            found.push(*id);
            parents.insert(id.pid);
        }
    }
    // A generation at a time; a container's first process takes those in its namespace with it.
    loop {
        let children: Vec<ProcessId> = all
            .iter()
            .filter(|(id, parent, _)| parents.contains(parent) && !parents.contains(&id.pid))
            .map(|(id, _, _)| *id)
            .collect();
        if children.is_empty() {
            return found;
        }
        parents.extend(children.iter().map(|id| id.pid));
        found.extend(children);
    }
}

/// The sockets that the shims made outside the folder, which they cannot remove when killed.
fn shim_sockets(dir: &ClusterDir) -> Vec<PathBuf> {
    let tasks = dir
        .containerd_state()
        .join("io.containerd.runtime.v2.task/k8s.io");
    entries(&tasks)
        .filter_map(|task| fs::read_to_string(task.join("address")).ok())
        .filter_map(|address| address.trim().strip_prefix("unix://").map(PathBuf::from))
        .filter(|socket| socket.starts_with("/run/containerd/s"))
        .collect()
}

/// Unmounts everything in the folder, the deepest first.
fn unmount(dir: &ClusterDir) -> Result<(), ClusterError> {
    let umount = on_path("umount").unwrap_or_else(|| "umount".into());
    for mount in mounts_in(dir).iter().rev() {
        // What could not be unmounted shows below.
        let _ = Command::new(&umount)
            .arg("--lazy")
            .arg(mount)
            .stderr(Stdio::null())
            .status();
    }
    let remaining = mounts_in(dir);
    let Some(mount) = remaining.first() else {
        return Ok(());
    };
    let what = format!(
        "{} mounts, `{}` among them",
        remaining.len(),
        mount.display()
    );
    Err(ClusterError::Remains {
        dir: dir.path().to_owned(),
        what,
    })
}

fn mounts_in(dir: &ClusterDir) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut mounts: Vec<PathBuf> = table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(unescaped)
        .filter(|mount| mount.starts_with(dir.path()))
        .collect();
    mounts.sort();
    mounts
}

/// The mount table writes a space as `\040`, and a few other bytes alike.
fn unescaped(field: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let octal = (first == b'\\').then(|| tail.get(..3)).flatten();
        let octal = octal.and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(first);
                rest = tail;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

fn remove_bridges() {
    let ip = on_path("ip").unwrap_or_else(|| "ip".into());
    for bridge in [POD_BRIDGE, NODE_BRIDGE] {
        // One that was never made is no failure.
        let _ = Command::new(&ip)
            .args(["link", "delete", bridge])
            .stderr(Stdio::null())
            .status();
    }
}

/// What the kubelet and CNI write at fixed places of the machine. All of it is harmless, so what
/// cannot be removed is left.
fn remove_traces(dir: &ClusterDir) {
    for link in entries(Path::new("/var/log/containers")) {
        if fs::read_link(&link).is_ok_and(|target| target.starts_with(dir.path())) {
            remove_quietly(&link);
        }
    }
    remove_network_results(Path::new("/var/lib/cni/results"));
    // cgroup v2 is one tree, v1 a tree for each controller.
    remove_cgroups(Path::new("/sys/fs/cgroup/kubepods"));
    for controller in entries(Path::new("/sys/fs/cgroup")) {
        remove_cgroups(&controller.join("kubepods"));
    }
}

/// CNI keeps a file for each network of each sandbox. Ours name the network; that of the loopback
/// names the sandbox alone, which is taken from ours.
fn remove_network_results(folder: &Path) {
    for file in entries(folder) {
        let name = file
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let sandbox = name
            .strip_prefix(POD_NETWORK)
            .and_then(|rest| rest.strip_prefix('-')?.strip_suffix("-eth0"));
        if let Some(sandbox) = sandbox {
            remove_quietly(&folder.join(format!("cni-loopback-{sandbox}-lo")));
            remove_quietly(&file);
        }
    }
}

/// A cgroup can be removed only when it is empty, so one in use stays.
fn remove_cgroups(cgroup: &Path) {
    for child in entries(cgroup).filter(|child| child.is_dir()) {
        remove_cgroups(&child);
    }
    let _ = fs::remove_dir(cgroup);
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
}

fn remove_quietly(file: &Path) {
    let _ = fs::remove_file(file);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_results_of_other_clusters_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let [ours, theirs] = ["breakglass-test-a1-eth0", "other-b2-eth0"];
        for name in [ours, "cni-loopback-a1-lo", theirs, "cni-loopback-b2-lo"] {
            fs::write(folder.path().join(name), "{}").expect("a file");
        }
        remove_network_results(folder.path());
        let mut left: Vec<_> = entries(folder.path()).collect();
        left.sort();
        assert_eq!(
            left,
            ["cni-loopback-b2-lo", theirs].map(|name| folder.path().join(name))
        );
    }

    #[test]
    fn a_mount_point_is_read_as_it_is_named() {
        for (field, path) in [
            ("/a", "/a"),
            (r"/a\040b", "/a b"),
            (r"/a\134", r"/a\"),
            (r"/a\9", r"/a\9"),
        ] {
            assert_eq!(unescaped(field), Path::new(path), "{field}");
        }
    }
}
