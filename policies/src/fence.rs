//! The admission policies of one cluster, rendered (P-1, P-2, P-4a).
//!
//! Invariant: Ground and Flight are written from one text per policy; where they differ stands in
//! [`FLIGHT_ONLY`] and nowhere else. Scope is by actor or by reserved name (P-3).

use crate::identity::{Identity, ServiceAccount};
use crate::template::{Rendered, cel, cel_list, filled, quoted, rendered};
use decisions::debug_container::hard_deadline_seconds;
use decisions::request::DURATIONS_MINUTES;
use decisions::session::Tier;

mod beside;

pub use beside::{Application, BucketJob, CertificateLog, SIGNATURE_SECONDS, Signing, TrustRoots};

/// What every policy's name begins with; nobody else's policy may (P-4a).
pub const PREFIX: &str = "tower-breakglass-";
/// What Kyverno puts before the name of a policy that it compiles.
pub const GENERATED_PREFIX: &str = "vpol-tower-breakglass-";

/// What the fence of one cluster is rendered from.
#[derive(Debug, Clone)]
pub struct FenceConfig {
    /// Which fence the cluster has: Kyverno's policies on Ground, native ones on Flight.
    pub tier: Tier,
    /// The installation's name, on everything that it makes (C-2c).
    pub installation: String,
    /// Break-glass as this cluster knows it (C-1): whom the policies are about.
    pub backend: Identity,
    /// Debug images by digest; all are accepted (P-2).
    pub debug_images: Vec<String>,
    /// Groups whose members may exec and attach on Flight, and change the fence's policies.
    pub operators: Vec<String>,
    /// Kyverno's own accounts, which may change what Kyverno generates (P-4a).
    pub kyverno: Vec<ServiceAccount>,
    /// Annotations that others' webhooks write on each pod, and a copy may have for it.
    pub copy_annotations: Vec<String>,
    /// Who rolls the fence out, and so makes, changes and deletes its policies (P-4a).
    pub appliers: Vec<Identity>,
    /// By whom debug images are signed.
    pub signing: Signing,
    /// The job that makes the bucket of recordings, on the cluster that has it.
    pub bucket: Option<BucketJob>,
    /// The Argo CD Application, where Argo CD is used.
    pub application: Option<Application>,
}

/// What Flight has and Ground has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlightOnly {
    /// One more clause in a policy that both have.
    Clause {
        /// The policy's name.
        policy: &'static str,
        /// Why, for a person.
        why: &'static str,
        /// What the clause says where it refuses, whole.
        message: &'static str,
        /// The text of the clause.
        text: &'static str,
    },
    /// A policy that Ground has not.
    Policy {
        /// The policy's name.
        policy: &'static str,
        /// Why, for a person.
        why: &'static str,
    },
}

/// Every difference between the two fences (P-8).
pub const FLIGHT_ONLY: [FlightOnly; 2] = [
    FlightOnly::Clause {
        policy: "tower-breakglass-rolebinding",
        why: "on Flight somebody else approved, or the glass was broken",
        message: "on Flight a grant names who asked for it and either a second person who approved \
                  it or that the glass was broken, and not both",
        text: include_str!("../templates/flight/rolebinding-approver.yaml"),
    },
    FlightOnly::Policy {
        policy: "tower-breakglass-no-exec",
        why: "on Ground people keep their own exec and attach",
    },
];

/// One policy in the form that both fences are written from.
struct Source {
    name: &'static str,
    file_name: &'static str,
    what: &'static str,
    body: &'static str,
}

const FENCE: [Source; 5] = [
    Source {
        name: "tower-breakglass-rolebinding",
        file_name: "policy-10-rolebinding.yaml",
        what: "The grant: the RoleBinding by which Break-glass gives itself a session's rights.",
        body: include_str!("../templates/fence/rolebinding.yaml"),
    },
    Source {
        name: "tower-breakglass-debug-container",
        file_name: "policy-20-debug-container.yaml",
        what: "What Break-glass may add to a pod, and what a copy of a pod may be.",
        body: include_str!("../templates/fence/debug-container.yaml"),
    },
    Source {
        name: "tower-breakglass-pod-delete",
        file_name: "policy-30-pod-delete.yaml",
        what: "Which pods Break-glass may delete.",
        body: include_str!("../templates/fence/pod-delete.yaml"),
    },
    Source {
        name: "tower-breakglass-pod-annotate",
        file_name: "policy-40-pod-annotate.yaml",
        what: "What Break-glass may change in a pod: one annotation.",
        body: include_str!("../templates/fence/pod-annotate.yaml"),
    },
    Source {
        name: "tower-breakglass-no-exec",
        file_name: "policy-50-no-exec.yaml",
        what: "Nobody has a shell in an app's pod but by a session. Operators excepted.",
        body: include_str!("../templates/flight/no-exec.yaml"),
    },
];

/// Native on both tiers: Kyverno cannot guard itself.
const GUARD: Source = Source {
    name: "tower-breakglass-guard",
    file_name: "policy-00-guard.yaml",
    what: "Nobody switches the fence off in passing.",
    body: include_str!("../templates/both/guard.yaml"),
};

