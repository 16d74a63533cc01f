//! Creates a set: every kind of row that a server stores, then a load, then SIGKILL.

mod dead_letters;
mod effects;
mod leaks;
mod leases;
pub(crate) mod load;
mod messages;
mod topics;

use std::path::Path;

use anyhow::{Context as _, ensure};
use driftq_e2e::api::Api;
use driftq_e2e::clock::now_ms;
use tokio::process::Command;

use crate::answers::{Answers, Group, Topic};
use crate::check;
use crate::requests::object;
use crate::storage::{Engine, SHARDS, Storage, pack, run as run_program};

/// Creates the set of one engine in `set`, and checks it with the same binary.
pub(crate) async fn run(driftq: &str, engine: Engine, set: &Path) -> anyhow::Result<()> {
    let storage = Storage::make(engine).await?;
    let mut server = storage.start(driftq).await?;
    let api = server.api()?;
    let mut answers =
        Answers { server: api.get("version").await?.ok()?, shards: SHARDS, ..Answers::default() };
    topics::make(&api).await?;
    leaks::make(&api, &mut answers).await?;
    messages::make(&api, &mut answers).await?;
    leases::make(&api, &mut answers).await?;
    effects::make(&api, &mut answers).await?;
    dead_letters::make(&api, &mut answers).await?;
    load::prepare(&api).await?;
    read_topics(&api, &mut answers).await?;
    export(driftq, &api, &set.join("effects.ndjson")).await?;

    let load = load::start(&api);
    load.enough().await?;
    server.kill().await?;
    answers.killed_at_ms = now_ms()?;
    load.finish(&mut answers).await?;
    storage.save(set).await?;

    answers.write(set).await?;
    let (checks, _) = check::run(driftq, engine, set).await?;
    for failure in &checks.failures {
        println!("{failure}");
    }
    ensure!(checks.failures.is_empty(), "the set fails the checks of its own binary");
    answers.checks = checks.done;
    answers.write(set).await?;
    println!("{}: {} checks", set.display(), checks.done);
    Ok(())
}

/// Reads every topic and group before the load, which changes no setting.
async fn read_topics(api: &Api, answers: &mut Answers) -> anyhow::Result<()> {
    let names = api.get("topics").await?.ok()?;
    for name in names["topics"].as_array().context("topics")? {
        let name = name.as_str().context("a name")?;
        let mut topic = api.get(&format!("topics/{name}")).await?.ok()?;
        for group in topic["groups"].as_array().context("groups")? {
            let group = group.as_str().context("a name")?;
            answers.groups.push(read_group(api, name, group).await?);
        }
        answers.topics.push(Topic {
            name: name.to_owned(),
            partitions: topic["partitions"].as_u64().context("partitions")?,
            created_at: topic["created_at"].take(),
            settings: object(topic["settings"].take()).unwrap_or_default(),
            changed_settings: topic["changed_settings"].take(),
        });
    }
    Ok(())
}

async fn read_group(api: &Api, topic: &str, group: &str) -> anyhow::Result<Group> {
    let mut view = api.get(&format!("topics/{topic}/groups/{group}")).await?.ok()?;
    let partitions = view["partitions"].as_array_mut().context("partitions")?;
    let generations = partitions.iter_mut().map(|one| one["generation"].take()).collect();
    Ok(Group {
        topic: topic.to_owned(),
        group: group.to_owned(),
        created_at: view["created_at"].take(),
        paused: view["paused"].take(),
        generations,
    })
}

async fn export(driftq: &str, api: &Api, file: &Path) -> anyhow::Result<()> {
    let mut export = Command::new(driftq);
    export.args(["export", "--effects", "--url", api.url()]);
    std::fs::write(file, run_program(&mut export).await?)?;
    run_program(Command::new(driftq).arg("verify").arg(file)).await?;
    pack(file).await
}
