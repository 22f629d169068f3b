//! What the fences are rendered from, beyond what the sidecar itself runs on (P-2).
//!
//! Invariant: what both need (installation, debug images, Ground clusters) stands elsewhere in the
//! file, once: a fence cannot be rendered for another configuration than the sidecar's.

use super::Config;
use decisions::session::Tier;
use policies::fence::{Application, BucketJob, CertificateLog, FenceConfig, Signing, TrustRoots};
use policies::identity::{Identity, NameError, ServiceAccount};
use policies::render::{RbacConfig, TokenMinter};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The fences.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PoliciesConfig {
    /// The fence of each cluster, by the names in `clusters`.
    pub clusters: BTreeMap<String, FenceWritten>,
    /// Groups of people who may exec and attach on Flight and change the fence's policies.
    #[serde(default)]
    pub operators: Vec<String>,
    /// Kyverno's own service accounts, `namespace/name`.
    #[serde(default = "kyverno_accounts")]
    pub kyverno: Vec<String>,
    /// Keys of annotations that a webhook of the clusters writes on every pod, so that a copy may
    /// have them. None that gives a pod an identity, a network or a device.
    #[serde(default)]
    pub copy_annotations: Vec<String>,
    /// Who rolls the fence out, and so may make, change and delete its policies: user names as the
    /// clusters know them. Without it: where `argoCd` is there, Argo CD's account on the cluster.
    #[serde(default)]
    pub appliers: Option<Vec<String>>,
    /// Who signs the debug images.
    pub image_signing: SigningWritten,
    /// The job that makes the bucket of recordings. Without it none is rendered.
    #[serde(default)]
    pub bucket_job: Option<BucketWritten>,
    /// Argo CD. Without it no Application is rendered.
    #[serde(default)]
    pub argo_cd: Option<ArgoWritten>,
}

/// The fence of one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FenceWritten {
    /// Break-glass as this cluster knows it: `system:serviceaccount:<namespace>:<name>`, or a
    /// user's name. What a SelfSubjectReview there answers.
    pub backend: String,
    /// Which fence. Without it: Ground where `groundClusters` names the cluster, else Flight.
    #[serde(default)]
    pub tier: Option<TierWritten>,
    /// On the home cluster of a minted token: whose token is minted there, and by whom.
    #[serde(default)]
    pub token_minter: Option<MinterWritten>,
    /// This cluster's API server as Argo CD knows it.
    #[serde(default = "own_cluster")]
    pub argo_cd_server: String,
}

/// Which fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TierWritten {
    /// Kyverno's policies; nobody has to agree.
    Ground,
    /// Native policies; a second person agrees, and nobody execs.
    Flight,
}

/// Who may mint the token of which account (C-2, C-2b).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MinterWritten {
    /// The user name that asks for the token.
    pub by: String,
    /// The account, `namespace/name`.
    pub service_account: String,
}

/// Who signs the debug images (keyless, by a workflow's identity).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SigningWritten {
    /// Images that need the signature: a beginning, then `*`. Covers all of `debugImages`.
    pub glob: String,
    /// The OpenID issuer.
    pub issuer: String,
    /// The workflow and its branch, whole: `https://…/release.yml@refs/heads/main`.
    pub subject: String,
    /// The transparency log.
    #[serde(default = "public_rekor")]
    pub rekor_url: String,
    /// A Sigstore of one's own, in place of the public one: for tests, or a closed network.
    #[serde(default)]
    pub trust_roots: Option<TrustRootsWritten>,
}

/// A Sigstore of one's own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TrustRootsWritten {
    /// The address of its trust repository (a TUF mirror), as Kyverno reaches it.
    pub mirror: String,
    /// That repository's `root.json`, the whole text.
    pub root: String,
    /// Whether its certificates are in a certificate-transparency log.
    #[serde(default)]
    pub certificate_log: CertificateLogWritten,
}

/// What is asked of a signer's certificate besides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CertificateLogWritten {
    /// That it is in the certificate-transparency log.
    #[default]
    Checked,
    /// Nothing: there is no such log.
    Absent,
}

