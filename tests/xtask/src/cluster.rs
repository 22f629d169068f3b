//! The project's own Kubernetes: a real cluster of one node on this machine, without Docker and
//! without a registry, for the tests that fakes cannot stand in for.
//!
//! Invariant: what `up` did to the machine, `down` undoes, and so does the next `up` where the
//! driver was killed. Everything listens on 127.0.0.1. `docs/test-cluster.md` says how it is used.

mod claim;
mod dir;
mod error;
mod image;
mod images;
mod kyverno;
mod object_store;
mod objects;
mod packages;
mod parts;
mod pki;
mod process;
mod settings;
mod sigstore;
mod teardown;
mod time;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use claim::{Gate, Holder};
use process::{ProcessId, must_run, output};
use time::{say, step, wait_for};

pub(crate) use dir::ClusterDir;
pub(crate) use error::ClusterError;
pub(crate) use kyverno::up as kyverno_up;
pub(crate) use object_store::{ObjectStoreCommand, build_object_store};
pub(crate) use objects::{App, deploy_app, sidecar_identity};
pub(crate) use packages::{Packages, ensure as ensure_packages};
pub(crate) use parts::{build_parts, cache_dir};
pub(crate) use sigstore::build_sigstore;

/// How long one part may take to come up on a busy machine.
const UP_WITHIN: Duration = Duration::from_secs(90);

/// `cargo xtask cluster …`
#[derive(Debug, clap::Subcommand)]
pub(crate) enum ClusterCommand {
    /// Compile the Kubernetes programs into the cache (minutes, once)
    Build,
    /// Start a cluster in DIR: DIR/admin.conf, DIR/sidecar.conf, DIR/debug-image, DIR/app-image
    Up {
        /// A folder that is empty, absent, or a cluster's
        dir: PathBuf,
        /// Install missing Debian packages with apt-get
        #[arg(long)]
        install: bool,
    },
    /// Stop the cluster in DIR, or what is left of it, and remove DIR
    Down {
        /// The cluster's folder
        dir: PathBuf,
    },
    /// Apply the sidecar's rights and write DIR/sidecar.conf with a new token
    Kubeconfig {
        /// The cluster's folder
        dir: PathBuf,
    },
    /// Deploy an app to debug
    App {
        /// The cluster's folder
        dir: PathBuf,
        /// What to deploy
        #[command(flatten)]
        app: App,
    },
    /// Kyverno beside the cluster, for the policies that it makes and checks
    #[command(subcommand)]
    Kyverno(kyverno::KyvernoCommand),
}

/// Runs one command of the command line.
///
/// # Errors
/// [`ClusterError`], said so that a person knows what to do.
pub(crate) fn run(command: ClusterCommand) -> Result<(), ClusterError> {
    match command {
        ClusterCommand::Build => {
            let binary = build_parts(&cache_dir()?)?;
            say(&format!("the programs are in `{}`", binary.display()));
            Ok(())
        }
        ClusterCommand::Up { dir, install } => {
            let packages = if install {
                Packages::Install
            } else {
                Packages::MustBeThere
            };
            let cluster = up(&dir, packages, Lifetime::UntilDown)?;
            say(&format!(
                "up: KUBECONFIG={} {} get pods -A",
                cluster.dir().admin_conf().display(),
                cluster.dir().program("kubectl").display()
            ));
            Ok(())
        }
        ClusterCommand::Down { dir } => down(&dir),
        ClusterCommand::Kubeconfig { dir } => sidecar_identity(&ClusterDir::at(&dir)?),
        ClusterCommand::App { dir, app } => deploy_app(&ClusterDir::at(&dir)?, &app),
        ClusterCommand::Kyverno(command) => kyverno::run(command),
    }
}

/// How long a cluster stays up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifetime {
    /// Until `down`, whatever becomes of the driver.
    UntilDown,
    /// As long as this process: gone with the handle, or cleared by the next driver.
    OfThisProcess,
}

/// A cluster that is up.
#[derive(Debug)]
pub(crate) struct ClusterHandle {
    dir: ClusterDir,
    lifetime: Lifetime,
}

impl ClusterHandle {
    /// Where its files are; `BREAKGLASS_TEST_CLUSTER` is this folder.
    #[must_use]
    pub(crate) fn dir(&self) -> &ClusterDir {
        &self.dir
    }

    /// Takes it down and says what went wrong, where dropping the handle only prints it.
    ///
    /// # Errors
    /// [`ClusterError`] as [`down`].
    pub(crate) fn down(mut self) -> Result<(), ClusterError> {
        self.lifetime = Lifetime::UntilDown; // the handle's end has nothing left to do
        down(self.dir.path())
    }
}

impl Drop for ClusterHandle {
    fn drop(&mut self) {
        if self.lifetime == Lifetime::OfThisProcess
            && let Err(error) = down(self.dir.path())
        {
            say(&format!("could not be taken down: {error}"));
        }
    }
}

