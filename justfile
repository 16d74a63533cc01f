# The only front door: CI and hooks run these recipes and nothing else.
# docs/verification.md describes each recipe and the bar it holds.

# Optimized by rustc itself: the driver of clippy, which `ci` compiles with, optimizes less.
sim_run := "env -u RUSTC_WORKSPACE_WRAPPER cargo run --quiet --profile sim -p driftq-sim --bin sim --"

# With the features of the tests, so that nothing is compiled twice.
build_dev := "cargo build --quiet --workspace --all-targets"

# List the recipes
default:
    @just --list --unsorted

# Run everything that a change must pass: format, lints, tidy, spelling, tests
[group('every day')]
check: (stages 'format' 'lint' 'tidy' 'typos' 'test')

# Run all tests next to a throw-away PostgreSQL
[group('every day')]
test:
    e2e/with-postgres 15 cargo nextest run --workspace
    cargo test --quiet --doc --workspace

# Format, and apply the suggestions of clippy
[group('every day')]
fix:
    cargo clippy --workspace --all-targets --fix --allow-dirty --allow-staged
    cargo fmt --all

# Fail if code is not formatted
[group('every day')]
format:
    cargo fmt --all --check

# Fail on any warning of the compiler or of clippy
[group('every day')]
lint:
    cargo clippy --workspace --all-targets -- -D warnings

# Check rules that no compiler knows: names, phrases, crate edges, cycles, links, decision records
[group('every day')]
tidy:
    cargo run --quiet -p xtask -- tidy

# Check the licences, duplicates and sources of dependencies
[group('every day')]
deny:
    cargo deny check licenses bans sources

# Check the spelling
[group('every day')]
typos:
    typos

# Update the expectations of transcripts and golden bytes, and docs/reference/cli.md and configuration.md
[group('every day')]
transcripts:
    UPDATE_EXPECT=1 cargo test -q -p driftq-core -p driftq-cli

# Write docs/reference/openapi.json from routes and types
[group('every day')]
openapi:
    UPDATE_EXPECT=1 cargo nextest run -p driftq-server openapi::

# Simulate COUNT fresh seeds, or the PART 1/2 of them; the last line names a failing seed
[group('every day')]
sim COUNT='300' PART='':
    {{ sim_run }} run {{ COUNT }} {{ PART }}

# Run one seed again
[group('every day')]
sim-one SEED:
    {{ sim_run }} one {{ SEED }}

# Run what .ci/run runs: at most 25 minutes on two cores from a clean clone
[group('every day')]
ci:
    # The driver of clippy compiles as rustc does, so one pass over the workspace lints and compiles it.
    RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings__CLIPPY_HACKERY__ {{ just_executable() }} stages \
        format typos compile ci-tests sim-in-background contract-ci v1 schemathesis alerts readme-briefly examples \
        'sdk rust' sdk-briefly keep-your-queue old-data crash-briefly 'sim 50'

# Run the stages of a release that have not passed yet, or those that begin with STAGES; resumes where it stopped
[group('proofs')]
release-check *STAGES:
    cargo run --quiet -p xtask -- release-check {{ STAGES }}

# Run the contract of the HTTP API on ENGINE: memory, sqlite, postgres-15 or postgres-18; without one, on all
[group('proofs')]
contract ENGINE='':
    #!/usr/bin/env bash
    set -euo pipefail
    for engine in {{ if ENGINE == '' { 'memory sqlite postgres-15 postgres-18' } else { ENGINE } }}; do
        case $engine in
        postgres-*)
            # The tests of the engine run as well: `just test` has one version of PostgreSQL only.
            DRIFTQ_TEST_ENGINE=postgres e2e/with-postgres "${engine#postgres-}" cargo nextest run --workspace \
                -E 'package(driftq-server) | (package(driftq-storage) & test(postgres))'
            ;;
        # --workspace, because `just test` has built it with the same features.
        *) DRIFTQ_TEST_ENGINE=$engine e2e/with-postgres 15 cargo nextest run --workspace -E 'package(driftq-server)' ;;
        esac
    done

