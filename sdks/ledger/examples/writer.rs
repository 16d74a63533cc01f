//! Charges orders through the ledger in PostgreSQL. `writer URL COUNT`, as `e2e/ledger/writer.py`.

use std::time::Duration;

use driftq_ledger::{Begin, Decision, Error, Key, OnDoubt, Outcome, begin, enqueue, finish};
use tokio_postgres::{Client, NoTls};

const LANGUAGE: &str = "rust";

/// Charges one order. Returns whether it is charged.
async fn charge(
    db: &mut Client,
    provider: &Client,
    number: i32,
) -> Result<bool, Box<dyn std::error::Error>> {
    let name = format!("{LANGUAGE}-{number}");
    let key = Key { principal: "shop", operation: "charge", key: &name };
    let wanted = Begin { lease: Duration::from_secs(1), ..Begin::new(key, "h", OnDoubt::Retry) };
    // One statement is a transaction.
    let execution = match begin(db, &wanted).await? {
        Decision::Execute(execution) => execution,
        Decision::InProgress => return Ok(false),
        Decision::Replay(outcome) => {
            let response = String::from_utf8(outcome.response.unwrap_or_default())?;
            assert!(response.starts_with("act-dq_"), "{name} is replayed as {response}");
            return Ok(true);
        }
        other => return Err(format!("{name}: {other:?}").into()),
    };
    let downstream_key = &execution.downstream_key;
    provider.execute("INSERT INTO provider_calls VALUES ($1)", &[downstream_key]).await?;
    let act = "INSERT INTO provider_acts VALUES ($1) ON CONFLICT DO NOTHING";
    provider.execute(act, &[downstream_key]).await?;
    let charge = format!("act-{downstream_key}");
    loop {
        let is_wrong = fastrand::u8(..10) == 0;
        let transaction = db.transaction().await?;
        let value = format!("{} {number}", if is_wrong { "rolled back" } else { LANGUAGE });
        enqueue(&transaction, "receipts", value.as_bytes(), None).await?;
        let insert = "INSERT INTO orders VALUES ($1, $2, $3)";
        transaction.execute(insert, &[&LANGUAGE, &number, &charge]).await?;
        let outcome = Outcome::succeeded(charge.clone().into_bytes());
        match finish(&transaction, key, execution.fence, &outcome).await {
            Ok(()) if is_wrong => transaction.rollback().await?,
            Ok(()) => {
                transaction.commit().await?;
                return Ok(true);
            }
            Err(Error::Stale) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(count)) = (arguments.next(), arguments.next()) else {
        return Err("usage: writer URL COUNT".into());
    };
    let (mut db, connection) = tokio_postgres::connect(&url, NoTls).await?;
    tokio::spawn(connection);
    let (provider, connection) = tokio_postgres::connect(&url, NoTls).await?;
    tokio::spawn(connection);
    let mut left: Vec<i32> = (0..count.parse()?).collect();
    fastrand::shuffle(&mut left);
    while !left.is_empty() {
        let mut open = Vec::new();
        for number in left {
            if !charge(&mut db, &provider, number).await? {
                open.push(number);
            }
        }
        left = open;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
