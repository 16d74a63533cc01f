//! Callers at the same time, under both isolation levels.

use driftq_ledger::{Begin, Decision, Error, Key, OnDoubt, Outcome, begin, finish};
use tokio_postgres::{Client, IsolationLevel};

use crate::database::{connect, database};

const KEY: Key<'_> = Key { principal: "p", operation: "charge", key: "k" };

/// Begins, writes and finishes in one transaction, and repeats it as long as another one was first.
async fn charge(client: &mut Client, level: IsolationLevel) -> Vec<u8> {
    loop {
        match try_charge(client, level).await {
            Ok(Some(response)) => return response,
            Ok(None) => {}
            Err(Error::Postgres(error))
                if error.code().is_some_and(|code| code.code() == "40001") => {}
            Err(error) => panic!("{error}"),
        }
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
    }
}

async fn try_charge(client: &mut Client, level: IsolationLevel) -> Result<Option<Vec<u8>>, Error> {
    let transaction = client.build_transaction().isolation_level(level).start().await?;
    let decision = begin(&transaction, &Begin::new(KEY, "h", OnDoubt::Retry)).await?;
    let response = match decision {
        Decision::Execute(execution) => {
            let inserted =
                transaction.query_one("INSERT INTO charges DEFAULT VALUES RETURNING id", &[]);
            let id: i32 = inserted.await?.get(0);
            let response = format!("charge {id}").into_bytes();
            let outcome = Outcome::succeeded(response.clone());
            finish(&transaction, KEY, execution.fence, &outcome).await?;
            response
        }
        Decision::Replay(outcome) => outcome.response.expect("a response"),
        Decision::InProgress => return Ok(None),
        other => panic!("{other:?}"),
    };
    transaction.commit().await?;
    Ok(Some(response))
}

async fn one_of_many_charges(level: IsolationLevel) {
    let database = database().await;
    let client = connect(&database).await;
    client.batch_execute("CREATE TABLE charges (id serial)").await.expect("it is created");
    let mut callers = Vec::new();
    for _ in 0..16 {
        let mut client = connect(&database).await;
        callers.push(tokio::spawn(async move { charge(&mut client, level).await }));
    }
    let mut responses = Vec::new();
    for caller in callers {
        responses.push(caller.await.expect("it does not panic"));
    }
    responses.dedup();
    assert_eq!(responses.len(), 1, "every caller gets the same bytes: {responses:?}");
    let charges = client.query_one("SELECT count(*) FROM charges", &[]).await.expect("a count");
    assert_eq!(charges.get::<_, i64>(0), 1);
}

#[tokio::test]
async fn one_of_many_callers_charges_under_read_committed() {
    one_of_many_charges(IsolationLevel::ReadCommitted).await;
}

#[tokio::test]
async fn one_of_many_callers_charges_under_repeatable_read() {
    one_of_many_charges(IsolationLevel::RepeatableRead).await;
}

#[tokio::test]
async fn a_late_finish_of_an_earlier_fence_writes_nothing() {
    let database = database().await;
    let (mut first, mut second) = (connect(&database).await, connect(&database).await);
    let wanted = Begin {
        lease: std::time::Duration::from_millis(10),
        ..Begin::new(KEY, "h", OnDoubt::Retry)
    };
    let Ok(Decision::Execute(old)) = begin(&first, &wanted).await else { panic!("not executed") };
    tokio::time::sleep(std::time::Duration::from_millis(30)).await;
    // The second execution begins and is not committed yet. The first one finishes meanwhile.
    let later = second.transaction().await.expect("a transaction");
    let again = Begin::new(KEY, "h", OnDoubt::Retry);
    let Ok(Decision::Execute(new)) = begin(&later, &again).await else { panic!("not executed") };
    assert!(new.in_doubt && new.fence > old.fence && new.downstream_key == old.downstream_key);
    let finished = tokio::spawn(async move {
        let transaction = first.transaction().await.expect("a transaction");
        finish(&transaction, KEY, old.fence, &Outcome::succeeded(b"old".to_vec())).await
    });
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert!(!finished.is_finished(), "it waits for the later execution");
    later.commit().await.expect("it commits");
    assert!(matches!(finished.await.expect("no panic"), Err(Error::Stale)));
}
