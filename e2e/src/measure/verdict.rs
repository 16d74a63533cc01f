//! Figures and their bars.

use std::fmt::Write as _;
use std::process::ExitCode;

/// What was measured, and what fell short.
pub(crate) struct Verdict {
    what: &'static str,
    figures: Vec<String>,
    short: Vec<String>,
}

impl Verdict {
    pub(crate) fn new(what: &'static str) -> Verdict {
        Verdict { what, figures: Vec::new(), short: Vec::new() }
    }

    pub(crate) fn at_least(&mut self, name: &str, figure: f64, bar: f64, unit: &str) {
        self.judge(name, figure, figure >= bar, format!("at least {bar}{unit}"), unit);
    }

    pub(crate) fn under(&mut self, name: &str, figure: f64, bar: f64, unit: &str) {
        self.judge(name, figure, figure < bar, format!("under {bar}{unit}"), unit);
    }

    /// A figure without a bar.
    pub(crate) fn note(&mut self, name: &str, figure: f64, unit: &str) {
        println!("      {name}: {figure:.1}{unit}");
        self.figures.push(format!("{name} {figure:.1}{unit}"));
    }

    /// Something that must be so, whatever the figures are.
    pub(crate) fn must(&mut self, what: String, is_so: bool) {
        println!("{} {what}", mark(is_so));
        if !is_so {
            self.short.push(what);
        }
    }

    fn judge(&mut self, name: &str, figure: f64, is_good: bool, bar: String, unit: &str) {
        println!("{} {name}: {figure:.2}{unit} ({bar})", mark(is_good));
        self.figures.push(format!("{name} {figure:.2}{unit}"));
        if !is_good {
            self.short.push(format!("{name} is not {bar}"));
        }
    }

    /// The last line: the figures, and what falls short.
    pub(crate) fn say(self) -> ExitCode {
        let mut line = format!("{}: {}", self.what, self.figures.join(", "));
        if !self.short.is_empty() {
            // Writing to a string does not fail.
            let _written = write!(line, "; falls short: {}", self.short.join("; "));
        }
        println!("{line}");
        if self.short.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

fn mark(is_good: bool) -> &'static str {
    if is_good { "ok   " } else { "SHORT" }
}

/// The middle one. There is one at least.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures[figures.len() / 2]
}
