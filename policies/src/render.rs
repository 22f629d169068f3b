//! The RBAC of one cluster (C-2a): templates and a configuration in, manifests out (P-2).
//!
//! Invariant: byte-stable. The two debug roles hold no more than C-2a says.

use crate::identity::{Identity, NameError, ServiceAccount};
use crate::template::{quoted, rendered};
use decisions::names::is_label_value;

pub use crate::template::Rendered;

/// The debug role of a session on the running pod (C-7).
pub const DEBUG_LIVE: &str = "tower-breakglass-debug-live";
/// The debug role of a session on a copy (C-7).
pub const DEBUG_COPY: &str = "tower-breakglass-debug-copy";
/// The role of the rights at rest (C-2a).
pub const BACKEND: &str = "tower-breakglass-backend";

/// What the RBAC of one cluster is rendered from.
#[derive(Debug, Clone)]
pub struct RbacConfig {
    installation: String,
    backend: Identity,
    minter: Option<TokenMinter>,
}

/// Who may mint tokens of which account: for a cluster that is reached by a minted token (C-2).
#[derive(Debug, Clone)]
pub struct TokenMinter {
    /// Who asks for the token: the sidecar as its home cluster knows it.
    pub by: Identity,
    /// The account that the token is for.
    pub account: ServiceAccount,
}

impl RbacConfig {
    /// The RBAC of one cluster, where the sidecar of `installation` is `backend` (C-1, C-2c).
    ///
    /// # Errors
    /// [`NameError`] where the installation's name is not one that the sidecar takes: a label's
    /// value, by the one check that both use. RBAC's object names take whatever a label does.
    pub fn new(installation: &str, backend: Identity) -> Result<Self, NameError> {
        if !is_label_value(installation) {
            let shown = installation.chars().take(64).collect();
            return Err(NameError::NotAnInstallation(shown));
        }
        Ok(Self {
            installation: installation.to_owned(),
            backend,
            minter: None,
        })
    }

    /// The same on the home cluster of a sidecar that reaches clusters by a minted token (C-2).
    #[must_use]
    pub fn with_token_minter(mut self, minter: TokenMinter) -> Self {
        self.minter = Some(minter);
        self
    }
}

/// The roles and bindings of one cluster (C-2a): the two debug roles, the rights at rest, who
/// holds them, and the right to mint a token where one is configured.
#[must_use]
pub fn render_rbac(config: &RbacConfig) -> Vec<Rendered> {
    let mut files = vec![
        fixed(
            "rbac-10-debug-live.yaml",
            include_str!("../templates/rbac/10-debug-live.yaml"),
        ),
        fixed(
            "rbac-11-debug-copy.yaml",
            include_str!("../templates/rbac/11-debug-copy.yaml"),
        ),
        fixed(
            "rbac-20-backend.yaml",
            include_str!("../templates/rbac/20-backend.yaml"),
        ),
        rendered(
            "rbac-30-backend-binding.yaml",
            include_str!("../templates/rbac/30-backend-binding.yaml"),
            &[
                (
                    "binding",
                    &quoted(&format!("{BACKEND}-{}", config.installation)),
                ),
                ("installation", &quoted(&config.installation)),
                ("subject", &subject(&config.backend)),
            ],
        ),
    ];
    if let Some(minter) = &config.minter {
        files.push(rendered(
            "rbac-40-token-minter.yaml",
            include_str!("../templates/rbac/40-token-minter.yaml"),
            &[
                (
                    "role",
                    &quoted(&format!("breakglass-token-minter-{}", config.installation)),
                ),
                ("namespace", &quoted(minter.account.namespace())),
                ("installation", &quoted(&config.installation)),
                ("account", &quoted(minter.account.name())),
                ("subject", &subject(&minter.by)),
            ],
        ));
    }
    files
}

/// A binding's subject, as one flow mapping.
fn subject(identity: &Identity) -> String {
    match identity {
        Identity::ServiceAccount(account) => format!(
            "{{kind: ServiceAccount, namespace: {}, name: {}}}",
            quoted(account.namespace()),
            quoted(account.name())
        ),
        Identity::User(_) => format!(
            "{{apiGroup: rbac.authorization.k8s.io, kind: User, name: {}}}",
            quoted(&identity.to_string())
        ),
    }
}

fn fixed(file_name: &'static str, template: &str) -> Rendered {
    rendered(file_name, template, &[])
}

#[cfg(test)]
mod tests;