/// Native on both tiers, so that on Ground too, where people keep their own exec, a taken-over
/// backend has no other shell than a session's.
const ATTACH: Source = Source {
    name: "tower-breakglass-attach",
    file_name: "policy-45-attach.yaml",
    what: "Break-glass attaches to a session's debug container, and has no other shell.",
    body: include_str!("../templates/both/attach.yaml"),
};

/// The policies of one cluster and what belongs to them, in the order of their files' names.
#[must_use]
pub fn render_fence(config: &FenceConfig) -> Vec<Rendered> {
    let values = Values::of(config);
    let mut files: Vec<Rendered> = [&GUARD, &ATTACH]
        .map(|source| values.native(source, source.body))
        .into();
    for source in &FENCE {
        let Some(body) = body(source, config.tier) else {
            continue;
        };
        files.push(match config.tier {
            Tier::Flight => values.native(source, &body),
            Tier::Ground => values.kyverno(source, &body),
        });
    }
    files.push(beside::debug_image(&config.backend, &config.signing));
    files.push(rendered(
        "rbac-50-kyverno-cleanup.yaml",
        include_str!("../templates/both/kyverno-cleanup.yaml"),
        &[],
    ));
    files.extend(config.bucket.as_ref().map(beside::bucket_job));
    files.extend(config.application.as_ref().map(beside::application));
    files.sort_by_key(|file| file.file_name);
    files
}

/// The policy's text on this tier; `None` where the tier has no such policy.
fn body(source: &Source, tier: Tier) -> Option<String> {
    let mut text = source.body.to_owned();
    for difference in &FLIGHT_ONLY {
        match (difference, tier) {
            (
                FlightOnly::Clause {
                    policy, text: more, ..
                },
                Tier::Flight,
            ) if *policy == source.name => {
                // Validations come last in every text, so a clause is appended.
                text.push_str(more);
            }
            (FlightOnly::Policy { policy, .. }, Tier::Ground) if *policy == source.name => {
                return None;
            }
            (FlightOnly::Clause { .. } | FlightOnly::Policy { .. }, _) => {}
        }
    }
    Some(text)
}

/// What stands in the policies' expressions, as CEL.
struct Values {
    backend: String,
    subject: String,
    installation: String,
    images: String,
    operators: String,
    copy_annotations: String,
    changers: String,
    copy_seconds: String,
}

impl Values {
    fn of(config: &FenceConfig) -> Self {
        let longest = DURATIONS_MINUTES.iter().copied().max().unwrap_or_default();
        let kyverno = config.kyverno.iter().cloned();
        let kyverno = kyverno.map(Identity::ServiceAccount);
        let changers = kyverno.chain(config.appliers.iter().cloned());
        let changers: Vec<String> = changers.map(|one| one.to_string()).collect();
        Self {
            backend: cel(&config.backend.to_string()),
            subject: subject(&config.backend),
            installation: cel(&config.installation),
            images: cel_list(config.debug_images.iter().map(String::as_str)),
            operators: cel_list(config.operators.iter().map(String::as_str)),
            copy_annotations: cel_list(config.copy_annotations.iter().map(String::as_str)),
            changers: cel_list(changers.iter().map(String::as_str)),
            copy_seconds: hard_deadline_seconds(longest).to_string(),
        }
    }

    fn native(&self, source: &Source, body: &str) -> Rendered {
        let wrapper = include_str!("../templates/flight/policy.yaml");
        self.wrapped(source, body, wrapper)
    }

    fn kyverno(&self, source: &Source, body: &str) -> Rendered {
        let wrapper = include_str!("../templates/ground/policy.yaml");
        self.wrapped(source, body, wrapper)
    }

    fn wrapped(&self, source: &Source, body: &str, wrapper: &str) -> Rendered {
        let body = filled(
            body,
            &[
                ("backend", &self.backend),
                ("subject", &self.subject),
                ("installation", &self.installation),
                ("images", &self.images),
                ("operators", &self.operators),
                ("copyAnnotations", &self.copy_annotations),
                ("changers", &self.changers),
                ("copySeconds", &self.copy_seconds),
            ],
        );
        let values = [
            ("name", source.name),
            ("what", source.what),
            ("body", &body),
        ];
        rendered(source.file_name, wrapper, &values)
    }
}

/// Whether `s` is the backend, as the subject of a RoleBinding (C-1).
fn subject(backend: &Identity) -> String {
    match backend {
        Identity::ServiceAccount(account) => format!(
            "s.kind == \"ServiceAccount\" && (!has(s.apiGroup) || s.apiGroup == \"\") && \
             has(s.namespace) && s.namespace == {} && s.name == {}",
            cel(account.namespace()),
            cel(account.name())
        ),
        Identity::User(_) => format!(
            "s.kind == \"User\" && (!has(s.namespace) || s.namespace == \"\") && s.name == {}",
            cel(&backend.to_string())
        ),
    }
}

/// A YAML value for a template, as one quoted string.
fn yaml(text: &str) -> String {
    quoted(text)
}

#[cfg(test)]
pub(crate) mod tests;
