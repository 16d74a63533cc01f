//! Checks of the server before the first claim: version, encoding, durability, and direct
//! connections.

use tokio_postgres::Client;

use super::error::OpenError;

/// The oldest version that is tested.
const VERSION_MIN: i32 = 150_000;

/// Checks the server. Returns what an acknowledged commit survives.
pub(super) async fn durability(client: &Client, other: &Client) -> Result<&'static str, OpenError> {
    let show = |name: &'static str| async move {
        let row = client.query_one("SELECT current_setting($1)", &[&name]).await?;
        Ok::<String, tokio_postgres::Error>(row.get(0))
    };
    let version = show("server_version_num").await?;
    if version.parse().unwrap_or(0) < VERSION_MIN {
        return Err(OpenError::Unfit(format!(
            "PostgreSQL {} is not supported; use 15 or newer",
            show("server_version").await?
        )));
    }
    if show("server_encoding").await? != "UTF8" {
        let why =
            "its encoding is not UTF8, but messages may contain any text; create another database";
        return Err(OpenError::Unfit(why.to_owned()));
    }
    for (name, why) in [
        ("fsync", "a crash of its machine loses acknowledged commits"),
        ("full_page_writes", "a crash of its machine can corrupt pages"),
    ] {
        if show(name).await? != "on" {
            return Err(OpenError::Unfit(format!("{name} is off, so {why}; turn it on")));
        }
    }
    if client.query_one("SELECT pg_is_in_recovery()", &[]).await?.get(0) {
        let why = "it is a standby; use the URL of its primary, or list all servers";
        return Err(OpenError::Unfit(why.to_owned()));
    }
    // Behind a transaction-mode pooler, both connections may share a backend, so session settings
    // are lost or apply to another connection.
    let pid = "SELECT pg_backend_pid()";
    let mut pids = Vec::new();
    for client in [client, other, client] {
        let pid: i32 = client.query_one(pid, &[]).await?.get(0);
        pids.push(pid);
    }
    if pids[0] == pids[1] || pids[0] != pids[2] {
        let why = "it is behind a transaction-mode pooler; connect directly, or use session mode";
        return Err(OpenError::Unfit(why.to_owned()));
    }
    Ok(if show("synchronous_standby_names").await?.is_empty() {
        "fsync before every acknowledgement, on one server"
    } else {
        "fsync before every acknowledgement, on this server and its synchronous standbys"
    })
}
