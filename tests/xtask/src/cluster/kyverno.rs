//! Kyverno beside the cluster: its admission and its cleanup controller, as its own chart sets
//! them up, but as plain processes on this machine.
//!
//! Invariant: each controller has a token of its own service account and the rights that the chart
//! gives that account, and no others. What differs for want of a pod and of a Service stands in
//! [`Controller::outside`]; nothing else does.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::claim::{Gate, Holder};
use super::dir::ClusterDir;
use super::error::ClusterError;
use super::objects::{account_kubeconfig, apply, kubectl};
use super::parts::{cache_dir, module, not_understood, once, watched};
use super::process::{self, Part, ProcessId, must_run, output, running};
use super::time::{step, wait_for};

/// The module that is built. From 1.19.0 on an unsigned ephemeral container is refused and not
/// only logged.
const MODULE: &str = "github.com/kyverno/kyverno@v1.19.1";
/// What the module must be, as Go writes checksums.
const SUM: &str = "h1:/MkgFii3/VlQfKR1JpC9tVwNNVNQTt2S4U6qCsafsTU=";
const FLAGS: &str = "-s -w -X github.com/kyverno/kyverno/pkg/version.BuildVersion=v1.19.1";
/// The chart as the module itself has rendered it, with all kinds of Kyverno's.
const MANIFESTS: &str = "config/install-latest-testing.yaml";
/// The chart's namespace.
const NAMESPACE: &str = "kyverno";

/// How long a controller may take on a busy machine to have its certificates and webhooks.
const UP_WITHIN: Duration = Duration::from_secs(90);

/// One of the two controllers; its name is that of its Deployment and of its service account.
struct Controller {
    name: &'static str,
    program: &'static str,
    port: u16,
    metrics_port: u16,
    /// What it makes when it leads, and with it what needs it can be sent.
    webhooks: &'static [&'static str],
    /// The right without which it cannot come up: aggregated, so not there at once.
    needs: [&'static str; 2],
}

const CONTROLLERS: [Controller; 2] = [
    Controller {
        name: PARTS[0],
        program: "kyverno",
        port: 9443,
        metrics_port: 9444,
        webhooks: &["kyverno-policy-validating-webhook-cfg"],
        needs: ["create", "validatingadmissionpolicies"],
    },
    Controller {
        name: PARTS[1],
        program: "cleanup-controller",
        port: 9553,
        metrics_port: 9554,
        webhooks: &[
            "kyverno-cleanup-validating-webhook-cfg",
            "kyverno-ttl-validating-webhook-cfg",
        ],
        needs: ["create", "validatingwebhookconfigurations"],
    },
];

/// Its processes, which [`super::teardown`] ends too.
pub(super) const PARTS: [&str; 2] = ["kyverno-admission-controller", "kyverno-cleanup-controller"];

/// What is done with Kyverno.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum KyvernoCommand {
    /// Compile it into the cache (6 minutes, once)
    Build,
    /// Run it beside the cluster in DIR
    Up {
        /// The folder of a cluster that is up
        dir: PathBuf,
    },
    /// Take it, its kinds and its policies away again; the cluster stays
    Down {
        /// The cluster's folder
        dir: PathBuf,
    },
}

/// Runs one command of the command line.
///
/// # Errors
/// [`ClusterError`], said so that a person knows what to do.
pub(super) fn run(command: KyvernoCommand) -> Result<(), ClusterError> {
    match command {
        KyvernoCommand::Build => build(&cache_dir()?).map(|_| ()),
        KyvernoCommand::Up { dir } => up(&ClusterDir::at(&dir)?),
        KyvernoCommand::Down { dir } => down(&ClusterDir::at(&dir)?),
    }
}

/// Compiles the controllers unless they are in `cache` already; the folder with them and with the
/// chart's manifests.
fn build(cache: &Path) -> Result<PathBuf, ClusterError> {
    let hash = super::image::hex(&Sha256::digest(format!("{SUM} {FLAGS}")));
    let place = cache.join(format!("kyverno-v1.19.1-{}", &hash[..16]));
    let what = format!("{MODULE} (6 minutes on 2 cores the first time, then kept)");
    once(&place, "kyverno", &what, compile)
}

fn compile(folder: &Path) -> Result<(), ClusterError> {
    let source = module(MODULE, SUM)?;
    fs::create_dir_all(folder).map_err(ClusterError::io("create", folder))?;
    let mut go = Command::new("go");
    go.current_dir(&source).env("CGO_ENABLED", "0");
    // The module has `replace` lines, so `go install` refuses it; in its own folder it builds.
    go.args(["build", "-ldflags", FLAGS, "-o"]).arg(folder);
    go.args(CONTROLLERS.map(|controller| format!("./cmd/{}", controller.program)));
    watched(go, &source.to_string_lossy())?;
    let manifests = source.join(MANIFESTS);
    let text = fs::read(&manifests).map_err(ClusterError::io("read", &manifests))?;
    let kept = folder.join("manifests.yaml");
    fs::write(&kept, text).map_err(ClusterError::io("write", &kept))
}

