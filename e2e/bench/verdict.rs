//! Figures and their limits.

use std::fmt::Write as _;
use std::process::ExitCode;

/// The figures, and the limits that were missed.
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

    /// Records a figure without a limit.
    pub(crate) fn note(&mut self, name: &str, figure: f64, unit: &str) {
        println!("      {name}: {figure:.1}{unit}");
        self.figures.push(format!("{name} {figure:.1}{unit}"));
    }

    /// Records a condition that must hold.
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

    /// Prints the last line: the figures and the missed limits.
    pub(crate) fn print(self) -> ExitCode {
        let mut line = format!("{}: {}", self.what, self.figures.join(", "));
        if !self.short.is_empty() {
            // Writing to a string cannot fail.
            let _written = write!(line, "; failed: {}", self.short.join("; "));
        }
        println!("{line}");
        if self.short.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

fn mark(is_good: bool) -> &'static str {
    if is_good { "ok   " } else { "FAIL " }
}

/// The median. The list must not be empty.
pub(crate) fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures[figures.len() / 2]
}
