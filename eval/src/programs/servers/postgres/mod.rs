//! Postgres with a database of about 700 MiB in its shared buffers, under two loads of pgbench.
//!
//! *Look-ups* by key go to a tenth of the rows, by Zipf's law. Two things are cold then. A pooled
//! connection has once read the whole table and now idles: its page tables hold the shared buffers,
//! most of which nobody else has mapped. And an open cursor over a big sorted result sits in its
//! private memory. pgbench's connections touch the hot rows.
//!
//! *Scans* are analytic queries over the newest half of the table: a join and sums by group. The
//! pooled connection has read everything and has no cursor.

mod bench;
mod cluster;

use std::path::PathBuf;

use crate::processes::child::Child;
use crate::programs::installed::not_installed;
use crate::programs::{Outcome, Place, Program, Running, Size};

/// Of pgbench: 100,000 accounts each.
const SCALE: u64 = 40;

/// One of the loads.
#[derive(Debug)]
pub(crate) struct Postgres {
    name: &'static str,
    about: &'static str,
    /// A transaction, for pgbench; `@` is the scale.
    transaction: &'static str,
    /// What the pooled connection does after it has read everything.
    pooled: &'static [&'static str],
}

impl Postgres {
    /// The newest tenth of the rows.
    pub(crate) const LOOKUPS: Self = Self {
        name: "postgres",
        about: "PostgreSQL, 700 MiB in shared buffers, pgbench select-only on a tenth by Zipf's law",
        transaction: "\\set n random_zipfian(1, 10000 * @, 1.05)\n\
            SELECT abalance FROM pgbench_accounts WHERE aid = 90000 * @ + :n;\n",
        pooled: &[
            "SET work_mem = '600MB'; SET jit = off; SET max_parallel_workers_per_gather = 0;",
            "BEGIN; DECLARE c NO SCROLL CURSOR FOR SELECT aid, bid, abalance FROM pgbench_accounts ORDER BY filler, aid DESC;",
            "FETCH 1 FROM c;",
        ],
    };

    /// The answer is known: a wrong one divides by zero, which ends pgbench.
    pub(crate) const SCANS: Self = Self {
        name: "postgres-scans",
        about: "PostgreSQL, 700 MiB in shared buffers, a join and sums over the newest half",
        transaction: "SET max_parallel_workers_per_gather = 0;\n\
            SELECT 1 / (count(*) = @ / 2 AND min(n) = 100000)::int FROM (\n\
            SELECT bid, count(*) AS n, sum(abalance + bbalance), max(pgbench_accounts.filler)\n\
            FROM pgbench_accounts JOIN pgbench_branches USING (bid)\n\
            WHERE aid > 50000 * @ GROUP BY bid) AS branches;\n",
        pooled: &[],
    };
}

#[derive(Debug)]
struct Server {
    // The connection ends before the server.
    pool: Child,
    child: Child,
    dir: PathBuf,
    transaction: PathBuf,
    runs: u32,
}

impl Program for Postgres {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn missing(&self) -> Option<String> {
        let Some(bin) = cluster::binaries() else {
            return Some("no initdb: apt-get install postgresql".into());
        };
        let all = ["initdb", "postgres", "psql", "pgbench"].map(|p| bin.join(p));
        let names: Vec<_> = all.iter().map(|p| p.to_string_lossy().into_owned()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        not_installed(&names, "postgresql").or_else(|| not_installed(&["setpriv"], "util-linux"))
    }

    fn begin(&self, place: &Place, size: Size) -> anyhow::Result<Box<dyn Running>> {
        // An even number: half of the branches are asked for.
        let scale = size.scaled(SCALE).next_multiple_of(2);
        let text = self.transaction.replace('@', &scale.to_string());
        let transaction = place.write("transaction.sql", &text)?;
        let child = cluster::start(place)?;
        bench::fill(place.path(), scale)?;
        let pool = cluster::pooled(place, self.pooled)?;
        let dir = place.path().to_owned();
        Ok(Box::new(Server { pool, child, dir, transaction, runs: 0 }))
    }
}

impl Running for Server {
    fn roots(&self) -> Vec<u32> {
        vec![self.child.pid()]
    }

    fn lasts(&self) -> bool {
        true
    }

    fn load(&mut self, seconds: f64) -> anyhow::Result<Outcome> {
        self.child.still_runs()?;
        self.pool.still_runs()?;
        self.runs += 1;
        bench::run(&self.dir, &self.transaction, self.runs, seconds)
    }
}
