//! Effects in a transcript.
//!
//! `begin op/charge k on=probe`, `begin-under orders/biller 0:0.1 key=k`, `again op/charge k`,
//! `finish op/charge k.1 succeeded result=1`, `extend-effect op/charge k.1`,
//! `resolve op/charge k.1 as=retry`, `effect op/charge k`, `effects IN_DOUBT`,
//! `chain`, `audit 1..9`.

use driftq_core::command::{
    Arrive, Began, Begin, BeginDecision, BeginOf, Commit, CommitReceipt, EffectQuery, EffectView,
    Effects, Ending, ExtendEffect, Finish, FinishStatus, ListEffects, ListPointers, Outgoing,
    Pointer, PointerName, PointerQuery, Produce, ProduceWithNonce, Produced, ReadAudit, Request,
    Resolve, Sender, SetPointer,
};
use driftq_core::effect::{
    Doubt, EffectResult, EffectRow, EffectState, Outcome, ResolvedAs, Scope,
};
use driftq_core::row::Place;
use driftq_core::{
    Command, CommandResult, EffectToken, GroupId, Lane, OnDoubt, Rejection, Reply, ShardId, Text,
    Timestamp, TopicId,
};

use super::World;
use super::print::time;
use super::script::{flag, millis, option, produce, topic, words};

pub(super) fn parse(world: &World, verb: &str, words: &[String]) -> Option<Command> {
    Some(match verb {
        "begin" | "again" => {
            let (name, again) = (query(words, &words[2]), verb == "again");
            let lease_ms = option(words, "lease").map(millis);
            Command::Begin(Box::new(begin(words, BeginOf::Scope { name, lease_ms, again })))
        }
        "begin-under" => {
            let token = match option(words, "token") {
                Some(name) => world.token(name).clone(),
                None => world.token(&format!("{} {}", words[1], words[2])).clone(),
            };
            let key = option(words, "key").map(Into::into);
            Command::Begin(Box::new(begin(words, BeginOf::Delivery { token, key })))
        }
        "finish" => Command::Finish(Box::new(finish(world, words))),
        "commit" => Command::Commit(Box::new(commit(world, words))),
        "extend-effect" => Command::ExtendEffect(Box::new(ExtendEffect {
            token: token(world, words),
            lease_ms: option(words, "lease").map(millis),
        })),
        "resolve" => {
            let (key, fence) = words[2].rsplit_once('.').expect("key.fence");
            Command::Resolve(Box::new(Resolve {
                name: query(words, key),
                fence: fence.parse().expect("a fence"),
                resolve_as: match option(words, "as") {
                    Some("succeeded") => ResolvedAs::Succeeded,
                    Some("failed") => ResolvedAs::Failed,
                    Some("retry") => ResolvedAs::Retry,
                    other => panic!("`{other:?}` is not a resolution"),
                },
                outcome: outcome(words),
                by: option(words, "by").unwrap_or("ops").into(),
                reason: option(words, "reason").unwrap_or("looked").into(),
            }))
        }
        "effect" => Command::ViewEffect(Box::new(query(words, &words[2]))),
        "pointer" => Command::ViewPointer(Box::new(PointerQuery {
            topic: topic(&words[1]),
            name: pointer_name(&words[2..]),
        })),
        "pointers" => Command::ListPointers(Box::new(ListPointers {
            topic: topic(&words[1]),
            dataset: words[2].as_str().into(),
            version: words[3].as_str().into(),
            after: option(words, "after").map(Into::into),
            limit: option(words, "limit").map_or(100, |n| n.parse().expect("a number")),
        })),
        "chain" => {
            let namespace = option(words, "of").unwrap_or("default").into();
            Command::ViewChain { shard: ShardId(0), namespace }
        }
        "audit" => {
            let (from, to) = words[1].split_once("..").expect("from..to");
            Command::ReadAudit(Box::new(ReadAudit {
                shard: ShardId(0),
                namespace: option(words, "of").unwrap_or("default").into(),
                from: from.parse().expect("a number"),
                to: to.parse().expect("a number"),
            }))
        }
        "effects" => Command::ListEffects(Box::new(ListEffects {
            shard: ShardId(0),
            namespace: "default".into(),
            state: state(&words[1]),
            scope: option(words, "scope").map(scope),
            tenant: option(words, "tenant").map(Into::into),
            from: Place::FIRST,
            limit: option(words, "limit").map_or(100, |limit| limit.parse().expect("a number")),
        })),
        _ => return None,
    })
}