/// Runs Kyverno beside the cluster in `dir`, and waits until it takes policies.
///
/// # Errors
/// [`ClusterError`]. What was started is stopped again.
pub(crate) fn up(dir: &ClusterDir) -> Result<(), ClusterError> {
    let built = build(&cache_dir()?)?;
    let _gate = of_this_cluster(dir)?;
    for controller in &CONTROLLERS {
        for port in [controller.port, controller.metrics_port] {
            TcpListener::bind(("127.0.0.1", port)).map_err(|_| ClusterError::PortTaken {
                port,
                part: controller.name,
            })?;
        }
    }
    let whole = step("Kyverno is up");
    if let Err(error) = bring_up(dir, &built) {
        stop(dir)?;
        return Err(error);
    }
    whole.done();
    Ok(())
}

/// Ends Kyverno and removes what it and the chart made. The cluster stays.
///
/// # Errors
/// [`ClusterError`] where the cluster does not answer.
pub(crate) fn down(dir: &ClusterDir) -> Result<(), ClusterError> {
    let built = build(&cache_dir()?)?;
    let _gate = of_this_cluster(dir)?;
    let gone = step("Kyverno is gone");
    stop(dir)?;
    // Its webhooks first: nobody answers them, and they guard what is deleted next.
    for (label, kinds) in [
        (
            "webhook.kyverno.io/managed-by=kyverno",
            "validatingwebhookconfigurations,mutatingwebhookconfigurations",
        ),
        (
            "app.kubernetes.io/managed-by=kyverno",
            "validatingadmissionpolicies,validatingadmissionpolicybindings",
        ),
    ] {
        let mut delete = kubectl(dir);
        delete.args(["delete", kinds, "--selector", label, "--ignore-not-found"]);
        output(delete, None)?;
    }
    let mut delete = kubectl(dir);
    delete.args(["delete", "--ignore-not-found", "--filename", "-"]);
    output(delete, Some(&Chart::read(&built)?.objects()))?;
    gone.done();
    Ok(())
}

fn stop(dir: &ClusterDir) -> Result<(), ClusterError> {
    for part in PARTS {
        if let Some(id) = running(dir, part) {
            id.end(part)?;
        }
    }
    Ok(())
}

/// Refuses where the cluster in `dir` is not up, or is another process's.
fn of_this_cluster(dir: &ClusterDir) -> Result<Gate, ClusterError> {
    let gate = Gate::enter()?;
    let own = ProcessId::own().map(|own| own.pid);
    match gate.holder() {
        Holder::Cluster { dir: up } if up == dir.path() => Ok(gate),
        Holder::Process { pid, .. } if Some(pid) == own => Ok(gate),
        Holder::Process { pid, dir } => Err(ClusterError::InUse { pid, dir }),
        Holder::Cluster { dir } => Err(ClusterError::AlreadyUp(dir)),
        Holder::Nobody { .. } => Err(ClusterError::NoCluster(dir.path().to_owned())),
    }
}

fn bring_up(dir: &ClusterDir, built: &Path) -> Result<(), ClusterError> {
    let chart = Chart::read(built)?;
    let applied = step("Kyverno's kinds, accounts and rights are there");
    apply(dir, &chart.objects())?;
    for controller in &CONTROLLERS {
        account_kubeconfig(dir, controller.name, NAMESPACE, controller.name)?;
        let rights = format!("{} has its rights", controller.name);
        wait_for(&rights, UP_WITHIN, || Ok(controller.may(dir)))?;
    }
    applied.done();
    for controller in &CONTROLLERS {
        process::start(dir, controller.part(dir, built, &chart)?)?;
    }
    for controller in &CONTROLLERS {
        let ready = format!("{} is ready", controller.name);
        wait_for(&ready, UP_WITHIN, || {
            must_run(dir, controller.name)?;
            Ok(controller.is_ready(dir))
        })?;
    }
    Ok(())
}

/// The chart's manifests, as the module has them rendered.
struct Chart(Vec<String>);

impl Chart {
    fn read(built: &Path) -> Result<Self, ClusterError> {
        let path = built.join("manifests.yaml");
        let text = fs::read_to_string(&path).map_err(ClusterError::io("read", &path))?;
        Ok(Self(text.split("\n---\n").map(str::to_owned).collect()))
    }

    /// All but the pods and what leads to them: namespace, kinds, accounts, rights, settings.
    fn objects(&self) -> String {
        let left_out = |text: &&String| {
            let kind = text.lines().find_map(|line| line.strip_prefix("kind: "));
            !matches!(kind, Some("Deployment" | "Service"))
        };
        let kept: Vec<_> = self.0.iter().filter(left_out).map(String::as_str).collect();
        kept.join("\n---\n")
    }

