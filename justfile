# The only front door: CI and hooks run these recipes and nothing else.
# What each shows, and the bar it holds, is in CONTRIBUTING.md.

sim_run := "cargo run --quiet --profile sim -p driftq-sim --bin sim --"

# The bugs that fall to the fewest seeds; what CI can afford on every push.
quickest_bugs := "ack-by-owner-only attempts-in-memory reply-before-commit"

# List the recipes
default:
    @just --list --unsorted

# Everything a change must pass: format, lints, tidy, dependencies, spelling, tests
check: (stages 'format' 'lint' 'tidy' 'deny' 'typos' 'test')

# Run all tests, beside a throw-away PostgreSQL
test:
    e2e/with-postgres 15 cargo nextest run --workspace

# The contract of the HTTP API on ENGINE: memory, sqlite, postgres-15 or postgres-18; without one, on all
contract ENGINE='':
    #!/usr/bin/env bash
    set -euo pipefail
    for engine in {{ if ENGINE == '' { 'memory sqlite postgres-15 postgres-18' } else { ENGINE } }}; do
        case $engine in
        postgres-*)
            # With it what every engine promises: the rest of `just test` knows one PostgreSQL only.
            DRIFTQ_TEST_ENGINE=postgres e2e/with-postgres "${engine#postgres-}" cargo nextest run --workspace \
                -E 'package(driftq-server) | (package(driftq-storage) & test(postgres))'
            ;;
        # Of the whole workspace, for what `just test` has built is then built.
        *) DRIFTQ_TEST_ENGINE=$engine e2e/with-postgres 15 cargo nextest run --workspace -E 'package(driftq-server)' ;;
        esac
    done

# The API against its OpenAPI document: requests made up from it, in both forms, to a real server
schemathesis:
    cargo build --quiet -p driftq-cli
    e2e/schemathesis/run target/debug/driftq

# Write docs/reference/openapi.json from routes and types; the page beside it is written by hand
openapi:
    UPDATE_EXPECT=1 cargo nextest run -p driftq-server openapi::

# Fill in the expectations of transcripts and golden bytes, write docs/reference; read the diff as if someone else wrote it
transcripts:
    UPDATE_EXPECT=1 cargo test -q -p driftq-core -p driftq-cli

# Format, and apply what clippy can fix by itself
fix:
    cargo clippy --workspace --all-targets --fix --allow-dirty --allow-staged
    cargo fmt --all

# Fail if code is not formatted
format:
    cargo fmt --all --check

# Fail on any warning of the compiler or of clippy
lint:
    cargo clippy --workspace --all-targets -- -D warnings

# Rules no compiler knows: crate edges, names, links, machine paths, decision records, promises
tidy:
    cargo run --quiet -p xtask -- tidy

# Licences, duplicates and sources of dependencies
deny:
    cargo deny check licenses bans sources

# Spelling
typos:
    typos

# Simulate COUNT fresh seeds; the failing seed is in the last line
sim COUNT='300':
    {{ sim_run }} run {{ COUNT }}

# Run one seed again
sim-one SEED:
    {{ sim_run }} one {{ SEED }}

# Seeded bugs, all or those NAMED: each must be found under the invariant its patch names
bugs *NAMES:
    e2e/with-postgres 15 cargo run --quiet -p xtask -- bugs {{ NAMES }}

# The real server on SQLite: killed KILLS times under load, system calls that fail, a full disk; PART: one of these
crash KILLS='20' PART='': (crash-in 'sim' KILLS PART)

# The same server with several shards: killed KILLS times while commits end effects and produce on other shards; then its ledger is exported and verified
crash-effects KILLS='20': (crash-in 'sim' KILLS 'effects')

# Three servers on one PostgreSQL, ROUNDS times: killed, paused for longer than their lease, stopped, cut off in six ways; PostgreSQL is restarted, and killed
chaos ROUNDS='50': (crash-in 'sim' ROUNDS 'cluster')

