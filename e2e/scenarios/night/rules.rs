//! The alert rules of the repository, sixty times as fast: a minute of the rules is a second.
//!
//! - `for:` and the ranges of queries (`[5m]`) are divided by 60.
//! - The ages with which `driftq_oldest_unsettled_seconds` is compared are divided by 60.
//! - Nothing else changes, in particular no other threshold.

use anyhow::{Context as _, ensure};

const RULES: &str = "deploy/alerts.yml";
/// The ages in the rules, and a sixtieth of each.
const AGES: [(&str, &str); 2] = [(") > 600 ", ") > 10 "), (") > 2 * 3600\n", ") > 2 * 60\n")];

/// Returns the rules of the repository, sixty times as fast.
pub(crate) fn read() -> anyhow::Result<String> {
    fast(std::fs::read_to_string(RULES).with_context(|| RULES)?)
}

fn fast(mut rules: String) -> anyhow::Result<String> {
    for (age, sixtieth) in AGES {
        ensure!(rules.matches(age).count() == 1, "{RULES} should have {age:?} once");
        rules = rules.replace(age, sixtieth);
    }
    let lines = rules.lines().map(|line| {
        let (before, after) = match line.trim_start() {
            field if field.starts_with("for: ") => ("for: ", ""),
            field if field.starts_with("expr: ") => ("[", "]"),
            _ => return line.to_owned() + "\n",
        };
        let mut pieces = line.split(before);
        let mut fast = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let end = if after.is_empty() { piece.len() } else { piece.find(after).unwrap_or(0) };
            let (duration, rest) = piece.split_at(end);
            fast += before;
            fast += &sixtieth(duration).unwrap_or_else(|| duration.to_owned());
            fast += rest;
        }
        fast + "\n"
    });
    Ok(lines.collect())
}

fn sixtieth(duration: &str) -> Option<String> {
    let minutes = |unit, per: u64| Some(duration.strip_suffix(unit)?.parse::<u64>().ok()? * per);
    let seconds = minutes('m', 1).or_else(|| minutes('h', 60))?;
    Some(format!("{seconds}s"))
}

#[cfg(test)]
mod tests {
    use super::fast;

    #[test]
    fn a_minute_of_the_rules_is_a_second_and_an_hour_is_a_minute() {
        let rules = "\
      # for: 5m
      - alert: Old
        expr: max(age) > 2 * 3600
        for: 5m
      - alert: Behind
        expr: max(age) > 600 and rate(acked[5m]) + rate(lost{a=\"b\"}[15m]) > 0
        for: 1h
        annotations: { summary: \"for 10m\" }
";
        let expected = "\
      # for: 5m
      - alert: Old
        expr: max(age) > 2 * 60
        for: 5s
      - alert: Behind
        expr: max(age) > 10 and rate(acked[5s]) + rate(lost{a=\"b\"}[15s]) > 0
        for: 60s
        annotations: { summary: \"for 10m\" }
";
        assert_eq!(fast(rules.to_owned()).expect("has both ages"), expected);
        assert!(fast("expr: max(age) > 700 and".to_owned()).is_err());
    }
}