/// The job that makes the bucket of recordings.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BucketWritten {
    /// The cluster that it runs on.
    pub cluster: String,
    /// The namespace there.
    pub namespace: String,
    /// An image by digest with MinIO's client and a shell.
    pub image: String,
    /// The object store's address.
    pub endpoint: String,
    /// The bucket.
    #[serde(default = "bucket_name")]
    pub bucket: String,
    /// The Secret of the key that may make buckets and users (`accessKey`, `secretKey`).
    pub admin_secret: String,
    /// The Secret of the sidecar's own key.
    pub key_secret: String,
}

/// Argo CD.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ArgoWritten {
    /// The Git repository of the rendered manifests.
    pub repository: String,
    /// The folder in it; a folder for each cluster's name is below.
    pub path: String,
    /// Branch, tag or commit.
    #[serde(default = "head")]
    pub revision: String,
    /// Argo CD's project.
    #[serde(default = "default_project")]
    pub project: String,
    /// Argo CD's own namespace.
    #[serde(default = "argo_namespace")]
    pub namespace: String,
}

/// What its chart calls them. The last one writes every policy again when Helm upgrades Kyverno.
fn kyverno_accounts() -> Vec<String> {
    [
        "admission-controller",
        "background-controller",
        "cleanup-controller",
        "migrate-resources",
    ]
    .map(|part| format!("kyverno/kyverno-{part}"))
    .to_vec()
}

fn own_cluster() -> String {
    "https://kubernetes.default.svc".to_owned()
}

fn public_rekor() -> String {
    "https://rekor.sigstore.dev".to_owned()
}

fn bucket_name() -> String {
    "tower-breakglass-v2".to_owned()
}

fn head() -> String {
    "HEAD".to_owned()
}

fn default_project() -> String {
    "default".to_owned()
}

fn argo_namespace() -> String {
    "argocd".to_owned()
}

/// Why there is no fence for a cluster.
#[derive(Debug, thiserror::Error)]
pub enum FenceError {
    /// The file has no section for it.
    #[error("the configuration has no `policies`, so nothing can be rendered: add the section")]
    NoSection,
    /// No such cluster in it.
    #[error("`policies.clusters` has no `{0}`; nothing was rendered: add it")]
    NoCluster(String),
    /// A name that no API server gives.
    #[error("`{key}`: {why}")]
    Name {
        /// Where it stands.
        key: String,
        /// What is wrong with it.
        why: NameError,
    },
}

/// What one cluster's manifests are rendered from.
#[derive(Debug, Clone)]
pub struct ClusterFence {
    /// Its rights.
    pub rbac: RbacConfig,
    /// Its policies.
    pub fence: FenceConfig,
}

impl Config {
    /// What the manifests of `cluster` are rendered from (P-2).
    ///
    /// # Errors
    /// [`FenceError`]: the section, the cluster or a usable name is missing.
    pub fn fence(&self, cluster: &str) -> Result<ClusterFence, FenceError> {
        let policies = self.policies.as_ref().ok_or(FenceError::NoSection)?;
        policies.fence(self, cluster)
    }

    /// The policies of every cluster that has a fence, by its name; none without the section.
    ///
    /// # Errors
    /// [`FenceError`]: a usable name is missing.
    pub fn fences(&self) -> Result<BTreeMap<String, FenceConfig>, FenceError> {
        let named = self
            .policies
            .iter()
            .flat_map(|policies| policies.clusters.keys());
        let fence = |name: &String| Ok((name.clone(), self.fence(name)?.fence));
        named.map(fence).collect()
    }
}