fn finish(world: &World, words: &[String]) -> Finish {
    let renew = flag(words, "renew");
    let status = match words[3].as_str() {
        "succeeded" => FinishStatus::Succeeded,
        "failed" => FinishStatus::FailedFinal,
        "retryable" => FinishStatus::FailedRetryable { renew },
        "unknown" => FinishStatus::Unknown,
        other => panic!("`{other}` is not a status"),
    };
    Finish { token: token(world, words), status, outcome: outcome(words) }
}

/// `commit orders/biller 0:0.1 nack effects="op/x k.1 failed; …" produce="receipts hello; …" result=1`
fn commit(world: &World, text: &[String]) -> Commit {
    let token = match option(text, "token") {
        Some(name) => world.token(name).clone(),
        None => world.token(&format!("{} {}", text[1], text[2])).clone(),
    };
    let reason = option(text, "reason").map(Into::into);
    let lines = |name: &str, verb: &str| -> Vec<Vec<String>> {
        let lines = option(text, name).unwrap_or_default().split(';');
        let lines = lines.map(str::trim).filter(|line| !line.is_empty());
        lines.map(|line| words(&format!("{verb} {line}"))).collect()
    };
    Commit {
        token,
        ending: match (flag(text, "nack"), flag(text, "final")) {
            (true, _) => Ending::Nack { reason, delay_ms: option(text, "delay").map(millis) },
            (false, true) => Ending::Final(reason),
            (false, false) => Ending::Ack,
        },
        effects: lines("effects", "finish").iter().map(|words| finish(world, words)).collect(),
        produce: lines("produce", "produce").iter().map(|words| produce(words)).collect(),
        pointers: lines("pointers", "set").iter().map(|words| set_pointer(words)).collect(),
        result: option(text, "result").map(|text| EffectResult::Json(text.into())),
    }
}

fn pointer_name(words: &[String]) -> PointerName {
    let [dataset, version, partition_key] = [0, 1, 2].map(|at| long(&words[at]));
    PointerName { dataset, version, partition_key }
}

/// `ledger 7 dt=1 s3://x sum=1 replace`
fn set_pointer(words: &[String]) -> SetPointer {
    SetPointer {
        name: pointer_name(&words[1..]),
        location: long(&words[4]),
        checksum: option(words, "sum").map(long),
        replace: flag(words, "replace"),
    }
}

/// Expands `256bytes` to a text of that length.
fn long(text: impl AsRef<str>) -> Text {
    let length = text.as_ref().strip_suffix("bytes").and_then(|n| n.parse().ok());
    length.map_or_else(|| text.as_ref().into(), |length| "x".repeat(length).into())
}

pub(super) fn pointer(pointer: &Pointer) -> String {
    let Pointer { name, location, checksum, committed_at, message, group, attempt } = pointer;
    let PointerName { dataset, version, partition_key } = name;
    let sum = checksum.as_ref().map_or(String::new(), |sum| format!(" sum {sum}"));
    let (at, offset) = (time(*committed_at), message.offset);
    format!(
        "{dataset} {version} {partition_key}: {location}{sum}, by {group} {offset}.{attempt} at {at}"
    )
}

/// `messages="orders hello key=a; orders b"`
fn messages(text: &[String]) -> impl Iterator<Item = Produce> {
    let lines = option(text, "messages").unwrap_or_default().split(';').map(str::trim);
    lines.map(|line| produce(&words(&format!("produce {line}"))))
}