# Compile the simulator at the lowest priority, while the next stages mostly wait. `sim` waits for it
[private]
sim-in-background:
    (nice -n 19 env -u RUSTC_WORKSPACE_WRAPPER cargo build --quiet --profile sim -p driftq-sim --bin sim >/dev/null 2>&1 &)

# Compile everything; under `ci`, any warning is an error
[private]
compile:
    {{ build_dev }}

# All tests, with the contract on SQLite
[private]
ci-tests:
    DRIFTQ_TEST_ENGINE=sqlite e2e/with-postgres 15 cargo nextest run --workspace
    cargo test --quiet --doc --workspace

# The part of the contract that depends on the engine most, on PostgreSQL 15
[private]
contract-ci:
    DRIFTQ_TEST_ENGINE=postgres e2e/with-postgres 15 cargo nextest run --workspace \
        -E 'package(driftq-server) & test(/^(commit|consume|dlq|effects|v1_gaps|restart|seed|settle|settle_table)::/)'

# Run Prometheus against a real server: every query of the dashboard, every alert, and the tests of the alerts
[group('proofs')]
alerts:
    {{ build_dev }}
    e2e/prometheus/run target/debug/driftq

# Send requests made up from the OpenAPI document to a real server, in both forms
[group('proofs')]
schemathesis:
    {{ build_dev }}
    e2e/schemathesis/run target/debug/driftq

# Find seeded bugs, all, those NAMED or a part such as 2/4: each under the invariant that its patch names
[group('proofs')]
bugs *NAMES:
    e2e/with-postgres 15 cargo run --quiet -p xtask -- bugs {{ NAMES }}

# Kill the real server on SQLite KILLS times under load; fail its system calls; fill its disk; PART runs one of these
[group('proofs')]
crash KILLS='20' PART='': (crash-in 'sim' KILLS PART)

# Kill a server with several shards KILLS times during commits across shards; then export and verify its ledger
[group('proofs')]
crash-effects KILLS='20': (crash-in 'sim' KILLS 'effects')

# Run the client that was written from the v1 specification alone, on memory, SQLite and PostgreSQL
[group('proofs')]
v1:
    {{ build_dev }}
    V1_ENGINE=memory e2e/v1/run
    V1_ENGINE=sqlite e2e/v1/run
    V1_ENGINE=postgres e2e/with-postgres 15 e2e/v1/run

# Fill the disk of a server and free it CYCLES times; fail 2/5 as many flushes and cut the power (as root)
[group('proofs')]
bad-disk CYCLES='50': (crash-in 'sim' CYCLES 'bad-disk')

# Kill, pause, stop and cut off three servers on one PostgreSQL, ROUNDS times; restart and kill PostgreSQL
[group('proofs')]
chaos ROUNDS='50': (crash-in 'sim' ROUNDS 'cluster')

# Fail over three PostgreSQL under Patroni FAILOVERS times below three servers (as root)
[group('proofs')]
failover FAILOVERS='30': (crash-in 'sim' FAILOVERS 'failover')

# Replace three servers of the binary OLD one by one with this one and back, ROUNDS times, under load
[group('proofs')]
upgrade OLD ROUNDS='1': (crash-in 'dev' ROUNDS 'upgrade ' + OLD)

