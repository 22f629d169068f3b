//! What stands beside the policies: the debug image's signature, the bucket's job, Argo CD (P-1).

use super::yaml;
use crate::identity::Identity;
use crate::template::{Rendered, cel, rendered};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use std::fmt::Write as _;

/// How long the API server waits for Kyverno's word on a signature. Less than Break-glass waits
/// for the API server, or an opening ends with nobody knowing what came of it.
pub const SIGNATURE_SECONDS: u16 = 7;

/// Who signs the debug images, and where that is logged (keyless, by workflow identity).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signing {
    /// Images that the signature is asked of; covers every debug image.
    pub glob: String,
    /// The OpenID issuer of the workflow's identity.
    pub issuer: String,
    /// The workflow, as its certificate names it.
    pub subject: String,
    /// The transparency log's address.
    pub rekor_url: String,
    /// A Sigstore of one's own, in place of the public one.
    pub roots: Option<TrustRoots>,
}

/// A Sigstore of one's own: for tests, or a closed network.
///
/// Keys alone would not do: Kyverno asks a trust repository in any case, and verifies by what that
/// holds, whatever certificates stand in the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustRoots {
    /// The address of its trust repository, a TUF mirror.
    pub mirror: String,
    /// That repository's `root.json`.
    pub root: String,
    /// Whether certificates are in a log.
    pub certificate_log: CertificateLog,
}

/// What is asked of a signer's certificate besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertificateLog {
    /// That it is in the certificate-transparency log.
    Checked,
    /// Nothing: there is no such log.
    Absent,
}

/// The job that makes the bucket of recordings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BucketJob {
    /// Where it runs.
    pub namespace: String,
    /// An image with MinIO's client and a shell.
    pub image: String,
    /// The object store's address.
    pub endpoint: String,
    /// The bucket.
    pub bucket: String,
    /// Days that a recording is locked, and kept.
    pub days: u32,
    /// The Secret of the key that may make buckets and users.
    pub admin_secret: String,
    /// The Secret of the sidecar's key, which gets the right to put and get.
    pub key_secret: String,
}

/// The Argo CD Application of one cluster's manifests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Application {
    /// Argo CD's own namespace.
    pub namespace: String,
    /// Argo CD's project.
    pub project: String,
    /// The Git repository of the rendered manifests.
    pub repository: String,
    /// The folder in it.
    pub path: String,
    /// Branch, tag or commit.
    pub revision: String,
    /// The cluster's API server, as Argo CD knows it.
    pub server: String,
}

pub(super) fn debug_image(backend: &Identity, signing: &Signing) -> Rendered {
    let (mut trust, mut log) = (String::new(), String::new());
    if let Some(own) = &signing.roots {
        let root = BASE64.encode(&own.root);
        let _ = writeln!(trust, "        tuf:");
        let _ = writeln!(trust, "          mirror: {}", yaml(&own.mirror));
        let _ = writeln!(trust, "          root:");
        let _ = writeln!(trust, "            data: {}", yaml(&root));
        match own.certificate_log {
            CertificateLog::Checked => {}
            CertificateLog::Absent => log.push_str("          insecureIgnoreSCT: true\n"),
        }
    }
    rendered(
        "policy-60-debug-image.yaml",
        include_str!("../../templates/both/debug-image.yaml"),
        &[
            ("backend", &cel(&backend.to_string())),
            ("seconds", &SIGNATURE_SECONDS.to_string()),
            ("glob", &yaml(&signing.glob)),
            ("issuer", &yaml(&signing.issuer)),
            ("subject", &yaml(&signing.subject)),
            ("trust", &trust),
            ("rekor", &yaml(&signing.rekor_url)),
            ("log", &log),
        ],
    )
}

pub(super) fn bucket_job(job: &BucketJob) -> Rendered {
    rendered(
        "bucket-10-job.yaml",
        include_str!("../../templates/bucket/job.yaml"),
        &[
            ("namespace", &yaml(&job.namespace)),
            ("image", &yaml(&job.image)),
            ("endpoint", &yaml(&job.endpoint)),
            ("bucket", &yaml(&job.bucket)),
            ("days", &yaml(&job.days.to_string())),
            ("adminSecret", &yaml(&job.admin_secret)),
            ("keySecret", &yaml(&job.key_secret)),
        ],
    )
}

pub(super) fn application(application: &Application) -> Rendered {
    rendered(
        "argocd/application.yaml",
        include_str!("../../templates/argocd/application.yaml"),
        &[
            ("namespace", &yaml(&application.namespace)),
            ("project", &yaml(&application.project)),
            ("repository", &yaml(&application.repository)),
            ("path", &yaml(&application.path)),
            ("revision", &yaml(&application.revision)),
            ("server", &yaml(&application.server)),
        ],
    )
}
