//! The page that operators read. Each section with a `console` block is about one failure: the
//! command to run, its output, and the alert.

use anyhow::{Context as _, ensure};

/// The start of the line that names the alert.
const ALERT: &str = "**Alert:** `";

/// The sections about failures.
pub(crate) struct Page(Vec<Section>);

/// The section about a failure.
#[derive(Debug, Clone)]
pub(crate) struct Section {
    pub(crate) heading: String,
    pub(crate) command: String,
    shown: Vec<String>,
    pub(crate) alert: String,
}

impl Page {
    pub(crate) fn read(path: &str) -> anyhow::Result<Page> {
        let text = std::fs::read_to_string(path).with_context(|| path.to_owned())?;
        let sections = text.split("\n## ").skip(1).filter(|text| text.contains("```console"));
        let sections = sections.map(|text| Section::parse(text).context(path.to_owned()));
        Ok(Page(sections.collect::<anyhow::Result<_>>()?))
    }

    pub(crate) fn headings(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|section| &*section.heading)
    }

    pub(crate) fn section(&self, heading: &str) -> anyhow::Result<&Section> {
        let found = self.0.iter().find(|section| section.heading == heading);
        found.with_context(|| format!("the page has no section \"{heading}\""))
    }
}

impl Section {
    fn parse(text: &str) -> anyhow::Result<Section> {
        let heading = text.lines().next().unwrap_or_default().to_owned();
        let mut blocks = text.split("```console\n").skip(1);
        let block = blocks.next().and_then(|rest| rest.split("\n```").next());
        let block = block.with_context(|| format!("{heading}: no console block"))?;
        ensure!(blocks.next().is_none(), "{heading}: more than one console block");
        let mut lines = block.lines();
        let command = lines.next().and_then(|line| line.strip_prefix("$ "));
        let command = command.with_context(|| format!("{heading}: no command"))?.to_owned();
        let shown: Vec<String> = lines.map(str::to_owned).collect();
        ensure!(
            !shown.iter().any(|line| line.starts_with("$ ")),
            "{heading}: more than one command"
        );
        let alert = text.lines().find_map(|line| line.strip_prefix(ALERT)?.split('`').next());
        let alert = alert.with_context(|| format!("{heading}: no line {ALERT}…`"))?.to_owned();
        Ok(Section { heading, command, shown, alert })
    }

    /// Fails unless the output is as shown and has the cause, which must be on the page too.
    pub(crate) fn compare(&self, output: &str, cause: &str) -> anyhow::Result<()> {
        let printed: Vec<String> = output.lines().map(|line| line.trim_end().to_owned()).collect();
        let (shown, command) = (self.shown.join("\n"), &self.command);
        ensure!(shown.contains(cause), "the page does not show {cause:?} below `{command}`");
        ensure!(
            are_as_shown(&self.shown, &printed) && output.contains(cause),
            "`{command}` printed\n{output}\nthe page shows\n{shown}"
        );
        Ok(())
    }
}

/// `…` matches any text in a line; alone on a line, any number of lines. `just readme` has the same
/// rule for the other pages.
fn are_as_shown(shown: &[String], printed: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((any, rest)) if any == "…" => {
            (0..=printed.len()).any(|skipped| are_as_shown(rest, &printed[skipped..]))
        }
        Some((line, rest)) => printed
            .split_first()
            .is_some_and(|(first, others)| is_as_shown(line, first) && are_as_shown(rest, others)),
    }
}

fn is_as_shown(shown: &str, printed: &str) -> bool {
    let Some((start, rest)) = shown.split_once('…') else { return shown == printed };
    let Some(printed) = printed.strip_prefix(start) else { return false };
    let ends = printed.char_indices().map(|(at, _)| at).chain([printed.len()]);
    ends.into_iter().any(|at| is_as_shown(rest, &printed[at..]))
}