    /// The container of a Deployment.
    fn container(&self, deployment: &str) -> Result<Value, ClusterError> {
        let named = format!("\n  name: {deployment}\n");
        let is_it = |text: &&String| text.contains("kind: Deployment\n") && text.contains(&named);
        let text = self.0.iter().find(is_it);
        let text = text.ok_or_else(|| not_understood(MANIFESTS, &"a Deployment is missing"))?;
        let deployment: Value =
            serde_saphyr::from_str(text).map_err(|error| not_understood(MANIFESTS, &error))?;
        let container = &deployment["spec"]["template"]["spec"]["containers"][0];
        if container["args"].is_array() && container["env"].is_array() {
            return Ok(container.clone());
        }
        Err(not_understood(MANIFESTS, &"a container has no flags"))
    }
}

impl Controller {
    /// The process, with the chart's flags and environment, then what differs outside of a pod: of
    /// two flags of one name the later counts.
    fn part(&self, dir: &ClusterDir, built: &Path, chart: &Chart) -> Result<Part, ClusterError> {
        let container = chart.container(self.name)?;
        let words = |field: &Value| field.as_str().unwrap_or_default().to_owned();
        let mut command = Command::new(built.join(self.program));
        command.args(
            container["args"]
                .as_array()
                .into_iter()
                .flatten()
                .map(words),
        );
        command.args(self.outside(dir));
        for variable in container["env"].as_array().into_iter().flatten() {
            let value = match variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
                Some("metadata.namespace") => NAMESPACE.to_owned(),
                Some(_) => self.name.to_owned(), // the pod's name
                None => words(&variable["value"]),
            };
            command.env(words(&variable["name"]), value);
        }
        // Nothing of it in the home of whoever runs the driver.
        let home = dir.join(self.name);
        command.env("HOME", &home).env("TUF_ROOT", home.join("tuf"));
        Ok(Part {
            name: self.name,
            command,
        })
    }

    /// What differs from the chart: how it finds the API server and is found, ports that two
    /// processes on one machine can share it with, and no metrics or reports, which nobody reads.
    fn outside(&self, dir: &ClusterDir) -> Vec<String> {
        let port = self.port;
        let mut flags = vec![
            format!("--kubeconfig={}", dir.kubeconfig(self.name).display()),
            // In place of the Service: the webhooks point here. The port belongs to it.
            format!("--serverIP=127.0.0.1:{port}"),
            "--disableMetrics=true".to_owned(),
            "--metricsHost=127.0.0.1".to_owned(),
            format!("--metricsPort={}", self.metrics_port),
        ];
        flags.extend(match self.program {
            "kyverno" => vec![
                "--webhookServerHost=127.0.0.1".to_owned(),
                format!("--webhookServerPort={port}"),
                "--controllerRuntimeMetricsAddress=0".to_owned(),
                "--admissionReports=false".to_owned(),
                "--enableReporting=".to_owned(),
            ],
            _ => vec![
                "--cleanupServerHost=127.0.0.1".to_owned(),
                format!("--cleanupServerPort={port}"),
                // A minute in the chart; a test waits for it.
                "--ttlReconciliationInterval=2s".to_owned(),
            ],
        });
        flags
    }

    /// Has the cluster put its aggregated ClusterRole together?
    fn may(&self, dir: &ClusterDir) -> bool {
        let mut ask = kubectl(dir);
        ask.args(["auth", "can-i", "--quiet"]).args(self.needs);
        ask.arg(format!(
            "--as=system:serviceaccount:{NAMESPACE}:{}",
            self.name
        ));
        output(ask, None).is_ok()
    }

    /// Is it ready, and does the API server know of its webhooks?
    fn is_ready(&self, dir: &ClusterDir) -> bool {
        let mut probe = Command::new(dir.program("kubectl"));
        probe.args(["--kubeconfig=/dev/null", "--insecure-skip-tls-verify"]);
        probe.arg("--token=none"); // without any it asks for a user's name
        probe.arg(format!("--server=https://127.0.0.1:{}", self.port));
        probe.args(["get", "--request-timeout=2s", "--raw", "/health/readiness"]);
        let mut webhooks = kubectl(dir);
        webhooks.args(["get", "validatingwebhookconfigurations"]);
        webhooks.args(self.webhooks);
        output(probe, None).is_ok() && output(webhooks, None).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_and_services_are_left_out_and_a_containers_flags_are_found() {
        let account = "apiVersion: v1\nkind: ServiceAccount\nmetadata:\n  name: a\n";
        let service = "apiVersion: v1\nkind: Service\nmetadata:\n  name: a\n";
        let deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: a\nspec:\n  \
                          template:\n    spec:\n      containers:\n      - args: [--x=1]\n        \
                          env: []\n";
        let chart = Chart([account, service, deployment].map(str::to_owned).to_vec());
        assert_eq!(chart.objects(), account);
        let container = chart.container("a").expect("it is there");
        assert_eq!(container["args"], serde_json::json!(["--x=1"]));
        assert!(chart.container("b").is_err());
    }
}