impl PoliciesConfig {
    fn fence(&self, config: &Config, cluster: &str) -> Result<ClusterFence, FenceError> {
        let written = self
            .clusters
            .get(cluster)
            .ok_or_else(|| FenceError::NoCluster(cluster.to_owned()))?;
        let at = |key: &str| format!("policies.clusters.{cluster}.{key}");
        let backend = named(at("backend"), Identity::of_user_name(&written.backend))?;
        let rbac = RbacConfig::new(&config.installation, backend.clone());
        let mut rbac = named("installation".to_owned(), rbac)?;
        if let Some(minter) = &written.token_minter {
            rbac = rbac.with_token_minter(TokenMinter {
                by: named(at("tokenMinter.by"), Identity::of_user_name(&minter.by))?,
                account: named(at("tokenMinter"), account(&minter.service_account))?,
            });
        }
        let kyverno =
            self.kyverno.iter().enumerate().map(|(position, text)| {
                named(format!("policies.kyverno[{position}]"), account(text))
            });
        let ground = config.ground_clusters.iter().any(|name| name == cluster);
        let bucket = self
            .bucket_job
            .as_ref()
            .filter(|job| job.cluster == cluster);
        let fence = FenceConfig {
            tier: match (written.tier, ground) {
                (Some(TierWritten::Ground), _) | (None, true) => Tier::Ground,
                (Some(TierWritten::Flight), _) | (None, false) => Tier::Flight,
            },
            installation: config.installation.clone(),
            backend,
            debug_images: config.debug_images.clone(),
            operators: self.operators.clone(),
            kyverno: kyverno.collect::<Result<_, _>>()?,
            copy_annotations: self.copy_annotations.clone(),
            appliers: self.appliers(written)?,
            signing: self.image_signing.signing(),
            bucket: bucket.map(|job| job.job(config.recordings.retention_days)),
            application: self.argo_cd.as_ref().map(|argo| Application {
                namespace: argo.namespace.clone(),
                project: argo.project.clone(),
                repository: argo.repository.clone(),
                path: format!("{}/{cluster}", argo.path.trim_end_matches('/')),
                revision: argo.revision.clone(),
                server: written.argo_cd_server.clone(),
            }),
        };
        Ok(ClusterFence { rbac, fence })
    }

    /// Who rolls the fence out on this cluster (P-4a).
    fn appliers(&self, cluster: &FenceWritten) -> Result<Vec<Identity>, FenceError> {
        if let Some(written) = &self.appliers {
            let read = |(position, name): (usize, &String)| {
                let key = format!("policies.appliers[{position}]");
                named(key, Identity::of_user_name(name))
            };
            return written.iter().enumerate().map(read).collect();
        }
        let Some(argo) = &self.argo_cd else {
            return Ok(Vec::new());
        };
        // The accounts by which Argo CD's own manifests and `argocd cluster add` reach a cluster.
        let (key, account) = match cluster.argo_cd_server == own_cluster() {
            true => {
                let account = ServiceAccount::new(&argo.namespace, "argocd-application-controller");
                ("policies.argoCd.namespace", account)
            }
            false => {
                let account = ServiceAccount::new("kube-system", "argocd-manager");
                ("policies.argoCd", account)
            }
        };
        let account = named(key.to_owned(), account)?;
        Ok(vec![Identity::ServiceAccount(account)])
    }

    /// A fence that nobody may apply or mend, or that Break-glass itself may (P-4a).
    fn of_the_appliers(cluster: &str, fence: &FenceConfig) -> Option<String> {
        if fence.appliers.contains(&fence.backend) {
            return Some(format!(
                "`policies.appliers` names Break-glass's own account on `{cluster}`, which the \
                 policies are about: name who rolls the fence out"
            ));
        }
        (fence.appliers.is_empty() && fence.operators.is_empty()).then(|| {
            "`policies.appliers` and `policies.operators` name nobody, so nobody could apply the \
             fence or change it: name who rolls it out"
                .to_owned()
        })
    }

    /// The Application has one name and one namespace (P-1). A cluster with another address than
    /// its own Argo CD's is kept by an Argo CD elsewhere, the one that the section describes.
    fn applications_collide(&self) -> Option<String> {
        self.argo_cd.as_ref()?;
        let clusters = self.clusters.iter();
        let away = clusters.filter(|(_, fence)| fence.argo_cd_server != own_cluster());
        let names: Vec<String> = away.map(|(name, _)| format!("`{name}`")).collect();
        (names.len() > 1).then(|| {
            format!(
                "`policies.clusters` has an `argoCdServer` for {}: in one Argo CD their \
                 Applications, all called `tower-breakglass`, would overwrite each other, and one \
                 fence alone would be kept. Leave out `argoCdServer` where each cluster has an \
                 Argo CD of its own, or leave out `policies.argoCd` and write the Applications \
                 yourself, each under a name of its own",
                names.join(" and ")
            )
        })
    }

