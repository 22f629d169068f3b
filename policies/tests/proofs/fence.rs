//! The rendered policies, and the cases as requests.

use crate::policy_cases::{
    self, Actor, COPY_ANNOTATIONS, Case as Written, DEBUG_IMAGES, Expected, INSTALLATION,
};
use decisions::session::Tier;
use policies::cel::KubernetesVersion;
use policies::eval::{Case, Decision, PolicySet, Refusal, Request};
use policies::fence::{FenceConfig, Signing, render_fence};
use policies::identity::{Identity, ServiceAccount};
use policies::model::{Document, Policy, PolicyKind};
use std::path::PathBuf;

pub(crate) const VERSION: KubernetesVersion = KubernetesVersion::NEWEST;
const BACKEND: &str = "system:serviceaccount:breakglass-cases:backend";

pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn config(tier: Tier) -> FenceConfig {
    let account = |name| ServiceAccount::new("kyverno", name).expect("valid");
    FenceConfig {
        tier,
        installation: INSTALLATION.to_owned(),
        backend: Identity::of_user_name(BACKEND).expect("valid"),
        debug_images: DEBUG_IMAGES.map(str::to_owned).to_vec(),
        operators: policy_cases::actor_groups(Actor::Operator)
            .iter()
            .map(|group| (*group).to_owned())
            .collect(),
        kyverno: vec![
            account("kyverno-admission-controller"),
            account("kyverno-background-controller"),
        ],
        copy_annotations: COPY_ANNOTATIONS.map(str::to_owned).to_vec(),
        appliers: vec![Identity::of_user_name(Actor::Applier.user(BACKEND)).expect("valid")],
        signing: Signing {
            glob: "ghcr.io/hangar/tower-debug*".to_owned(),
            issuer: "https://token.actions.githubusercontent.com".to_owned(),
            subject: "https://github.com/hangar/debug-image".to_owned(),
            rekor_url: "https://rekor.sigstore.dev".to_owned(),
            roots: None,
        },
        bucket: None,
        application: None,
    }
}

pub(crate) fn documents(tier: Tier) -> Vec<Document> {
    let files = render_fence(&config(tier));
    let read = |text: &str| Policy::parse_all("rendered", text.as_bytes()).expect("a file");
    files.iter().flat_map(|file| read(&file.text)).collect()
}

/// Those that expressions alone decide.
pub(crate) fn judged(tier: Tier) -> Vec<Document> {
    let by_a_webhook = |document: &Document| {
        let Document::Policy(policy) = document else {
            return false;
        };
        policy.kind == PolicyKind::ImageValidatingPolicy
    };
    let all = documents(tier).into_iter();
    all.filter(|document| !by_a_webhook(document)).collect()
}

pub(crate) fn policies(tier: Tier) -> Vec<Policy> {
    let all = documents(tier).into_iter();
    all.filter_map(|document| match document {
        Document::Policy(policy) => Some(*policy),
        Document::Binding(_) | Document::Exception(_) | Document::Unknown(_) => None,
    })
    .collect()
}

/// Those that expressions alone decide.
pub(crate) fn by_expressions(tier: Tier) -> Vec<Policy> {
    let mut all = policies(tier);
    all.retain(|policy| policy.kind != PolicyKind::ImageValidatingPolicy);
    all
}

/// Every case of the tier, less those that the API's own validation ends before any policy.
pub(crate) fn cases(tier: Tier) -> Vec<Case> {
    let mut all = policy_cases::all(&root(), BACKEND).expect("cases");
    all.extend(policy_cases::offline(&root(), BACKEND).expect("cases"));
    let all = all.into_iter().filter(|case| case.tiers.contains(&tier));
    let mut all: Vec<Case> = all.filter_map(|case| of(&case)).collect();
    let flight = (tier == Tier::Flight).then_some("flight.yaml");
    for name in ["guard.yaml", "elsewhere.yaml", "others.yaml"]
        .into_iter()
        .chain(flight)
    {
        all.extend(written(name));
    }
    all
}

/// Requests in versions that no API server serves: which one a rule names.
pub(crate) fn of_other_versions() -> Vec<Case> {
    written("versions.yaml")
}

fn written(name: &str) -> Vec<Case> {
    let file = root().join("tests/policies/offline").join(name);
    let bytes = std::fs::read(file).expect("the cases that are judged offline");
    Case::parse_all(name, &bytes).unwrap_or_else(|error| panic!("{error}"))
}

fn of(case: &Written) -> Option<Case> {
    let denied = match &case.expected {
        Expected::Allowed => None,
        Expected::Denied { policy, says } => Some(Refusal {
            by: policy.clone(),
            says: says.clone(),
        }),
        Expected::Refused(_) => return None,
    };
    let request = case.request(BACKEND).expect("a request");
    let request = Request::from_json(&request);
    Some(Case {
        name: format!("{}: {}", case.policy, case.name),
        request: request.unwrap_or_else(|why| panic!("{}: {why}", case.name)),
        denied,
    })
}

/// What the real API server is asked too, so that a request built here is like one sent there.
fn every_case_comes_out_as_it_says(tier: Tier) {
    let set = PolicySet::new(judged(tier), VERSION).expect("policies");
    let mut wrong = Vec::new();
    for case in cases(tier) {
        let judgement = set.judge(&case.request, None);
        let right = match (&case.denied, judgement.denial()) {
            (None, None) => judgement.decision() == Decision::Allowed,
            (Some(wanted), Some((verdict, denial))) => {
                verdict.policy.trim_start_matches("vpol-") == wanted.by
                    && denial.message.contains(&wanted.says)
            }
            (None, Some(_)) | (Some(_), None) => false,
        };
        if !right {
            wrong.push(format!("{}: {:?}", case.name, judgement.denial()));
        }
    }
    assert!(wrong.is_empty(), "{tier:?}: {wrong:#?}");
}

#[test]
fn every_case_comes_out_as_it_says_on_flight() {
    every_case_comes_out_as_it_says(Tier::Flight);
}

#[test]
fn every_case_comes_out_as_it_says_on_ground() {
    every_case_comes_out_as_it_says(Tier::Ground);
}
