//! Connections from a database URL: without TLS on this machine, with verified TLS to any other.

use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::select_ok;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::error::Severity;
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::{OpenError, with_cause};

/// Timeout of connecting.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of unacknowledged data, after which the connection is closed.
const SENT_TIMEOUT: Duration = Duration::from_secs(20);

/// The servers to connect to, and how.
#[derive(Clone)]
pub(super) struct Target {
    /// Each server of the URL. Of several, the connection goes to the one that accepts writes.
    servers: Vec<Config>,
    is_here: bool,
    /// The verifier of certificates. `None` connects without TLS.
    tls: Option<MakeRustlsConnect>,
}

impl Target {
    /// Parses a URL, or parameters such as `host=… user=…`. `sslmode` must be `verify-full` or
    /// `disable`, because the modes between them do not stop an attacker on the network.
    pub(super) fn read(url: &str) -> Result<Target, OpenError> {
        let (url, mode) = without(url, "sslmode");
        let (url, root) = without(&url, "sslrootcert");
        let unreadable = |error: tokio_postgres::Error| OpenError::Url(with_cause(&error));
        let config: Config = url.parse().map_err(unreadable)?;
        let is_here = is_all_here(&config);
        let message = "use sslmode=verify-full, or sslmode=disable if the network is trusted";
        let tls = match mode.as_deref() {
            Some("verify-full") => true,
            Some("disable") => false,
            None if is_here => false,
            None => {
                return Err(OpenError::Url(format!("the server is another machine; {message}")));
            }
            Some(other) => {
                return Err(OpenError::Url(format!(
                    "sslmode={other} does not verify the server; {message}"
                )));
            }
        };
        let mut servers = each(config);
        for server in &mut servers {
            server
                .connect_timeout(CONNECT_TIMEOUT)
                .tcp_user_timeout(SENT_TIMEOUT)
                .keepalives_idle(CONNECT_TIMEOUT)
                .application_name("driftq")
                .ssl_mode(if tls { SslMode::Require } else { SslMode::Disable });
        }
        let tls = tls.then(|| verifier(root.as_deref())).transpose()?;
        Ok(Target { servers, is_here, tls })
    }

    /// The servers and the database, such as `one:5432,two:5432/queue`.
    pub(super) fn names(&self) -> String {
        let servers: Vec<String> = self.servers.iter().flat_map(names).collect();
        let user = self.servers.first().and_then(Config::get_user).unwrap_or("postgres");
        let database = self.servers.first().and_then(Config::get_dbname).unwrap_or(user);
        format!("{}/{database}", servers.join(","))
    }

    /// Whether the server runs on this machine.
    pub(super) fn is_here(&self) -> bool {
        self.is_here
    }

    /// Connects, and counts the warnings of the connection. All servers are tried at once, because
    /// a server that is paused or unreachable does not respond, and would block the servers after
    /// it.
    pub(super) async fn connect(
        &self,
        warnings: &Arc<AtomicU64>,
    ) -> Result<Client, tokio_postgres::Error> {
        let tried = self.servers.iter().map(|server| Box::pin(self.connect_to(server, warnings)));
        Ok(select_ok(tried).await?.0)
    }

    async fn connect_to(
        &self,
        server: &Config,
        warnings: &Arc<AtomicU64>,
    ) -> Result<Client, tokio_postgres::Error> {
        Ok(match &self.tls {
            None => {
                let (client, connection) = server.connect(NoTls).await?;
                drive(client, connection, warnings.clone())
            }
            Some(tls) => {
                let (client, connection) = server.connect(tls.clone()).await?;
                drive(client, connection, warnings.clone())
            }
        })
    }
}

/// The names of the servers of a configuration, with their ports.
fn names(config: &Config) -> Vec<String> {
    let port = |at: usize| {
        let ports = config.get_ports();
        ports.get(at).or(ports.first()).copied().unwrap_or(5432)
    };
    let named = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    });
    let mut names: Vec<String> = named.collect();
    if names.is_empty() {
        names = config.get_hostaddrs().iter().map(ToString::to_string).collect();
    }
    names.iter().enumerate().map(|(at, name)| format!("{name}:{}", port(at))).collect()
}

/// Drives a connection on its own task, and counts its warnings.
fn drive<T>(client: Client, mut connection: Connection<Socket, T>, seen: Arc<AtomicU64>) -> Client
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        // Messages arrive in order, so a warning is counted before the result that follows it is
        // returned.
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