/// Starts a cluster in `dir`, with the images and the sidecar's identity in it.
///
/// # Errors
/// [`ClusterError`]. What was started is stopped again; `dir` stays, for its logs.
pub(crate) fn up(
    dir: &Path,
    packages: Packages,
    lifetime: Lifetime,
) -> Result<ClusterHandle, ClusterError> {
    if !rustix::process::geteuid().is_root() {
        return Err(ClusterError::NotRoot);
    }
    let dir = ClusterDir::at(dir)?;
    ensure_packages(packages)?;
    let binary = build_parts(&cache_dir()?)?;
    let gate = Gate::enter()?;
    clear_stale(&gate)?;
    ports_are_free()?;
    // One that another machine state left in this very folder, without a claim.
    teardown::stop(&dir)?;
    dir.create()?;
    gate.claim(&dir, ProcessId::own())?;

    let whole = step("a cluster is up");
    if let Err(error) = bring_up(&dir, &binary) {
        teardown::stop(&dir)?;
        gate.clear()?;
        return Err(error);
    }
    if lifetime == Lifetime::UntilDown {
        gate.claim(&dir, None)?;
    }
    whole.done();
    Ok(ClusterHandle { dir, lifetime })
}

/// Stops the cluster in `dir`, or what is left of it, and removes the folder.
///
/// # Errors
/// [`ClusterError::InUse`] while another process uses it; [`ClusterError::Remains`] where
/// something could not be undone.
pub(crate) fn down(dir: &Path) -> Result<(), ClusterError> {
    let dir = ClusterDir::at(dir)?;
    let gate = Gate::enter()?;
    let own = ProcessId::own().map(|own| own.pid);
    let is_this = |other: &Path| other == dir.path();
    let clears_claim = match gate.holder() {
        Holder::Process { pid, dir: used } if is_this(&used) && Some(pid) != own => {
            return Err(ClusterError::InUse { pid, dir: used });
        }
        Holder::Process { dir: used, .. } | Holder::Cluster { dir: used } => is_this(&used),
        Holder::Nobody { left_in } => left_in.is_some_and(|left| left == dir),
    };
    if !clears_claim && !dir.is_marked() {
        return Err(ClusterError::ForeignFolder(dir.path().to_owned()));
    }
    let gone = step(format!("the cluster in `{}` is gone", dir.path().display()));
    teardown::stop(&dir)?;
    dir.remove()?;
    if clears_claim {
        gate.clear()?;
    }
    gone.done();
    Ok(())
}

/// Refuses where the machine is taken; clears away what a killed driver left.
fn clear_stale(gate: &Gate) -> Result<(), ClusterError> {
    match gate.holder() {
        Holder::Process { pid, dir } => Err(ClusterError::InUse { pid, dir }),
        Holder::Cluster { dir } => Err(ClusterError::AlreadyUp(dir)),
        Holder::Nobody { left_in: None } => Ok(()),
        Holder::Nobody { left_in: Some(dir) } => {
            let cleared = step(format!(
                "cleared what a killed driver left in `{}`",
                dir.path().display()
            ));
            teardown::stop(&dir)?;
            dir.remove()?;
            gate.clear()?;
            cleared.done();
            Ok(())
        }
    }
}

fn ports_are_free() -> Result<(), ClusterError> {
    for (port, part) in settings::PORTS {
        TcpListener::bind(("127.0.0.1", port))
            .map_err(|_| ClusterError::PortTaken { port, part })?;
    }
    Ok(())
}

fn bring_up(dir: &ClusterDir, binary: &Path) -> Result<(), ClusterError> {
    objects::link_programs(dir, binary)?;
    pki::create(dir)?;

    let serving = step("API server is ready");
    process::start(dir, settings::etcd(dir))?;
    process::start(dir, settings::apiserver(dir))?;
    wait_for("the API server is ready", UP_WITHIN, || {
        must_run(dir, "etcd")?;
        must_run(dir, "apiserver")?;
        Ok(objects::answers(dir, "/readyz"))
    })?;
    serving.done();
    process::start(dir, settings::manager(dir))?;
    process::start(dir, settings::scheduler(dir))?;

    let imported = step("containerd has the images");
    add_node_address()?;
    process::start(dir, settings::containerd(dir)?)?;
    wait_for("containerd answers", UP_WITHIN, || {
        must_run(dir, "containerd")?;
        let mut version = images::ctr(dir);
        version.arg("version");
        Ok(output(version, None).is_ok())
    })?;
    images::create(dir)?;
    imported.done();

    let ready = step("the node is ready");
    process::start(dir, settings::kubelet(dir)?)?;
    sidecar_identity(dir)?;
    wait_for("the node takes pods", UP_WITHIN, || {
        for part in settings::PARTS {
            must_run(dir, part)?;
        }
        Ok(objects::takes_pods(dir))
    })?;
    ready.done();
    Ok(())
}

/// Gives the node an address that is not loopback and leads nowhere.
fn add_node_address() -> Result<(), ClusterError> {
    let program = packages::on_path("ip").unwrap_or_else(|| "ip".into());
    let ip = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments);
        output(command, None).map(|_| ())
    };
    let address = format!("{}/32", settings::NODE_ADDRESS);
    ip(&["link", "add", settings::NODE_BRIDGE, "type", "bridge"])?;
    ip(&["address", "add", &address, "dev", settings::NODE_BRIDGE])?;
    ip(&["link", "set", settings::NODE_BRIDGE, "up"])
}