/// `request n1 messages="orders hello; orders b key=a"`, `request n1 at=3 messages="orders a routed=…"`
pub(super) fn request(text: &[String]) -> ProduceWithNonce {
    let at = option(text, "at").map_or(0, |at| at.parse().expect("a number"));
    let mut parts =
        ProduceWithNonce::parts(&long(&text[1]), (at..).zip(messages(text)).collect(), 1);
    parts.pop().expect("a message")
}

/// `arrive 0 from=3 messages="orders hello key=a; orders b"`
pub(super) fn arrive(text: &[String]) -> Arrive {
    let message = |produce: Produce| Outgoing {
        namespace: produce.topic.namespace,
        topic: produce.topic.topic,
        key: produce.key,
        value: produce.value,
        envelope: produce.envelope,
        routing: produce.routing,
        trace: None,
        routed: produce.routed,
        sender: Sender {
            topic: TopicId(1),
            group: Some(GroupId(1)),
            lane: Lane(0),
            message: "m_aaaacaaa".parse().expect("an id"),
        },
    };
    Arrive {
        source: ShardId(text[1].parse().expect("a shard")),
        from: option(text, "from").expect("a number").parse().expect("a number"),
        messages: messages(text).map(message).collect(),
    }
}

fn begin(words: &[String], of: BeginOf) -> Begin {
    let text = |name| option(words, name).map(Into::into);
    let content = |text: &str| Request::Content(text.to_owned().into());
    Begin {
        of,
        request: match option(words, "hash") {
            Some(hash) => Some(Request::Hash(hash.into())),
            None => option(words, "request").map(content),
        },
        on_doubt: option(words, "on").map(on_doubt),
        ttl_ms: option(words, "ttl").map(millis),
        window_ms: option(words, "window").map(millis),
        owner: text("owner"),
        nonce: text("nonce"),
    }
}

pub(super) fn on_doubt(word: &str) -> OnDoubt {
    match word {
        "retry" => OnDoubt::Retry,
        "probe" => OnDoubt::Probe,
        "park" => OnDoubt::Park,
        other => panic!("`{other}` is not a policy"),
    }
}

fn scope(text: &str) -> Scope {
    Scope::parse(&"default".into(), text).expect("a scope")
}

fn state(word: &str) -> EffectState {
    use EffectState::*;
    let all = [InProgress, InDoubt, Parked, Succeeded, FailedFinal, FailedRetryable];
    all.into_iter().find(|state| state.as_str() == word).expect("a state")
}

pub(super) fn query(words: &[String], key: &str) -> EffectQuery {
    EffectQuery {
        namespace: "default".into(),
        tenant: option(words, "tenant").unwrap_or("").into(),
        scope: scope(&words[1]),
        key: key.into(),
    }
}

fn token(world: &World, words: &[String]) -> EffectToken {
    let name =
        option(words, "token").map_or_else(|| format!("{} {}", words[1], words[2]), str::to_owned);
    world.effects.get(&name).unwrap_or_else(|| panic!("{name} was never issued")).clone()
}

fn outcome(words: &[String]) -> Outcome {
    let json = |text: &str| EffectResult::Json(text.into());
    Outcome {
        code: option(words, "code").map_or(0, |code| code.parse().expect("a code")),
        result: option(words, "result").map(json),
        error: option(words, "error").unwrap_or("").into(),
    }
}

/// The name of an effect in a script.
fn named(row: &EffectRow) -> String {
    let tenant = match &*row.name.tenant {
        "default" => String::new(),
        tenant => format!("{tenant}:"),
    };
    format!("{tenant}{} {}.{}", row.name.scope, row.name.key, row.fence)
}

pub(super) fn keep_token(world: &mut World, answered: &CommandResult) {
    if let Ok(Reply::Began(began)) = answered
        && let Some(token) = &began.token
    {
        world.effects.insert(named(&began.effect.row), token.clone());
    }
}

