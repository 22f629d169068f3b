//! The cluster's certificates and kubeconfigs, made afresh for each cluster.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use super::dir::ClusterDir;
use super::error::ClusterError;

/// Where the API server listens.
pub(super) const SERVER: &str = "https://127.0.0.1:6443";

/// A certificate of the cluster: a program's or a user's.
struct Subject {
    name: &'static str,
    common_name: &'static str,
    group: Option<&'static str>,
    /// The names that it is reached by, for a program that listens.
    listens_as: &'static [&'static str],
    has_kubeconfig: bool,
}

const SUBJECTS: [Subject; 6] = [
    Subject {
        name: "apiserver",
        common_name: "kube-apiserver",
        group: None,
        listens_as: &[
            "localhost",
            "kubernetes.default.svc",
            "127.0.0.1",
            "10.0.0.1",
        ],
        has_kubeconfig: false,
    },
    Subject {
        name: "to-kubelet",
        common_name: "kube-apiserver",
        group: Some("system:masters"),
        listens_as: &[],
        has_kubeconfig: false,
    },
    Subject {
        name: "admin",
        common_name: "admin",
        group: Some("system:masters"),
        listens_as: &[],
        has_kubeconfig: true,
    },
    Subject {
        name: "manager",
        common_name: "system:kube-controller-manager",
        group: None,
        listens_as: &[],
        has_kubeconfig: true,
    },
    Subject {
        name: "scheduler",
        common_name: "system:kube-scheduler",
        group: None,
        listens_as: &[],
        has_kubeconfig: true,
    },
    Subject {
        name: "kubelet",
        common_name: "system:node:localhost",
        group: Some("system:nodes"),
        listens_as: &["localhost", "127.0.0.1"],
        has_kubeconfig: true,
    },
];

/// Makes the authority, every certificate, the key that signs service-account tokens, and the
/// kubeconfigs of the cluster's own programs and its admin.
pub(super) fn create(dir: &ClusterDir) -> Result<(), ClusterError> {
    let authority_key = KeyPair::generate()?;
    let mut authority = CertificateParams::new(Vec::new())?;
    authority
        .distinguished_name
        .push(DnType::CommonName, "breakglass-test-cluster");
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let authority_pem = authority.self_signed(&authority_key)?.pem();
    dir.write_secret(&dir.certificate("ca"), &authority_pem)?;

    let issuer = Issuer::new(authority, authority_key);
    for subject in SUBJECTS {
        let key = KeyPair::generate()?;
        let certificate = subject.params()?.signed_by(&key, &issuer)?.pem();
        let key = key.serialize_pem();
        dir.write_secret(&dir.certificate(subject.name), &certificate)?;
        dir.write_secret(&dir.key(subject.name), &key)?;
        if subject.has_kubeconfig {
            let user = serde_json::json!({
                "client-certificate-data": BASE64.encode(&certificate),
                "client-key-data": BASE64.encode(&key),
            });
            write_kubeconfig(dir, subject.name, &authority_pem, user)?;
        }
    }
    let tokens = KeyPair::generate()?;
    dir.write_secret(&dir.key("service-accounts"), &tokens.serialize_pem())?;
    dir.write_secret(
        &dir.public_key("service-accounts"),
        &tokens.public_key_pem(),
    )
}

impl Subject {
    fn params(&self) -> Result<CertificateParams, ClusterError> {
        let names: Vec<String> = self
            .listens_as
            .iter()
            .map(|&name| name.to_owned())
            .collect();
        let mut params = CertificateParams::new(names)?;
        if let Some(group) = self.group {
            params
                .distinguished_name
                .push(DnType::OrganizationName, group);
        }
        params
            .distinguished_name
            .push(DnType::CommonName, self.common_name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        Ok(params)
    }
}

/// Writes `<name>.conf` for a caller with `token`.
pub(super) fn token_kubeconfig(
    dir: &ClusterDir,
    name: &str,
    token: &str,
) -> Result<(), ClusterError> {
    let path = dir.certificate("ca");
    let authority = fs::read_to_string(&path).map_err(ClusterError::io("read", &path))?;
    write_kubeconfig(dir, name, &authority, serde_json::json!({ "token": token }))
}

/// A kubeconfig with everything in it, so that it can be carried elsewhere. JSON is YAML.
fn write_kubeconfig(
    dir: &ClusterDir,
    name: &str,
    authority: &str,
    user: serde_json::Value,
) -> Result<(), ClusterError> {
    let config = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "test", "cluster": {
            "server": SERVER,
            "certificate-authority-data": BASE64.encode(authority),
        }}],
        "users": [{ "name": name, "user": user }],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": name } }],
        "current-context": "test",
    });
    dir.write_secret(&dir.kubeconfig(name), &format!("{config:#}\n"))
}