# Three servers of the binary OLD on one PostgreSQL, exchanged one by one for this one and back, ROUNDS times, under load
upgrade OLD ROUNDS='1': (crash-in 'dev' ROUNDS 'upgrade ' + OLD)

# One round: every kind
[private]
chaos-briefly: (crash-in 'dev' '1' 'cluster')

# Data that older binaries wrote, opened with this one: every token, key, commit and setting is answered as its clients expect
old-data:
    cargo build --quiet -p driftq-cli -p driftq-e2e
    target/debug/old-data check target/debug/driftq e2e/old-data/*/

# Write a new set NAME of old data with the driftq BINARY; sets are never rewritten
old-data-make BINARY NAME:
    cargo build --quiet -p driftq-e2e
    target/debug/old-data make {{ BINARY }} e2e/old-data/{{ NAME }}

# Promises that an attack once broke, all or those NAMED, against the real server
repro *NAMES:
    cargo build --quiet --profile sim -p driftq-cli -p driftq-e2e
    target/sim/repro target/sim/driftq {{ NAMES }}

# The same scenarios on a BINARY from before their fixes: each must see its promise broken
repro-broken BINARY *NAMES:
    cargo build --quiet --profile sim -p driftq-e2e
    target/sim/repro {{ BINARY }} --expect-failures {{ NAMES }}

# Three servers on three PostgreSQL under Patroni, FAILOVERS times: the primary is killed, cut off, switched, paused, killed after its standby; as root
failover FAILOVERS='30': (crash-in 'sim' FAILOVERS 'failover')

# Two of them, where networks can be made and cut
[private]
failover-briefly:
    #!/usr/bin/env bash
    set -euo pipefail
    if unshare --net true 2>/dev/null; then
        just crash-in dev 2 failover
    else
        echo "failover: NOT RUN, for want of the right to make network namespaces (root has it)"
    fi

# With the binaries that are there anyway
[private]
crash-briefly: (crash-in 'dev' '12' '')

[private]
crash-in PROFILE KILLS PART:
    cargo build --quiet --profile {{ PROFILE }} -p driftq-cli -p driftq-e2e
    target/{{ if PROFILE == 'dev' { 'debug' } else { PROFILE } }}/crash \
        target/{{ if PROFILE == 'dev' { 'debug' } else { PROFILE } }}/driftq {{ KILLS }} {{ PART }}

# Whether the tools that break a cluster do what they say, all or PART, on PostgreSQL VERSION
harness-selftest PART='' VERSION='':
    cargo build --quiet -p driftq-e2e
    target/debug/harness_selftest {{ PART }} {{ VERSION }}

# The workers of examples/ against the real server; one of them and the server are killed in the middle
examples:
    cargo build --quiet -p driftq-cli -p driftq-e2e
    target/debug/workers target/debug/driftq

# 1 000 orders charged by workers that are killed at the worst moments; who is charged twice, and is it known?
demo-effects:
    cargo build --quiet -p driftq-cli -p driftq-e2e
    target/debug/effects target/debug/driftq

# The code of docs/keep-your-queue.md in workers of Celery and BullMQ; one of them and the server are killed in the middle
keep-your-queue:
    cargo build --quiet -p driftq-cli -p driftq-e2e
    target/debug/queues target/debug/driftq

# Type what README, docs/operating.md and the tour of `driftq dev` tell readers to type
readme:
    cargo run --quiet -p xtask -- readme

# The size of the release binary, and the time from `driftq dev` to a first ack
small:
    cargo build --quiet --release -p driftq-cli
    cargo run --quiet -p xtask -- small target/release/driftq

# Every decoder, or TARGET, against bytes that nobody wrote, each for SECONDS; the figure is in the last line
fuzz SECONDS='30' TARGET='':
    fuzz/run {{ SECONDS }} {{ TARGET }}

# A long backlog against a short one: memory, restart, speed; PART: sqlite-batches, sqlite-singles, postgres-batches or postgres-singles; without one, all
backlog PART='': (measure 'backlog' PART)

# One request per message: SQLite against memory and a bare handler; batches against single messages
bench-http: (measure 'http')

# The effect ledger against the queue beside it, a commit against its parts, 5 000 000 records against 10 000
bench-ledger: (measure 'ledger')

# The engine on PostgreSQL against the least that writes the same rows; two nodes against one
bench-pg: (measure 'postgres')

# 24 000 000 messages through PostgreSQL: sizes stay flat; then a snapshot is held for ten minutes
bloat: (measure 'bloat')

# What a server on PostgreSQL costs with more shards, topics, groups, messages, consumers, beside a plain one
growth: (measure 'growth')

# 5 000 sockets that send no request, at a server for 1 000: a client is served all the while
edge: (measure 'edge')

# A page of another origin in Debian's Chromium, and a rebound name, against a server on loopback without a key
browser:
    cargo build --quiet -p driftq-cli -p driftq-e2e
    target/debug/chromium target/debug/driftq

# Idle streams, slow clients, bad requests from SEED, web pages: nobody else notices
hostile SEED='': (measure 'hostile' SEED)

# All of it as it is released: the server is measured, and a bare handler in `measure` against it.
[private]
measure WHAT ARGUMENT='':
    cargo build --quiet --release -p driftq-cli -p driftq-e2e --bin driftq --bin measure
    target/release/measure {{ WHAT }} target/release/driftq {{ ARGUMENT }}

# Deliveries settled a second: core, packing and pipeline, one thread, memory engine
bench-core:
    cargo run --quiet --release -p driftq-sim --bin bench_core

# Recovery of 10 000 000 messages against recovery of 1 000 with equal open state
recovery:
    cargo run --quiet --release -p driftq-sim --bin recovery

# 1 000 shards on 50 nodes that are lost, drain and join; a claim with its recovery is CLAIM_MS of the database, a node has CONNECTIONS under way
spread CLAIM_MS='20' CONNECTIONS='4':
    cargo run --quiet --profile sim -p driftq-sim --bin spread -- {{ CLAIM_MS }} {{ CONNECTIONS }}

# Instructions per delivery (callgrind), held by a ratchet
instructions:
    cargo build --quiet --release -p driftq-sim --bin bench_core
    cargo run --quiet --release -p driftq-sim --bin instructions

# What .ci/run runs: everything above that fits into half an hour on two cores
ci: check (stages 'contract sqlite' 'contract postgres-15' 'contract postgres-18' 'schemathesis' 'readme' 'examples' 'keep-your-queue' 'old-data' 'crash-briefly' 'chaos-briefly' 'failover-briefly' 'fuzz 30' 'sim 300' 'bugs ' + quickest_bugs)

# What the hook runs before a commit: quick, and never tests
pre-commit: format typos tidy small-files

# Fail if a file of the repository is larger than 1 MiB
small-files:
    #!/usr/bin/env bash
    set -euo pipefail
    large=$(git ls-files -z --cached --others --exclude-standard \
        | xargs -0 -I {} find {} -maxdepth 0 -type f -size +1048576c 2>/dev/null || true)
    if [ -n "$large" ]; then
        printf 'larger than 1 MiB:\n%s\n' "$large"
        exit 1
    fi

# Runs recipes one after the other, each under a line with the seconds since the beginning.
[private]
[positional-arguments]
stages +RECIPES:
    #!/usr/bin/env bash
    set -euo pipefail
    began=${CI_BEGAN:-$(date +%s)}
    for recipe in "$@"; do
        echo "== $(($(date +%s) - began)) s: just $recipe"
        # Unquoted: a recipe may carry arguments.
        {{ just_executable() }} --justfile '{{ justfile() }}' $recipe
    done
