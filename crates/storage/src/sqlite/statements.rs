//! The statements of each table, generated once from its layout.

use driftq_core::row::Table;

use crate::layout::layout;

/// The statements of one table.
pub(super) struct Statements {
    pub(super) get: String,
    pub(super) put: String,
    pub(super) delete: String,
    pub(super) delete_range: String,
    pub(super) load: String,
    /// In key order: with bodies, and without.
    pub(super) range: [String; 2],
    /// In reverse: with bodies, and without.
    pub(super) reverse: [String; 2],
    pub(super) is_text: bool,
}

/// Statements of all tables, in the order of [`Table`].
pub(super) struct All(Vec<Statements>);

impl All {
    pub(super) fn new() -> All {
        All((0..).map_while(Table::of).map(statements).collect())
    }

    pub(super) fn of(&self, table: Table) -> &Statements {
        &self.0[table as usize]
    }
}

fn statements(table: Table) -> Statements {
    let layout = layout(table);
    let name = layout.name;
    let key = layout.key_names().join(", ");
    let names = layout.names();
    let without_body = names.join(", ");
    let all = format!("{without_body}, body");
    // ?1 is the shard. Keys and columns follow.
    let places = |from: usize, count: usize| {
        (from..from + count).map(|at| format!("?{at}")).collect::<Vec<_>>().join(", ")
    };
    let keys = layout.key.len();
    let is_key = format!("shard = ?1 AND ({key}) = ({})", places(2, keys));
    let in_range = format!(
        "shard = ?1 AND ({key}) >= ({}) AND ({key}) < ({})",
        places(2, keys),
        places(2 + keys, keys)
    );
    let backwards = layout.key_names().join(" DESC, ");
    let select = |columns: &str| format!("SELECT {columns} FROM {name} WHERE {in_range}");
    let set: Vec<String> = names[keys..]
        .iter()
        .chain([&"body"])
        .map(|column| format!("{column} = excluded.{column}"))
        .collect();
    Statements {
        get: format!("SELECT {all} FROM {name} WHERE {is_key}"),
        put: format!(
            "INSERT INTO {name} (shard, {all}) VALUES (?1, {}) ON CONFLICT (shard, {key}) DO UPDATE SET {}",
            places(2, names.len() + 1),
            set.join(", ")
        ),
        delete: format!("DELETE FROM {name} WHERE {is_key}"),
        delete_range: format!("DELETE FROM {name} WHERE {in_range}"),
        load: format!("SELECT {all} FROM {name} WHERE shard = ?1"),
        range: [&all, &without_body].map(|columns| format!("{} ORDER BY {key}", select(columns))),
        reverse: [&all, &without_body]
            .map(|columns| format!("{} ORDER BY {backwards} DESC", select(columns))),
        is_text: layout.is_text(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::reading::{ENDING, UNENDING};
    use crate::sqlite::schema;
    use crate::sqlite::writing::EXPIRE;

    /// A table scan would return the right rows, so only a test of the plan detects it.
    #[test]
    fn every_statement_finds_its_rows_by_key() {
        let directory = tempfile::TempDir::new().unwrap();
        let connection = schema::writer(&directory.path().join("plans.db")).unwrap();
        let is_search = |statement: &str, by: &str| {
            let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {statement}")).unwrap();
            let lines = plan.raw_query().mapped(|line| line.get::<_, String>(3));
            // Few records share a bucket, so sorting them is cheap.
            let is_small = |line: &String| line == "USE TEMP B-TREE FOR LAST TERM OF ORDER BY";
            for line in lines.map(Result::unwrap).filter(|line| !is_small(line)) {
                assert!(line.starts_with("SEARCH") && line.contains(by), "{statement}\n{line}");
            }
        };
        for table in (0..).map_while(Table::of) {
            let all = statements(table);
            let selects = [all.get, all.delete, all.delete_range, all.load];
            for statement in selects.into_iter().chain(all.range).chain(all.reverse) {
                is_search(&statement, "");
            }
        }
        is_search(UNENDING, "record_bucket");
        is_search(ENDING, "record_bucket");
        is_search(EXPIRE, "record_bucket");
    }
}
