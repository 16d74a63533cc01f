//! Three steps of an agent: plan, search, answer. Each step commits its result and the next step at
//! once, so a run never does a step twice and never stops between two.
//!
//! ```sh
//! driftq dev --topic questions --topic searches --topic drafts --topic answers
//! cargo run -p driftq-client --example agent_pipeline
//! curl -s 127.0.0.1:8080/v1/produce -d '{"topic":"questions","value":"{\"text\":\"why is the sky blue\"}","envelope":{"run_id":"run-1"}}'
//! ```
#![expect(clippy::print_stdout, reason = "it tells what it does")]

use driftq_client::{Client, Context, EffectError, Fail, OnDoubt, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Question {
    text: String,
}

#[derive(Serialize, Deserialize)]
struct Search {
    question: String,
    terms: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct Draft {
    question: String,
    pages: Vec<String>,
}

/// A model costs money, so its response is an effect: a repeat gets the recorded one.
async fn ask_model(ctx: &Context, step: &str, prompt: String) -> Result<String, Fail> {
    let effect = ctx.effect(step).request(&*prompt).on_doubt(OnDoubt::Retry);
    effect.run(async |_| Ok::<_, EffectError>(format!("[{prompt}]"))).await
}

async fn plan(question: Question, ctx: Context) -> Result<(), Fail> {
    let terms = ask_model(&ctx, "plan", format!("terms for {}", question.text)).await?;
    let search = Search { question: question.text, terms: vec![terms] };
    ctx.commit().produce("searches", &search)?.send().await
}

async fn search(search: Search, ctx: Context) -> Result<(), Fail> {
    // Reading has no side effect, so a repeat may read again.
    let pages = search.terms.iter().map(|term| format!("a page about {term}")).collect();
    let draft = Draft { question: search.question, pages };
    ctx.commit().produce("drafts", &draft)?.send().await
}

async fn answer(draft: Draft, ctx: Context) -> Result<(), Fail> {
    let prompt = format!("answer {} with {}", draft.question, draft.pages.join(", "));
    let text = ask_model(&ctx, "answer", prompt).await?;
    let run = ctx.delivery().envelope.run_id.clone().unwrap_or_default();
    println!("{run}: {text}");
    ctx.commit().produce("answers", &text)?.send().await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("DRIFTQ_URL").unwrap_or("http://127.0.0.1:8080".to_owned());
    let worker = Worker::new(Client::connect(&url)?)
        .handler("questions", "planner", plan)
        .handler("searches", "searcher", search)
        .handler("drafts", "writer", answer);
    worker.run_until_signal().await?;
    Ok(())
}
