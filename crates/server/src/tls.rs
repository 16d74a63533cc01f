//! The certificate of the server.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::config::Fault;
use crate::reloaded::Reloaded;
use crate::secret_file;

/// The files of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate of the server, followed by those of its issuers, as PEM.
    pub cert: PathBuf,
    /// Its private key, as PEM.
    pub key: PathBuf,
}

/// The settings of new connections.
pub(crate) type Tls = Arc<Reloaded<ServerConfig>>;

impl TlsFiles {
    /// Reads the files, and again when they change.
    pub(crate) fn read(&self) -> Result<Tls, String> {
        Reloaded::start("certificate", vec![self.cert.clone(), self.key.clone()], read)
    }

    /// Checks the files of a configuration.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        let fault = |key: &str| {
            let key = key.to_owned();
            move |why| Fault { key, why }
        };
        self.certificates().map_err(fault("tls_cert_file"))?;
        read(&[self.cert.clone(), self.key.clone()]).map_err(fault("tls_key_file")).map(drop)
    }

    /// The certificates, which the other nodes trust.
    pub(crate) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        certificates(&self.cert)
    }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let wrong = |why: &dyn std::fmt::Display| format!("{}: {why}", file.display());
    let certificates = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| wrong(&error))?;
    if certificates.is_empty() {
        return Err(wrong(&"the file has no certificate; it must be PEM"));
    }
    Ok(certificates)
}

fn read(files: &[PathBuf]) -> Result<ServerConfig, String> {
    let [cert, key] = files else { return Err("a certificate and a key are needed".to_owned()) };
    let certificates = certificates(cert)?;
    let private = PrivateKeyDer::from_pem_reader(secret_file::open(key)?).map_err(|error| {
        format!("{}: {error}; the file must be a private key as PEM", key.display())
    })?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider supports the default TLS versions")
        .with_no_client_auth()
        .with_single_cert(certificates, private)
        .map_err(|error| format!("{} and {} do not fit: {error}", cert.display(), key.display()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}
