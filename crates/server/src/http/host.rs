//! The host names under which clients may address this server (protection against DNS rebinding).
//!
//! A web page whose name was rebound to this machine's address sends its own name as `Host`. A
//! loopback listener therefore accepts only its own names. Any other listener with
//! `http.allowed_hosts` accepts those names and IP addresses, because an address cannot be rebound.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use axum::http::{HeaderMap, Uri, Version, header};

/// The host names under which clients may address this server.
#[derive(Default)]
pub struct AllowedHosts {
    /// Names in addition to those of this machine, with or without a port.
    pub names: Vec<String>,
    /// Whether the server listens on loopback only.
    pub is_loopback: bool,
}

/// A host without its port.
enum Host<'a> {
    Name(&'a str),
    Address(IpAddr),
}

impl AllowedHosts {
    /// Whether every host name of the request is allowed. All are checked, because a proxy may use
    /// another one than the server does.
    pub(super) fn knows(&self, headers: &HeaderMap, uri: &Uri) -> bool {
        if !self.is_loopback && self.names.is_empty() {
            return true;
        }
        named(headers, uri).all(|host| self.is_known(host))
    }

    fn is_known(&self, host: &str) -> bool {
        let is_listed = |name: &str| self.names.iter().any(|listed| listed == name);
        if is_listed(host) {
            return true;
        }
        match read(host) {
            Some((Host::Name(name), text)) => name == "localhost" || is_listed(text),
            Some((Host::Address(address), text)) => {
                let is_this_machine =
                    [Ipv4Addr::LOCALHOST.into(), IpAddr::from(Ipv6Addr::LOCALHOST)];
                !self.is_loopback || is_this_machine.contains(&address) || is_listed(text)
            }
            None => false,
        }
    }
}

/// Returns the host names of a request. HTTP/2 sends the name as `:authority`, and a browser may
/// send either form.
fn named<'a>(headers: &'a HeaderMap, uri: &'a Uri) -> impl Iterator<Item = &'a str> {
    let header = headers.get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or("?"));
    header.chain(uri.authority().map(|of| of.as_str()))
}

/// Whether the request lacks a host name. HTTP/1.0 does not require one.
pub(super) fn is_missing(version: Version, headers: &HeaderMap, uri: &Uri) -> bool {
    match version {
        Version::HTTP_11 => !headers.contains_key(header::HOST),
        Version::HTTP_2 | Version::HTTP_3 => named(headers, uri).next().is_none(),
        _ => false,
    }
}

/// Parses a host according to RFC 3986. Also returns its text without the port.
fn read(host: &str) -> Option<(Host<'_>, &str)> {
    let (text, port) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let port = if port.is_empty() { "" } else { port.strip_prefix(':')? };
    if !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let is_bracketed = host.starts_with('[');
    match text.parse::<IpAddr>() {
        Ok(address) => {
            (address.is_ipv6() == is_bracketed).then_some((Host::Address(address), text))
        }
        Err(_) => (!is_bracketed).then_some((Host::Name(text), text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(is_loopback: bool, names: &[&str], host: &str) -> bool {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        AllowedHosts { names, is_loopback }.is_known(host)
    }

    #[test]
    fn a_host_is_read_as_it_is_written() {
        for host in ["localhost", "localhost:", "localhost:80", "127.0.0.1:1", "[::1]", "[::1]:80"]
        {
            assert!(known(true, &[], host), "{host}");
        }
        for host in [
            "",
            ":80",
            "[::1]evil",
            "[::1]:80evil",
            "[::1]:80:80",
            "[::1",
            "::1",
            "::1:80",
            "[127.0.0.1]",
            "[localhost]",
            "localhost:80:80",
            "localhost:evil",
            "localhost@evil",
            "evil@localhost",
            "127.0.0.1.evil",
            "127.1",
        ] {
            assert!(!known(true, &[], host), "{host}");
            assert!(!known(false, &["queue.internal"], host), "{host}");
        }
    }

    #[test]
    fn beyond_loopback_addresses_and_listed_names_are_known() {
        for host in
            ["queue.internal", "queue.internal:80", "10.0.0.1:80", "[fd00::1]:80", "localhost"]
        {
            assert!(known(false, &["queue.internal"], host), "{host}");
        }
        assert!(known(false, &["queue.internal:80"], "queue.internal:80"));
        for host in ["queue.internal:81", "queue.internal", "evil.example"] {
            assert!(!known(false, &["queue.internal:80"], host), "{host}");
        }
    }
}
