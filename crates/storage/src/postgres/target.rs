//! From a URL to a connection: in clear on this machine, verified to any other.

use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::Severity;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{OpenError, whole};

/// A connection that is not there by then is not coming.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// What was sent and not received by then never will be.
const SENT_TIMEOUT: Duration = Duration::from_secs(20);

/// Where to connect to, and how.
#[derive(Clone)]
pub(super) struct Target {
    config: Config,
    /// Who may be at the other end. None: in clear.
    tls: Option<MakeRustlsConnect>,
}

impl Target {
    /// Reads a URL, or words as `host=… user=…`. `sslmode` is `verify-full` or `disable`: what lies between
    /// keeps nobody out.
    pub(super) fn read(url: &str) -> Result<Target, OpenError> {
        let (url, mode) = without(url, "sslmode");
        let (url, root) = without(&url, "sslrootcert");
        let unreadable = |error: tokio_postgres::Error| OpenError::Url(whole(&error));
        let mut config: Config = url.parse().map_err(unreadable)?;
        config
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_user_timeout(SENT_TIMEOUT)
            .keepalives_idle(CONNECT_TIMEOUT)
            .application_name("driftq");
        let says = "say sslmode=verify-full, or sslmode=disable if the network keeps others out";
        let tls = match mode.as_deref() {
            Some("verify-full") => true,
            Some("disable") => false,
            None if is_all_here(&config) => false,
            None => return Err(OpenError::Url(format!("the server is another machine: {says}"))),
            Some(other) => {
                return Err(OpenError::Url(format!("sslmode={other} proves nothing: {says}")));
            }
        };
        config.ssl_mode(if tls { SslMode::Require } else { SslMode::Disable });
        let tls = tls.then(|| verifier(root.as_deref())).transpose()?;
        Ok(Target { config, tls })
    }

    /// Whether the server is this machine.
    pub(super) fn is_here(&self) -> bool {
        is_all_here(&self.config)
    }

    /// Connects; warnings that come are counted.
    pub(super) async fn connect(
        &self,
        warnings: &Arc<AtomicU64>,
    ) -> Result<Client, tokio_postgres::Error> {
        Ok(match &self.tls {
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                drive(client, connection, warnings.clone())
            }
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                drive(client, connection, warnings.clone())
            }
        })
    }
}

/// Performs what a connection has to do, and counts its warnings.
fn drive<T>(client: Client, mut connection: Connection<Socket, T>, seen: Arc<AtomicU64>) -> Client
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        // Messages come in their order: a warning is counted before the answer behind it is handed on.
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notice(notice) = message
                && notice.parsed_severity() != Some(Severity::Notice)
            {
                seen.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    client
}

/// Trusts one file of certificates, or those the system trusts.
fn verifier(root: Option<&str>) -> Result<MakeRustlsConnect, OpenError> {
    let unusable = |why: String| OpenError::Url(format!("sslrootcert: {why}"));
    let mut roots = RootCertStore::empty();
    match root {
        Some(file) => {
            let certificates = CertificateDer::pem_file_iter(file)
                .and_then(Iterator::collect::<Result<Vec<_>, _>>)
                .map_err(|error| unusable(format!("{file}: {error}")))?;
            for certificate in certificates {
                roots.add(certificate).map_err(|error| unusable(format!("{file}: {error}")))?;
            }
        }
        None => {
            // Some of a system's certificates may be odd; the others are good.
            let system = rustls_native_certs::load_native_certs().certs;
            let _odd = roots.add_parsable_certificates(system);
        }
    }
    if roots.is_empty() {
        return Err(unusable("no certificate to trust: name a file".to_owned()));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has what TLS needs")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

/// Names, and the addresses that go before them.
fn is_all_here(config: &Config) -> bool {
    let (names, addresses) = (config.get_hosts(), config.get_hostaddrs());
    names.iter().all(is_here) && addresses.iter().all(IpAddr::is_loopback)
}

fn is_here(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
        }
    }
}

/// A parameter that the client does not know in all its values, and the rest.
fn without(url: &str, name: &str) -> (String, Option<String>) {
    let start = format!("{name}=");
    let mut taken = None;
    let mut take = |part: &&str| match part.strip_prefix(&start) {
        Some(value) => {
            taken = Some(value.to_owned());
            false
        }
        None => true,
    };
    let rest = match url.split_once('?') {
        Some((address, query)) if url.contains("://") => {
            let rest: Vec<&str> = query.split('&').filter(&mut take).collect();
            format!("{address}?{}", rest.join("&"))
        }
        _ if url.contains("://") => url.to_owned(),
        _ => url.split(' ').filter(&mut take).collect::<Vec<_>>().join(" "),
    };
    (rest, taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(url: &str) -> String {
        Target::read(url).err().expect("it is refused").to_string()
    }

    #[test]
    fn this_machine_is_reached_in_clear_and_others_are_not() {
        for url in [
            "postgresql://driftq@localhost/driftq",
            "postgresql://driftq@127.0.0.1:5433/driftq?target_session_attrs=read-write",
            "host=/run/postgresql user=driftq",
            "postgresql://driftq@db.example/driftq?sslmode=disable",
            "host=db.example user=driftq sslmode=disable",
        ] {
            assert!(Target::read(url).expect("it is read").tls.is_none(), "{url}");
        }
        let says = refused("postgresql://driftq@db.example/driftq");
        assert!(says.contains("sslmode=verify-full"), "{says}");
        let says = refused("host=localhost hostaddr=10.0.0.5 user=driftq");
        assert!(says.contains("another machine"), "{says}");
        let says = refused("postgresql://driftq@localhost,db.example/driftq");
        assert!(says.contains("another machine"), "{says}");
        for mode in ["require", "prefer", "verify-ca"] {
            let says = refused(&format!("postgresql://driftq@localhost/driftq?sslmode={mode}"));
            assert!(says.contains("proves nothing"), "{says}");
        }
    }

    #[test]
    fn a_root_that_is_not_there_is_named() {
        let says = refused("postgresql://db.example/driftq?sslmode=verify-full&sslrootcert=no.pem");
        assert!(says.contains("no.pem"), "{says}");
    }
}
