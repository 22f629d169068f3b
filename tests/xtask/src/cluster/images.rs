//! The images of the test cluster and how they get into containerd.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::dir::ClusterDir;
use super::error::ClusterError;
use super::image::{Entry, Image};
use super::packages::{BUSYBOX, on_path};
use super::process::output;
use super::settings::PAUSE_IMAGE;

/// The debug image's name, as the sidecar's configuration in the tests has it; its digest follows.
const DEBUG_IMAGE: &str = "ghcr.io/hangar/tower-debug";

/// The app image's name.
const APP_IMAGE: &str = "ghcr.io/hangar/test-app";

/// The user and group that the app image runs as.
pub(super) const APP_USER: u32 = 10001;

/// Sleeps until it is told to end: the sandbox, and an app with nothing to do.
const SLEEPER: &[&str] = &[
    "sh",
    "-c",
    "trap 'exit 0' TERM INT; while :; do sleep 3600 & wait; done",
];

/// Makes the images, imports them, and writes their references where tests look for them.
pub(super) fn create(dir: &ClusterDir) -> Result<(), ClusterError> {
    let entries = file_system()?;
    let image = |user, command| Image {
        entries: entries.clone(),
        user,
        command,
    };

    import(dir, "pause", &image("65535:65535", SLEEPER), |_| {
        vec![PAUSE_IMAGE.to_owned()]
    })?;
    let debug = import(dir, "debug", &image("65532:65532", &["sh"]), |digest| {
        vec![format!("{DEBUG_IMAGE}@{digest}")]
    })?;
    // Under a tag, as an app's manifest names it, and by digest, as a copy of its pod does (C-12).
    let app = import(dir, "app", &image("10001:10001", SLEEPER), |digest| {
        vec![format!("{APP_IMAGE}:1"), format!("{APP_IMAGE}@{digest}")]
    })?;
    let last = |names: &[String]| {
        names
            .last()
            .map(|name| format!("{name}\n"))
            .unwrap_or_default()
    };
    dir.write("debug-image", &last(&debug))?;
    dir.write(
        "app-image",
        &format!("{}\n", app.first().map_or("", String::as_str)),
    )
}

/// busybox and a link for each of its tools.
fn file_system() -> Result<Vec<Entry>, ClusterError> {
    let busybox = Path::new(BUSYBOX);
    let bytes = fs::read(busybox).map_err(ClusterError::io("read", busybox))?;
    let mut list = Command::new(busybox);
    list.arg("--list");
    let tools = output(list, None)?;
    let users = "root:x:0:0:root:/:/bin/sh\napp:x:10001:10001:app:/tmp:/bin/sh\n\
                 debug:x:65532:65532:debug:/tmp:/bin/sh\n";
    let mut entries = vec![
        Entry::Folder {
            path: "bin",
            mode: 0o755,
        },
        Entry::Folder {
            path: "etc",
            mode: 0o755,
        },
        Entry::Folder {
            path: "proc",
            mode: 0o555,
        },
        Entry::Folder {
            path: "tmp",
            mode: 0o1777,
        },
        Entry::File {
            path: "etc/passwd",
            mode: 0o644,
            bytes: users.into(),
        },
        Entry::File {
            path: "bin/busybox",
            mode: 0o755,
            bytes,
        },
    ];
    let tools = tools
        .lines()
        .map(str::trim)
        .filter(|tool| !tool.is_empty() && *tool != "busybox");
    entries.extend(tools.map(|tool| Entry::Link {
        path: format!("bin/{tool}"),
        to: "busybox",
    }));
    Ok(entries)
}

/// Imports `image` under the names that `names` makes of its digest; returns them.
fn import(
    dir: &ClusterDir,
    file: &str,
    image: &Image,
    names: impl FnOnce(&str) -> Vec<String>,
) -> Result<Vec<String>, ClusterError> {
    let path = dir.join(&format!("images/{file}.tar"));
    let io = |source| ClusterError::Io {
        doing: format!("make `{}`", path.display()),
        source,
    };
    let built = image.build().map_err(io)?;
    let names = names(built.digest());
    let archive = built
        .archive(&names)
        .and_then(|bytes| fs::write(&path, bytes));
    archive.map_err(io)?;
    let mut ctr = ctr(dir);
    ctr.args(["images", "import", "--snapshotter", "native"])
        .arg(&path);
    output(ctr, None)?;
    fs::remove_file(&path).map_err(ClusterError::io("remove", &path))?;
    Ok(names)
}

/// containerd's own client, in the kubelet's namespace.
pub(super) fn ctr(dir: &ClusterDir) -> Command {
    let mut ctr = Command::new(on_path("ctr").unwrap_or_else(|| "ctr".into()));
    ctr.arg("--address")
        .arg(dir.containerd_socket())
        .args(["--namespace", "k8s.io"]);
    ctr
}
