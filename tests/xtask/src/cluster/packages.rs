//! What the cluster needs of the machine, checked before anything is started.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::ClusterError;
use super::process::contains;
use super::time::{say, step};

/// The CNI plugins' folder of Debian's package.
pub(super) const CNI_PLUGINS: &str = "/usr/lib/cni";

/// The shell and the tools of every image that the cluster runs.
pub(super) const BUSYBOX: &str = "/bin/busybox";

/// A Debian package, what it is for, and how it is known to be there.
struct Package {
    name: &'static str,
    purpose: &'static str,
    is_there: fn() -> bool,
}

const PACKAGES: [Package; 6] = [
    Package {
        name: "containerd",
        purpose: "runs the containers",
        is_there: || on_path("containerd").is_some() && on_path("ctr").is_some(),
    },
    Package {
        name: "runc",
        purpose: "starts each container",
        is_there: || on_path("runc").is_some(),
    },
    Package {
        name: "containernetworking-plugins",
        purpose: "gives pods their network",
        is_there: || {
            ["bridge", "host-local", "loopback"]
                .iter()
                .all(|plugin| Path::new(CNI_PLUGINS).join(plugin).is_file())
        },
    },
    Package {
        name: "busybox-static",
        purpose: "is the shell in the images",
        is_there: || is_static(Path::new(BUSYBOX)),
    },
    Package {
        name: "iproute2",
        purpose: "makes the node's address",
        is_there: || on_path("ip").is_some(),
    },
    Package {
        name: "iptables",
        purpose: "is asked for by the kubelet",
        is_there: || on_path("iptables").is_some(),
    },
];

/// What to do about packages that are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packages {
    /// Name them and stop.
    MustBeThere,
    /// Install them with `apt-get`, saying so.
    Install,
}

/// Checks that every program is there; installs what is missing where that was asked for.
///
/// # Errors
/// [`ClusterError::Missing`] with the packages' names, or what `apt-get` says.
pub(crate) fn ensure(packages: Packages) -> Result<(), ClusterError> {
    let absent: Vec<&Package> = PACKAGES
        .iter()
        .filter(|package| !(package.is_there)())
        .collect();
    if absent.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = absent
        .iter()
        .map(|package| package.name.to_owned())
        .collect();
    match packages {
        Packages::MustBeThere => Err(ClusterError::Missing(names)),
        Packages::Install => install(&absent, names),
    }
}

fn install(absent: &[&Package], names: Vec<String>) -> Result<(), ClusterError> {
    for package in absent {
        say(&format!(
            "installing `{}`, which {}",
            package.name, package.purpose
        ));
    }
    let installing = step(format!("installed {}", names.join(", ")));
    let run = |arguments: &[&str]| {
        let status = Command::new("apt-get")
            .args(arguments)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status();
        status.is_ok_and(|status| status.success())
    };
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend(names.iter().map(String::as_str));
    // The lists may be absent (a fresh image) or old: fetched only where the first try fails.
    let installed = run(&arguments) || (run(&["update"]) && run(&arguments));
    if !installed {
        return Err(ClusterError::Missing(names));
    }
    installing.done();
    Ok(())
}

/// `program` in a folder of the PATH or of the system's own tools.
pub(super) fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into()])
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

/// A program that needs no loader, and so runs in an image that has nothing else in it.
fn is_static(program: &Path) -> bool {
    // The loader's path stands in the first page of a dynamic program.
    fs::read(program).is_ok_and(|bytes| !contains(&bytes[..bytes.len().min(4096)], b"/ld-linux"))
}