# Open data that older binaries wrote, and check every token, key, commit and setting
[group('proofs')]
old-data:
    {{ build_dev }}
    target/debug/old-data check target/debug/driftq e2e/old-data/*/

# Write a new set NAME of old data with the driftq BINARY; existing sets are never rewritten
[group('proofs')]
old-data-make BINARY NAME:
    {{ build_dev }}
    target/debug/old-data make {{ BINARY }} e2e/old-data/{{ NAME }}

# Run the scenarios of fixed defects, all or those NAMED, against the real server
[group('proofs')]
repro *NAMES:
    cargo build --quiet --profile sim -p driftq-cli -p driftq-e2e
    target/sim/repro target/sim/driftq {{ NAMES }}

# Run them on a BINARY from before the fixes: each must fail
[group('proofs')]
repro-broken BINARY *NAMES:
    cargo build --quiet --profile sim -p driftq-e2e
    target/sim/repro {{ BINARY }} --expect-failures {{ NAMES }}

# Compare the causes that `explain` reports with the truth, in states arranged on a real server
[group('proofs')]
explain:
    {{ build_dev }}
    target/debug/explain target/debug/driftq

# Inject each failure of docs/operating.md, wait for its alert, and run the command of the page (as root)
[group('proofs')]
night:
    {{ build_dev }}
    target/debug/night target/debug/driftq

# Check that the tools that break a cluster work, all or PART, on PostgreSQL VERSION
[group('proofs')]
harness-selftest PART='' VERSION='':
    {{ build_dev }}
    target/debug/harness_selftest {{ PART }} {{ VERSION }}

# Run the workers of examples/ while one of them and the server are killed
[group('proofs')]
examples:
    {{ build_dev }}
    target/debug/workers target/debug/driftq

# Run the scenarios of sdks/scenarios, all or those whose name contains NAME, with an SDK: rust, python or typescript
[group('proofs')]
sdk LANGUAGE NAME='': (sdk-build LANGUAGE)
    target/debug/sdk target/debug/driftq sdks/scenarios '{{ NAME }}' -- {{ if LANGUAGE == 'rust' { 'target/debug/examples/agent' } else if LANGUAGE == 'python' { 'python3 sdks/python/agent.py' } else if LANGUAGE == 'typescript' { 'node sdks/typescript/dist-agent/agent.js' } else { error('no SDK for ' + LANGUAGE) } }}

# The scenarios in which something is lost, with the SDKs that CI does not run in full
[private]
sdk-briefly: (sdk 'python' 'lost') (sdk 'typescript' 'lost')

# Check the types and the style of an SDK, and run its own tests
[group('proofs')]
sdk-test LANGUAGE: (sdk-build LANGUAGE)
    cargo build --quiet --profile sim -p driftq-cli
    {{ if LANGUAGE == 'python' { 'DRIFTQ_BIN=$PWD/target/sim/driftq sdks/python/check' } else if LANGUAGE == 'typescript' { 'cd sdks/typescript && npm run --silent lint && DRIFTQ_BIN=$PWD/../../target/sim/driftq npm test --silent && npm run --silent check:package' } else { error('`just test` has the tests of the SDK for ' + LANGUAGE) } }}

# Install the package of an SDK into an empty project, and run the listing of the README
[group('proofs')]
sdk-first LANGUAGE:
    {{ build_dev }}
    e2e/sdk_first.py target/debug/driftq {{ LANGUAGE }}

# Block handlers of an SDK for three leases, COUNT times in each way, and measure its renewals
[group('proofs')]
sdk-block LANGUAGE COUNT='50': (sdk-load 'block' LANGUAGE COUNT)

# Take leases away from an SDK, and measure how long its handlers go on
[group('proofs')]
sdk-lost LANGUAGE COUNT='50': (sdk-load 'lost' LANGUAGE COUNT)

# Stop workers of an SDK under load with COUNT signals
[group('proofs')]
sdk-stop LANGUAGE COUNT='300': (sdk-load 'stop' LANGUAGE COUNT)

# Kill workers of an SDK and their child processes COUNT times, and the server, while orders are charged
[group('proofs')]
sdk-kill LANGUAGE COUNT='200': (sdk-load 'kill' LANGUAGE COUNT)

# Measure CPU and memory of a worker without messages
[group('measurements')]
sdk-idle LANGUAGE: (sdk-load 'idle' LANGUAGE '')

[private]
sdk-load WHAT LANGUAGE COUNT: (sdk-build LANGUAGE)
    target/debug/sdk load {{ WHAT }} target/debug/driftq {{ COUNT }} -- {{ if LANGUAGE == 'rust' { 'target/debug/examples/agent' } else if LANGUAGE == 'python' { 'python3 sdks/python/agent.py' } else if LANGUAGE == 'typescript' { 'node sdks/typescript/dist-agent/agent.js' } else { error('no SDK for ' + LANGUAGE) } }}

[private]
sdk-build LANGUAGE:
    {{ build_dev }}
    {{ if LANGUAGE == 'typescript' { 'cd sdks/typescript && npm install --silent --no-audit --no-fund && npm run --silent build:agent' } else { '' } }}

# Run `driftq conform` on the workers of e2e/conform, all or those whose name contains NAME: good ones pass, each broken one fails its check
[group('proofs')]
conform-self NAME='':
    {{ build_dev }}
    e2e/conform/run target/debug/driftq target/debug/examples/conform_worker {{ NAME }}

# Produce for SECONDS through a router hook that misbehaves; compare receipts and messages
[group('proofs')]
router SECONDS='60':
    {{ build_dev }}
    target/debug/router target/debug/driftq {{ SECONDS }}

# Find seeded bugs of an SDK, all or those NAMED: each by the scenario that its patch names
[group('proofs')]
sdk-bugs LANGUAGE *NAMES: (sdk-build LANGUAGE)
    cargo run --quiet -p xtask -- sdk-bugs {{ LANGUAGE }} {{ NAMES }}

# Charge COUNT orders through the ledger in PostgreSQL, in three languages, while writers and relays are killed
[group('proofs')]
ledger-pg COUNT='10000':
    {{ build_dev }}
    target/debug/ledger-pg target/debug/driftq target/debug/examples/writer {{ COUNT }}

# Charge 1 000 orders with workers that are killed at the worst moments, and count double charges
[group('proofs')]
demo-effects:
    {{ build_dev }}
    target/debug/effects target/debug/driftq

# Run the code of docs/how-to/keep-your-queue.md in Celery and BullMQ while a worker and the server are killed
[group('proofs')]
keep-your-queue:
    {{ build_dev }}
    target/debug/queues target/debug/driftq

# Type every console line of README, tutorial, how-to pages and the tour of `driftq dev`, and compare the output
[group('proofs')]
readme:
    cargo run --quiet -p xtask -- readme

# The same, but `cargo install` installs the binary that the tests have built
[private]
readme-briefly:
    {{ build_dev }}
    cargo run --quiet -p xtask -- readme target/debug/driftq

# Feed random bytes to every decoder, or to TARGET, for SECONDS each
[group('proofs')]
fuzz SECONDS='30' TARGET='':
    fuzz/run {{ SECONDS }} {{ TARGET }}

# Attack a server on loopback from a page of another origin in Chromium
[group('proofs')]
browser:
    {{ build_dev }}
    target/debug/chromium target/debug/driftq

# Measure the release binary's size and the time from `driftq dev` to the first ack
[group('measurements')]
small:
    cargo build --quiet --release -p driftq-cli
    cargo run --quiet -p xtask -- small target/release/driftq

# Compare a long backlog with a short one: memory, restart, speed; PART: {sqlite,postgres}-{batches,singles}
[group('measurements')]
backlog PART='': (bench 'backlog' PART)

# Measure single requests on SQLite against memory and a bare handler, and batches against single messages
[group('measurements')]
bench-http: (bench 'http')

# Compare messages without a key in a topic of 64 partitions with a topic of one, in 20 interleaved rounds
[group('measurements')]
bench-partitions: (bench 'partitions')

# Measure the effect ledger against produce and ack, a commit against its parts, 5 000 000 records against 10 000
[group('measurements')]
bench-ledger: (bench 'ledger')

# Measure the PostgreSQL engine against the minimal loop that writes the same rows, and two nodes against one
[group('measurements')]
bench-pg: (bench 'postgres')

# Send 24 000 000 messages through PostgreSQL and measure table sizes, then hold a snapshot for ten minutes
[group('measurements')]
bloat: (bench 'bloat')

# Measure the cost of more shards, topics, groups, messages and consumers on PostgreSQL
[group('measurements')]
growth: (bench 'growth')

# Open 5 000 silent sockets to a server that allows 1 000 connections, and measure another client
[group('measurements')]
edge: (bench 'edge')

# Run idle streams, slow clients, bad requests from SEED and web pages, and measure other clients
[group('measurements')]
hostile SEED='': (bench 'hostile' SEED)

# Measure deliveries settled per second: core, packing and pipeline, one thread, memory engine
[group('measurements')]
bench-core:
    cargo run --quiet --release -p driftq-sim --bin bench_core

# Compare recovery of 10 000 000 messages with recovery of 1 000 and the same open state
[group('measurements')]
recovery:
    cargo run --quiet --release -p driftq-sim --bin recovery

# Simulate 1 000 shards on 50 nodes that die, drain and join; a claim takes CLAIM_MS, a node has CONNECTIONS
[group('measurements')]
spread CLAIM_MS='20' CONNECTIONS='4':
    cargo run --quiet --profile sim -p driftq-sim --bin spread -- {{ CLAIM_MS }} {{ CONNECTIONS }}

# Count instructions per delivery with callgrind, against a ratchet
[group('measurements')]
instructions:
    cargo build --quiet --release -p driftq-sim --bin bench_core
    cargo run --quiet --release -p driftq-sim --bin instructions

# Run what the hook runs before a commit: quick, without tests
[private]
pre-commit: format typos tidy small-files

# With the binaries that the tests have built anyway
[private]
crash-briefly: (crash-in 'dev' '12' '')

[private]
crash-in PROFILE KILLS PART:
    {{ if PROFILE == 'dev' { build_dev } else { "cargo build --quiet --profile " + PROFILE + " -p driftq-cli -p driftq-e2e" } }}
    target/{{ if PROFILE == 'dev' { 'debug' } else { PROFILE } }}/crash \
        target/{{ if PROFILE == 'dev' { 'debug' } else { PROFILE } }}/driftq {{ KILLS }} {{ PART }}

# Both as released: the server, and the bare handler that it is compared with.
[private]
bench WHAT ARGUMENT='':
    cargo build --quiet --release -p driftq-cli -p driftq-e2e --bin driftq --bin bench
    target/release/bench {{ WHAT }} target/release/driftq {{ ARGUMENT }}

# Fail if a file of the repository is larger than 1 MiB
[private]
small-files:
    #!/usr/bin/env bash
    set -euo pipefail
    large=$(git ls-files -z --cached --others --exclude-standard \
        | xargs -0 -I {} find {} -maxdepth 0 -type f -size +1048576c 2>/dev/null || true)
    if [ -n "$large" ]; then
        printf 'larger than 1 MiB:\n%s\n' "$large"
        exit 1
    fi

# Runs recipes one after the other. Prints the seconds since the start before each, and a table of stage times at the end.
[private]
[positional-arguments]
stages +RECIPES:
    #!/usr/bin/env bash
    set -euo pipefail
    began=${CI_BEGAN:-$(date +%s)}
    times=""
    for recipe in "$@"; do
        start=$(date +%s)
        echo "== $((start - began)) s: just $recipe"
        # Unquoted: a recipe may carry arguments.
        {{ just_executable() }} --justfile '{{ justfile() }}' $recipe
        times+=$(printf '%6d s  %s' "$(($(date +%s) - start))" "$recipe")$'\n'
    done
    printf 'stage times:\n%s%6d s  in all\n' "$times" "$(($(date +%s) - began))"
