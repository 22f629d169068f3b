//! TLS for the servers that tests run on loopback.

use crate::StageError;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// A server's side for `127.0.0.1`, and the authority that its clients are to trust, as PEM.
///
/// # Errors
/// The certificates cannot be made.
pub fn acceptor() -> Result<(TlsAcceptor, String), StageError> {
    let told = |error: rcgen::Error| StageError::of("no certificate", error);
    let authority_key = KeyPair::generate().map_err(told)?;
    let mut authority = CertificateParams::new(Vec::new()).map_err(told)?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority
        .distinguished_name
        .push(DnType::CommonName, "tests");
    let pem = authority.self_signed(&authority_key).map_err(told)?.pem();
    let issuer = Issuer::new(authority, authority_key);
    let key = KeyPair::generate().map_err(told)?;
    let server = CertificateParams::new(["127.0.0.1".to_owned()]).map_err(told)?;
    let certificate = server.signed_by(&key, &issuer).map_err(told)?;
    let private = PrivateKeyDer::try_from(key.serialize_der())
        .map_err(|why| StageError::new(format!("the certificate's key: {why}")))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| {
            builder
                .with_no_client_auth()
                .with_single_cert(vec![certificate.der().clone()], private)
        })
        .map_err(|error| StageError::of("no TLS", error))?;
    Ok((TlsAcceptor::from(Arc::new(config)), pem))
}