pub(super) fn refused(rejection: &Rejection) -> Option<String> {
    if let Rejection::InProgress { fence, owner, retry_after_ms } = rejection {
        return Some(format!(
            "IN_PROGRESS: fence {fence} of \"{owner}\", ask in {retry_after_ms}ms"
        ));
    }
    if let Rejection::Parked { doubt: why, retry_after_ms } = rejection {
        return Some(format!("park: {}, ask in {retry_after_ms}ms", doubt(why)));
    }
    None
}

fn doubt(doubt: &Doubt) -> String {
    let Doubt { fence, owner, began_at, since, cause } = doubt;
    let (began, since) = (time(*began_at), time(*since));
    format!("fence {fence} of \"{owner}\" began {began} in doubt since {since}, {}", cause.as_str())
}

fn ended(outcome: &Outcome) -> String {
    let mut said = String::new();
    if outcome.code != 0 {
        said += &format!(" code {}", outcome.code);
    }
    match &outcome.result {
        Some(EffectResult::Json(text)) => said += &format!(" result {text}"),
        Some(EffectResult::Base64(text)) => said += &format!(" bytes {text}"),
        None => {}
    }
    if !outcome.error.is_empty() {
        said += &format!(" \"{}\"", outcome.error);
    }
    said
}

pub(super) fn view(effect: &EffectView) -> String {
    let EffectView { row, state, held_until, .. } = effect;
    let mut said = format!("{} {}{}", named(row), state.as_str(), ended(&row.outcome));
    if let Some(until) = held_until {
        said += &format!(" until {}", time(*until));
    }
    if row.expires != Timestamp::MAX {
        said += &format!(", kept until {}", time(row.expires));
    }
    if let Some(why) = &row.doubt {
        said += &format!("; {}", doubt(why));
    }
    if let Some(resolution) = &row.resolution {
        said +=
            &format!("; {:?} by {}: {}", resolution.resolved_as, resolution.by, resolution.reason);
    }
    if row.renewed > 0 {
        said += &format!("; key renewed {} times", row.renewed);
    }
    said
}

pub(super) fn began(began: &Began) -> String {
    let decision = match began.decision {
        BeginDecision::Execute => "EXECUTE",
        BeginDecision::Probe => "probe",
        BeginDecision::Replay => "REPLAY",
        BeginDecision::Retryable => "RETRYABLE",
    };
    format!("{decision}: {}", view(&began.effect))
}

pub(super) fn finished(effect: &EffectView, repeated: bool) -> String {
    format!("{}{}", if repeated { "as before: " } else { "" }, view(effect))
}

pub(super) fn committed(produced: &[CommitReceipt], repeated: bool) -> String {
    let mut said = if repeated { "committed before".to_owned() } else { "committed".to_owned() };
    for CommitReceipt { topic, receipt } in produced {
        let Some(receipt) = receipt else {
            said += &format!(", {topic} queued");
            continue;
        };
        let again = if receipt.deduplicated { " before" } else { "" };
        said += &format!(", {topic} {}:{}{again}", receipt.partition, receipt.offset);
    }
    said
}

pub(super) fn taken(taken: &Produced) -> String {
    let (receipt, until) = (&taken.receipt, time(taken.expires));
    format!("taken by {}:{} until {until}", receipt.partition, receipt.offset)
}

pub(super) fn effects(listed: &Effects) -> String {
    let Effects { effects, scanned, next } = listed;
    let names: Vec<String> = effects.iter().map(view).collect();
    let more = if next.is_some() { "more" } else { "the end" };
    let names = if names.is_empty() { "none".to_owned() } else { names.join("; ") };
    format!("{names} (scanned {scanned}, {more})")
}

/// Doubt that no reply has reported.
pub(super) fn changed(row: &EffectRow) -> Option<String> {
    let is_news = row.state == EffectState::InDoubt;
    is_news.then(|| {
        format!(
            "{} in doubt: {}",
            named(row),
            row.doubt.as_ref().map_or("", |doubt| doubt.cause.as_str())
        )
    })
}
