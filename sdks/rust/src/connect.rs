//! How a client connects.

use std::time::Duration;

use crate::error::Error;
use crate::http::Client;

/// The settings of a [`Client`].
#[derive(Debug, Clone, Default)]
pub struct ClientBuilder {
    api_key: Option<String>,
    timeout: Option<Duration>,
    certificates: Vec<reqwest::Certificate>,
}

impl ClientBuilder {
    /// Sends this key with every request.
    #[must_use]
    pub fn api_key(mut self, key: impl Into<String>) -> ClientBuilder {
        self.api_key = Some(key.into());
        self
    }

    /// Sets how long a produce is tried. 30 s by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> ClientBuilder {
        self.timeout = Some(timeout);
        self
    }

    /// Trusts these certificates, as PEM, instead of those of the system.
    pub fn certificates(mut self, pem: &[u8]) -> Result<ClientBuilder, Error> {
        let certificates = reqwest::Certificate::from_pem_bundle(pem);
        self.certificates = certificates.map_err(|error| Error::Invalid(error.to_string()))?;
        Ok(self)
    }

    /// Creates the client. It connects with its first request.
    pub fn connect(self, url: &str) -> Result<Client, Error> {
        let parsed = reqwest::Url::parse(url);
        let parsed = parsed.map_err(|error| Error::Invalid(format!("{url}: {error}")))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err(Error::Invalid(format!(
                "{url}: the URL must begin with http:// or https://"
            )));
        }
        let client = Client::new(http(&self.certificates)?, url).with_key(self.api_key);
        Ok(client.trusting(self.certificates).with_timeout(self.timeout))
    }
}

impl Client {
    /// A client without a key.
    pub fn connect(url: &str) -> Result<Client, Error> {
        ClientBuilder::default().connect(url)
    }

    /// The settings of a client with a key or certificates.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }
}

/// New connections that trust these certificates, or those of the system.
pub(crate) fn http(certificates: &[reqwest::Certificate]) -> Result<reqwest::Client, Error> {
    let mut http = reqwest::Client::builder();
    if !certificates.is_empty() {
        http = http.tls_certs_only(certificates.to_vec());
    }
    http.build().map_err(|error| Error::Invalid(error.to_string()))
}