/// Returns a verifier that trusts the certificates of a file, or those of the system.
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
            // Certificates of the system that cannot be parsed are ignored.
            let system = rustls_native_certs::load_native_certs().certs;
            let _odd = roots.add_parsable_certificates(system);
        }
    }
    if roots.is_empty() {
        return Err(unusable("no trusted certificates; set sslrootcert to a file".to_owned()));
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider supports the default TLS versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

/// Splits a configuration into one per server. If it names one server, or the numbers of names,
/// addresses and ports do not match, it is returned unchanged.
fn each(all: Config) -> Vec<Config> {
    let (names, addresses, ports) = (all.get_hosts(), all.get_hostaddrs(), all.get_ports());
    let count = names.len().max(addresses.len());
    let agree = [names.len(), addresses.len()].iter().all(|len| [0, count].contains(len))
        && [0, 1, count].contains(&ports.len());
    if count < 2 || !agree {
        return vec![all];
    }
    let one = |at: usize| {
        let mut one = Config::new();
        match names.get(at) {
            Some(Host::Tcp(name)) => one.host(name),
            Some(Host::Unix(path)) => one.host_path(path),
            None => &mut one,
        };
        if let Some(address) = addresses.get(at) {
            one.hostaddr(*address);
        }
        if let Some(port) = ports.get(at).or(ports.first()) {
            one.port(*port);
        }
        if let Some(user) = all.get_user() {
            one.user(user);
        }
        if let Some(password) = all.get_password() {
            one.password(password);
        }
        if let Some(name) = all.get_dbname() {
            one.dbname(name);
        }
        if let Some(options) = all.get_options() {
            one.options(options);
        }
        one.channel_binding(all.get_channel_binding())
            .ssl_negotiation(all.get_ssl_negotiation())
            .target_session_attrs(TargetSessionAttrs::ReadWrite);
        one
    };
    (0..count).map(one).collect()
}

/// Whether all servers run on this machine. Checks names, and the addresses that override them.
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

/// Removes a parameter that the client library does not support with all its values. Returns the
/// rest of the URL, and the value.
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
        Target::read(url).err().expect("it is rejected").to_string()
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
        let message = refused("postgresql://driftq@db.example/driftq");
        assert!(message.contains("sslmode=verify-full"), "{message}");
        let message = refused("host=localhost hostaddr=10.0.0.5 user=driftq");
        assert!(message.contains("another machine"), "{message}");
        let message = refused("postgresql://driftq@localhost,db.example/driftq");
        assert!(message.contains("another machine"), "{message}");
        for mode in ["require", "prefer", "verify-ca"] {
            let message = refused(&format!("postgresql://driftq@localhost/driftq?sslmode={mode}"));
            assert!(message.contains("does not verify"), "{message}");
        }
    }

    #[test]
    fn of_several_servers_each_is_a_target_of_its_own() {
        let url = "postgresql://me:secret@localhost:1,127.0.0.1:2/driftq?options=-cjit%3Doff";
        let servers = Target::read(url).expect("it is read").servers;
        let seen = servers.iter().map(|one| {
            assert_eq!(one.get_user(), Some("me"));
            assert_eq!(one.get_password(), Some(&b"secret"[..]));
            assert_eq!(one.get_dbname(), Some("driftq"));
            assert_eq!(one.get_options(), Some("-cjit=off"));
            assert_eq!(one.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
            (one.get_hosts().to_vec(), one.get_ports().to_vec())
        });
        let host = |name: &str| vec![Host::Tcp(name.to_owned())];
        let wanted = [(host("localhost"), vec![1]), (host("127.0.0.1"), vec![2])];
        assert_eq!(seen.collect::<Vec<_>>(), wanted);
        let one = Target::read("postgresql://me@localhost/driftq").expect("it is read").servers;
        assert_eq!(one.len(), 1);
        assert_eq!(one[0].get_target_session_attrs(), TargetSessionAttrs::Any);
    }

    #[test]
    fn a_root_that_is_not_there_is_named() {
        let message =
            refused("postgresql://db.example/driftq?sslmode=verify-full&sslrootcert=no.pem");
        assert!(message.contains("no.pem"), "{message}");
    }
}
