//! The rendered policies on a real API server (P-10): every case as the real request, by the one
//! who would send it. Flight as it is rendered; Ground as Kyverno compiles it, without Kyverno and
//! (`real_kyverno`) with it. What is refused is refused in the very words of `policies eval` (P-6).
//!
//! Runs on the cluster whose folder `BREAKGLASS_TEST_CLUSTER` names (`cargo xtask cluster up DIR`).
//! A run without a cluster fails, unless `BREAKGLASS_SKIP` names `cluster`. The policies are taken
//! away again, whatever comes out: other tests use the same cluster.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::too_many_lines,
    reason = "a test panics to fail, and tells its story in one piece"
)]

#[path = "policies_on_a_real_cluster/mesh.rs"]
mod mesh;
#[path = "policies_on_a_real_cluster/pod_security.rs"]
mod pod_security;
#[path = "policies_on_a_real_cluster/real_kyverno.rs"]
mod real_kyverno;
#[path = "policies_on_a_real_cluster/versions.rs"]
mod versions;
#[path = "policies_on_a_real_cluster/world.rs"]
mod world;

use breakglass_tests::policy_cases::{Actor, Case, Expected, all};
use breakglass_tests::real_cluster::until;
use breakglass_tests::{cli, root};
use decisions::session::Tier;
use http::Method;
use policies::eval::{Decision, PolicySet, Request};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use world::{BACKEND, NATIVE, World};

/// What the engine says of a case, whole; `None` where it lets the request through.
fn evaluated(offline: &PolicySet, case: &Case) -> Option<String> {
    let request = case.request(BACKEND).expect("a request");
    let judgement = offline.judge(&Request::from_json(&request).expect("a request"), None);
    match (judgement.denial(), judgement.decision()) {
        (Some((verdict, denial)), _) => {
            Some(format!("{}: {}", denial.reason, verdict.told(denial)))
        }
        (None, Decision::Allowed) => None,
        (None, Decision::Denied | Decision::Undecided) => Some("undecided".to_owned()),
    }
}

/// What came of one case; `None` where it is as expected.
async fn judged(world: &World, offline: &PolicySet, case: &Case) -> Option<String> {
    let (status, answer) = world.send_case(case).await;
    let message = answer["message"].as_str().unwrap_or_default();
    // Before it stands which object of which resource is refused.
    let by_policy = message.find("ValidatingAdmissionPolicy '");
    let said = by_policy.map(|at| {
        let reason = answer["reason"].as_str().unwrap_or_default();
        format!("{reason}: {}", &message[at..])
    });
    let by_policy = by_policy.is_some();
    let right = match &case.expected {
        // A connection that is let through fails later, for want of an upgrade or a node.
        Expected::Allowed => !by_policy && (status < 300 || World::connects(case)),
        Expected::Denied { policy, says } => {
            let named = [format!("'{policy}'"), format!("'vpol-{policy}'")];
            status == 403
                && named.iter().any(|name| message.contains(name.as_str()))
                && message.contains(says.as_str())
        }
        Expected::Refused(expected) => !by_policy && status == *expected,
    };
    // What the API's own validation refuses, no policy is asked about.
    let alone = matches!(case.expected, Expected::Refused(_));
    let evaluated = evaluated(offline, case).filter(|_| !alone);
    let policy = &case.policy;
    (!right || said != evaluated).then(|| {
        format!(
            "{policy}: {}\n   wanted {:?}\n   evaluated {evaluated:?}\n   got {status} {message}",
            case.name, case.expected
        )
    })
}

fn cases_of(tier: Tier) -> Vec<Case> {
    let mut cases = all(&root(), BACKEND).expect("cases");
    cases.retain(|case| case.tiers.contains(&tier));
    cases
}

async fn every_case(tier: Tier) {
    let Some(world) = World::of_this_run().await else {
        return;
    };
    let cases = cases_of(tier);
    let world = world.furnished(&cases).await;
    world.apply(tier).await;
    let offline = world::offline(tier);
    let mut wrong = Vec::new();
    for case in &cases {
        wrong.extend(judged(&world, &offline, case).await);
    }
    wrong.extend(generated(&world, tier).await);
    world.take_away().await;
    assert_none(&wrong, cases.len(), tier);
}