    /// What cannot work, each with its key. What is not `whole` lacks what was told already.
    pub(super) fn problems(&self, config: &Config, whole: bool) -> Vec<String> {
        let mut problems = Vec::new();
        for cluster in self.clusters.keys() {
            if whole && !config.clusters.contains_key(cluster) {
                problems.push(format!(
                    "`policies.clusters` names `{cluster}`, which `clusters` does not have"
                ));
            }
            match self.fence(config, cluster) {
                Ok(made) => problems.extend(Self::of_the_appliers(cluster, &made.fence)),
                Err(error) => problems.push(error.to_string()),
            }
        }
        problems.extend(self.applications_collide());
        let signing = &self.image_signing;
        match signing.glob.strip_suffix('*') {
            Some(beginning) if !beginning.is_empty() && !beginning.contains(['*', '?']) => {
                let outside = config.debug_images.iter().enumerate();
                let outside = outside.filter(|(_, image)| !image.starts_with(beginning));
                problems.extend(outside.map(|(position, _)| {
                    format!(
                        "`policies.imageSigning.glob` does not cover `debugImages[{position}]`, \
                         so its signature would not be looked at"
                    )
                }));
            }
            Some(_) | None => problems.push(
                "`policies.imageSigning.glob` must be a beginning and then one `*`".to_owned(),
            ),
        }
        if let Some(own) = &signing.trust_roots {
            problems.extend(own.problems());
        }
        for (key, text) in [("issuer", &signing.issuer), ("subject", &signing.subject)] {
            if text.trim().is_empty() || text.contains('*') {
                problems.push(format!(
                    "`policies.imageSigning.{key}` must be the whole text: it is compared exactly"
                ));
            }
        }
        if let Some(job) = &self.bucket_job {
            if !self.clusters.contains_key(&job.cluster) {
                problems.push(format!(
                    "`policies.bucketJob.cluster` names `{}`, which `policies.clusters` does not \
                     have",
                    job.cluster
                ));
            }
            if !super::check::is_pinned(&job.image) {
                problems.push(
                    "`policies.bucketJob.image` must end in `@sha256:` and 64 hex digits"
                        .to_owned(),
                );
            }
        }
        problems.dedup();
        problems
    }
}

impl SigningWritten {
    fn signing(&self) -> Signing {
        Signing {
            glob: self.glob.clone(),
            issuer: self.issuer.clone(),
            subject: self.subject.clone(),
            rekor_url: self.rekor_url.clone(),
            roots: self.trust_roots.as_ref().map(|own| TrustRoots {
                mirror: own.mirror.clone(),
                root: own.root.clone(),
                certificate_log: match own.certificate_log {
                    CertificateLogWritten::Checked => CertificateLog::Checked,
                    CertificateLogWritten::Absent => CertificateLog::Absent,
                },
            }),
        }
    }
}

impl TrustRootsWritten {
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if !self.mirror.starts_with("https://") && !self.mirror.starts_with("http://") {
            problems
                .push("`policies.imageSigning.trustRoots.mirror` must be an address".to_owned());
        }
        let root: serde_json::Value = serde_json::from_str(&self.root).unwrap_or_default();
        if root["signed"]["_type"] != "root" {
            problems.push(
                "`policies.imageSigning.trustRoots.root` must be the whole text of the \
                 repository's `root.json`"
                    .to_owned(),
            );
        }
        problems
    }
}

impl BucketWritten {
    fn job(&self, days: u32) -> BucketJob {
        BucketJob {
            namespace: self.namespace.clone(),
            image: self.image.clone(),
            endpoint: self.endpoint.clone(),
            bucket: self.bucket.clone(),
            days,
            admin_secret: self.admin_secret.clone(),
            key_secret: self.key_secret.clone(),
        }
    }
}

fn named<T>(key: String, read: Result<T, NameError>) -> Result<T, FenceError> {
    read.map_err(|why| FenceError::Name { key, why })
}

/// `namespace/name`.
fn account(text: &str) -> Result<ServiceAccount, NameError> {
    let (namespace, name) = text.split_once('/').unwrap_or((text, ""));
    ServiceAccount::new(namespace, name)
}

#[cfg(test)]
mod tests;