fn assert_none(wrong: &[String], of: usize, tier: Tier) {
    assert!(
        wrong.is_empty(),
        "{} of {of} cases on {tier:?}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    eprintln!("{of} cases on {tier:?}");
}

/// P-4a as far as this API server goes: it asks no policy about policies, so who has the right may
/// change a generated one. Should a later one ask, the guard's rule is there and this test tells.
async fn generated(world: &World, tier: Tier) -> Option<String> {
    if tier == Tier::Flight {
        return None;
    }
    let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/\
                vpol-tower-breakglass-pod-delete?dryRun=All";
    let change = json!({ "spec": { "failurePolicy": "Ignore" } });
    let (status, answer) = world
        .send(Actor::Developer, Method::PATCH, path, &change)
        .await;
    (status != 200).then(|| format!("policies guard policies here: {status} {answer}"))
}

#[tokio::test]
async fn p_10_every_case_on_flight() {
    every_case(Tier::Flight).await;
}

#[tokio::test]
async fn p_10_every_case_on_ground_as_kyverno_compiles_it() {
    every_case(Tier::Ground).await;
}

/// The files that an operator's configuration of the cases gives.
struct Rendering {
    _folder: tempfile::TempDir,
    file: String,
    out: String,
}

impl Rendering {
    fn of(world: &World, tier: Tier) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let [file, out] = ["b.yaml", "out"].map(|name| {
            let path = folder.path().join(name);
            path.to_str().expect("text").to_owned()
        });
        let configuration = configuration(&world.admin_conf(), tier).to_string();
        std::fs::write(&file, configuration).expect("written");
        let cluster = ["--config", &file, "--cluster", "real"];
        let render = [&["render"][..], &cluster, &["--out", &out]].concat();
        assert_eq!(breakglass(&render).0, 0);
        Self {
            _folder: folder,
            file,
            out,
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        Path::new(&self.out).join(name)
    }

    /// Applies all but the policy of images, which needs a registry and a log to check anything.
    fn apply(&self, world: &World) -> bool {
        let all = std::fs::read_dir(&self.out).expect("a folder");
        let mut files: Vec<_> = all.map(|entry| entry.expect("a file").path()).collect();
        files.retain(|path| path.is_file() && !path.ends_with("policy-60-debug-image.yaml"));
        world.kubectl_apply(&files)
    }

    fn diff(&self, cluster: &str) -> (i32, Vec<String>) {
        breakglass(&["diff", "--config", &self.file, "--cluster", cluster])
    }
}

/// Nothing differs but that the policy of images was not applied.
fn says_nothing(said: &[String]) -> bool {
    let image_policy = "ImageValidatingPolicy `tower-breakglass-debug-image` is not there";
    said.len() == 1 && said[0].contains(image_policy)
}

/// The configuration of the cases, as an operator would write it.
fn configuration(kubeconfig: &Path, tier: Tier) -> Value {
    use breakglass_tests::policy_cases::{
        COPY_ANNOTATIONS, DEBUG_IMAGES, INSTALLATION, actor_groups,
    };
    let tier = match tier {
        Tier::Ground => "ground",
        Tier::Flight => "flight",
    };
    json!({
        "installation": INSTALLATION, "socket": "/run/x.sock", "spool": "/spool",
        "recordings": { "folder": { "path": "/recordings" } },
        "debugImages": DEBUG_IMAGES,
        "clusters": { "real": { "kubeconfig": { "path": kubeconfig } } },
        "policies": {
            "clusters": { "real": { "backend": BACKEND, "tier": tier } },
            "operators": actor_groups(Actor::Operator),
            "copyAnnotations": COPY_ANNOTATIONS,
            "appliers": world::appliers(),
            "imageSigning": { "glob": "ghcr.io/hangar/*", "issuer": "https://i", "subject": "s" },
        },
    })
}

/// `breakglass policies …`; the exit status and what was said.
fn breakglass(arguments: &[&str]) -> (i32, Vec<String>) {
    let mut command = Command::new(cli::binary().expect("the binary is built"));
    let output = command
        .arg("policies")
        .args(arguments)
        .output()
        .expect("it runs");
    let said = String::from_utf8(output.stdout).expect("text");
    let said = said.lines().map(str::to_owned).collect();
    (output.status.code().expect("it ends by itself"), said)
}

#[tokio::test]
async fn p_2_what_was_changed_on_the_cluster_is_told() {
    let Some(world) = World::of_this_run().await else {
        return;
    };
    let world = world.furnished(&[]).await;
    let rendering = Rendering::of(&world, Tier::Flight);
    // Kyverno is not here, so nothing knows what an ImageValidatingPolicy is.
    let applied = rendering.apply(&world);
    let (same, said) = rendering.diff("real");

    let names = ["pod-delete", "pod-annotate", "no-exec"].map(|n| format!("tower-breakglass-{n}"));
    let bindings = "validatingadmissionpolicybindings";
    for (path, change) in [
        (
            format!("validatingadmissionpolicies/{}", names[0]),
            json!({ "spec": { "failurePolicy": "Ignore" } }),
        ),
        (
            format!("{bindings}/{}", names[1]),
            json!({ "spec": { "validationActions": ["Audit"] } }),
        ),
    ] {
        world.change(&format!("{NATIVE}/{path}"), &change).await;
    }
    world
        .remove(&format!("{NATIVE}/{bindings}/{}", names[2]))
        .await;
    let (differs, changed) = rendering.diff("real");
    let nobody = rendering.diff("other");
    world.take_away().await;

    assert!(applied, "kubectl applies what is rendered");
    assert!(same == 1 && says_nothing(&said), "{said:#?}");
    let told = |words: &str| changed.iter().filter(|line| line.contains(words)).count();
    assert_eq!((differs, changed.len()), (1, 4), "{changed:#?}");
    assert_eq!(
        told("tower-breakglass-pod-delete` has the failurePolicy"),
        1,
        "{changed:#?}"
    );
    assert_eq!(
        told("tower-breakglass-pod-annotate` does not deny"),
        1,
        "{changed:#?}"
    );
    assert_eq!(
        told("tower-breakglass-no-exec` is not there"),
        1,
        "{changed:#?}"
    );
    assert_eq!(nobody.0, 2, "{nobody:?}");
}

/// The API server checks the types of what it knows: `pods` and RoleBindings, no subresource.
#[tokio::test]
async fn the_api_server_has_no_warning_about_an_expression() {
    let Some(world) = World::of_this_run().await else {
        return;
    };
    let world = world.furnished(&[]).await;
    world.apply(Tier::Flight).await;
    let warnings = world.type_warnings().await;
    world.take_away().await;
    assert_eq!(warnings, Vec::<Value>::new());
}
