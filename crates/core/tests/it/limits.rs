//! Every limit, at its value and one past it.

use driftq_core::ShardConfig;
use driftq_core::limits::{
    ATTEMPTS_MAX, BLOCK_OFFSETS, CREDIT_MAX, DEADLINE_MAX, DELAY_MS_MAX, ENVELOPE_BYTES_MAX,
    ENVELOPE_TEXT_BYTES_MAX, GROUP_BYTES_MAX, IDEMPOTENCY_KEY_BYTES_MAX, KEY_BYTES_MAX,
    LEASE_MS_MAX, LEASE_MS_MIN, OWNER_BYTES_MAX, OWNERS_FORGOTTEN_MAX, PAGE_BYTES_MAX,
    PAGE_MESSAGES_MAX, PARTITIONS_MAX, REASON_BYTES_MAX, TENANT_BYTES_MAX, TOPIC_BYTES_MAX,
    VALUE_BYTES_DEFAULT,
};

use crate::transcript::World;

fn world() -> World {
    World::new(ShardConfig::default())
}

/// A world with a topic `orders` of one partition.
fn with_topic() -> World {
    let mut world = world();
    world.play("1s topic orders 1");
    world
}

fn x(length: usize) -> String {
    "x".repeat(length)
}

#[track_caller]
fn accepted(world: &mut World, line: &str) {
    let said = world.ask(line);
    let short: String = line.chars().take(80).collect();
    assert!(!said.starts_with("refused"), "`{short}`: {said}");
}

#[track_caller]
fn refused(world: &mut World, line: &str, why: &str) {
    let said = world.ask(line);
    let short: String = line.chars().take(80).collect();
    assert!(said.starts_with(&format!("refused: {why}")), "`{short}`: {said}");
}

#[test]
fn a_topic_has_1_to_1024_partitions() {
    let mut world = world();
    refused(&mut world, "1s topic none 0", "partitions");
    accepted(&mut world, &format!("1s topic most {PARTITIONS_MAX}"));
    refused(&mut world, &format!("1s topic more {}", PARTITIONS_MAX + 1), "partitions");
    accepted(&mut world, &format!("1s produce most hello p={}", PARTITIONS_MAX - 1));
    accepted(&mut world, "1s join a most/biller");
    accepted(&mut world, &format!("2s ack most/biller {}:0.1", PARTITIONS_MAX - 1));
    world.check();
}

#[test]
fn a_topic_name_has_up_to_250_bytes_which_leaves_space_for_dlq() {
    let mut world = world();
    let name = x(TOPIC_BYTES_MAX);
    accepted(&mut world, &format!("1s topic {name} 1"));
    refused(&mut world, &format!("1s topic {name}x 1"), "name");
    accepted(&mut world, &format!("1s produce {name} hello"));
    accepted(&mut world, &format!("1s join a {name}/biller"));
    accepted(&mut world, &format!("1s bury {name}/biller 0:0.1"));
    accepted(&mut world, &format!("1s view dlq.{name}"));
}

#[test]
fn names_consist_of_letters_digits_dots_dashes_and_underscores() {
    let mut world = world();
    for name in ["a", "A.b-c_9", "9"] {
        accepted(&mut world, &format!("1s topic {name} 1"));
        accepted(&mut world, &format!("1s group a/{name}"));
    }
    for name in [".a", "-a", "_a", "a b", "ä", "a/b", "dlq.b", "sys.a"] {
        refused(&mut world, &format!("1s topic \"{name}\" 1"), "name");
    }
    for name in [".a", "-a", "a b", "ä", "\u{0}"] {
        refused(&mut world, &format!("1s group \"a/{name}\""), "group");
    }
    refused(&mut world, "1s group a/", "group");
}

#[test]
fn a_group_name_has_up_to_128_bytes() {
    let mut world = with_topic();
    accepted(&mut world, &format!("1s group orders/{}", x(GROUP_BYTES_MAX)));
    refused(&mut world, &format!("1s group orders/{}", x(GROUP_BYTES_MAX + 1)), "group");
    refused(&mut world, &format!("1s join a orders/{}", x(GROUP_BYTES_MAX + 1)), "group");
}

#[test]
fn an_owner_name_has_1_to_255_printable_bytes() {
    let mut world = with_topic();
    accepted(&mut world, &format!("1s join a orders/biller owner={}", x(OWNER_BYTES_MAX)));
    let long = x(OWNER_BYTES_MAX + 1);
    refused(&mut world, &format!("1s join b orders/biller owner={long}"), "owner");
    refused(&mut world, "1s join b orders/biller owner=", "owner");
    refused(&mut world, "1s join b orders/biller owner=a\tb", "owner");
}

#[test]
fn a_tenant_has_up_to_255_bytes() {
    let mut world = with_topic();
    accepted(&mut world, &format!("1s produce orders m tenant={}", x(TENANT_BYTES_MAX)));
    let long = x(TENANT_BYTES_MAX + 1);
    refused(&mut world, &format!("1s produce orders m tenant={long}"), "envelope.tenant_id");
}

#[test]
fn an_idempotency_key_has_1_to_255_bytes_without_control_characters() {
    let mut world = with_topic();
    let (key, long) = (x(IDEMPOTENCY_KEY_BYTES_MAX), x(IDEMPOTENCY_KEY_BYTES_MAX + 1));
    accepted(&mut world, &format!("1s produce orders m idem={key}"));
    assert_eq!(world.ask(&format!("1s produce orders m idem={key}")), "stored 0:0 before");
    refused(&mut world, &format!("1s produce orders m idem={long}"), "envelope.idempotency_key");
    refused(&mut world, "1s produce orders m idem=", "envelope.idempotency_key");
    refused(&mut world, "1s produce orders m idem=a\u{7f}", "envelope.idempotency_key");
    accepted(&mut world, "1s produce orders m \"idem=a ß\"");
}

#[test]
fn a_key_has_up_to_1024_bytes() {
    let mut world = with_topic();
    accepted(&mut world, &format!("1s produce orders m key={}", x(KEY_BYTES_MAX)));
    let long = x(KEY_BYTES_MAX + 1);
    refused(
        &mut world,
        &format!("1s produce orders m key={long}"),
        "key must be at most 1024 bytes (got 1025)",
    );
}

#[test]
fn a_value_has_1_byte_to_1_mebibyte_or_as_configured() {
    let mut world = with_topic();
    refused(&mut world, "1s produce orders", "value: must not be empty");
    accepted(&mut world, &format!("1s produce orders {VALUE_BYTES_DEFAULT}bytes"));
    let more = VALUE_BYTES_DEFAULT + 1;
    refused(
        &mut world,
        &format!("1s produce orders {more}bytes"),
        "value must be at most 1048576 bytes (got 1048577)",
    );
    let config = ShardConfig { value_bytes_max: 10, ..ShardConfig::default() };
    let mut world = World::new(config);
    world.play("1s topic orders 1");
    accepted(&mut world, "1s produce orders 10bytes");
    refused(&mut world, "1s produce orders 11bytes", "value must be at most 10 bytes (got 11)");
}

#[test]
fn each_text_of_an_envelope_has_up_to_1_kibibyte() {
    for field in ["run", "step", "parent"] {
        let mut world = with_topic();
        let (text, long) = (x(ENVELOPE_TEXT_BYTES_MAX), x(ENVELOPE_TEXT_BYTES_MAX + 1));
        accepted(&mut world, &format!("1s produce orders m {field}={text}"));
        let why = match field {
            "run" => "envelope.run_id must be at most 1024 bytes (got 1025)",
            "step" => "envelope.step_id must be at most 1024 bytes (got 1025)",
            _ => "envelope.parent_step_id must be at most 1024 bytes (got 1025)",
        };
        refused(&mut world, &format!("1s produce orders m {field}={long}"), why);
    }
    let mut world = with_topic();
    let huge = x(ENVELOPE_BYTES_MAX + 1);
    refused(
        &mut world,
        &format!("1s produce orders m run={huge}"),
        "envelope must be at most 16384 bytes (got 16385)",
    );
}

#[test]
fn a_reason_is_truncated_to_1_kibibyte_at_a_character_boundary() {
    let mut world = with_topic();
    world.play("1s produce orders m + produce orders m");
    world.play("1s join a orders/biller");
    let reason = format!("{}ß{}", x(REASON_BYTES_MAX - 1), x(100));
    accepted(&mut world, &format!("2s bury orders/biller 0:0.1 reason={reason}"));
    let letter = world.letter("orders 0:0").death.as_ref().expect("it is dead");
    assert_eq!(&*letter.last_error, x(REASON_BYTES_MAX - 1));
    let exact = format!("{}ß", x(REASON_BYTES_MAX - 2));
    accepted(&mut world, &format!("2s nack orders/biller 0:1.1 delay=1s reason={exact}"));
    let shown = world.play("4s wait");
    assert!(shown[0].ends_with(&format!("after \"{exact}\"")), "{shown:?}");
    world.check();
}

#[test]
fn a_lease_lasts_250_milliseconds_to_12_hours() {
    let mut world = with_topic();
    for (lease, fits) in [
        (LEASE_MS_MIN - 1, false),
        (LEASE_MS_MIN, true),
        (LEASE_MS_MAX, true),
        (LEASE_MS_MAX + 1, false),
    ] {
        for (line, field) in [
            (format!("1s join a orders/g lease={lease}ms"), "lease_ms"),
            (format!("1s topic t{lease} 1 lease={lease}ms"), "settings.lease_ms"),
        ] {
            if fits { accepted(&mut world, &line) } else { refused(&mut world, &line, field) }
        }
    }
    world.play("100s produce orders m");
    world.play("100s join b orders/biller");
    refused(&mut world, "101s extend orders/biller 0:0.1 lease=249ms", "lease_ms");
    refused(&mut world, "101s extend orders/biller 0:0.1 lease=43200001ms", "lease_ms");
    accepted(&mut world, "101s extend orders/biller 0:0.1 lease=43200000ms");
    accepted(&mut world, "101s extend orders/biller 0:0.1 lease=250ms");
}

#[test]
fn a_delay_lasts_up_to_7_days() {
    let mut world = with_topic();
    world.play("1s produce orders m");
    world.play("1s join a orders/biller");
    let more = DELAY_MS_MAX + 1;
    refused(&mut world, &format!("2s nack orders/biller 0:0.1 delay={more}ms"), "delay_ms");
    refused(&mut world, &format!("2s release orders/biller 0:0.1 delay={more}ms"), "delay_ms");
    accepted(&mut world, &format!("2s nack orders/biller 0:0.1 delay={DELAY_MS_MAX}ms"));
    assert!(world.play("604801999ms wait").iter().all(|line| !line.contains("gets")));
    assert!(world.play("604802s wait").iter().any(|line| line.contains("0:0.2")));
}

#[test]
fn a_policy_has_1_to_1000_attempts_or_minus_one() {
    let mut world = with_topic();
    let policies = [(-2, false), (-1, true), (0, false), (1, true)];
    let edge = [(ATTEMPTS_MAX, true), (ATTEMPTS_MAX + 1, false), (i32::MAX, false)];
    for (attempts, fits) in policies.into_iter().chain(edge) {
        let topic = format!("1s topic t{attempts} 1 retry={attempts},1s,1s").replace("t-", "t_");
        let produce = format!("1s produce orders m retry={attempts},1s,1s");
        for (line, field) in [(topic, "settings.retry_policy"), (produce, "envelope.retry_policy")]
        {
            // In an envelope, 0 stands for a missing value. The API rejects it.
            let fits = fits || (attempts == 0 && field.starts_with("envelope"));
            if fits { accepted(&mut world, &line) } else { refused(&mut world, &line, field) }
        }
    }
    let year = 365 * 24 * 3_600_000_u64;
    for (wait_ms, fits) in [(year, true), (year + 1, false)] {
        let said = world.ask(&format!("1s topic y{wait_ms} 1 retry=1,1s,{wait_ms}ms"));
        assert_eq!(said == "created", fits, "{wait_ms}: {said}");
        let said = world.ask(&format!("1s produce orders m retry=1,1s,{wait_ms}ms"));
        assert_eq!(said.starts_with("stored"), fits, "{wait_ms}: {said}");
    }
    let why = "retry_policy: backoff_ms must not exceed max_backoff_ms";
    refused(&mut world, "1s topic t 1 retry=1,2s,1s", &format!("settings.{why}"));
    refused(&mut world, "1s produce orders m retry=1,2s,1s", &format!("envelope.{why}"));
}

#[test]
fn a_partial_retry_policy_is_completed_from_the_topic() {
    let mut world = world();
    world.play("1s topic quick 1 retry=9,10ms,1s");
    world.play("1s topic slow 1 retry=9,5s,1m");
    // Only `max_backoff_ms` is set: 500 ms is more than the quick topic's 10 ms and less than the
    // slow topic's 5 s.
    let produce = |world: &mut World, topic: &str| {
        use driftq_core::command::{Produce, TopicName};
        use driftq_core::{Command, Envelope, RetryRequest};
        let retry = RetryRequest { max_attempts: 3, backoff_ms: None, max_backoff_ms: Some(500) };
        world.command(Command::Produce(Box::new(Produce {
            topic: TopicName { namespace: "default".into(), topic: topic.into() },
            key: Default::default(),
            value: "m".into(),
            envelope: Envelope { retry_policy: Some(retry), ..Envelope::default() },
            routing: None,
            needs_routing: false,
            trace: None,
            seen: None,
            routed: None,
        })))
    };
    assert_eq!(produce(&mut world, "quick"), "stored 0:0");
    assert!(produce(&mut world, "slow").starts_with("refused: envelope.retry_policy"));
}

#[test]
fn a_deadline_is_before_the_year_10000() {
    let mut world = with_topic();
    let (latest, later) = (DEADLINE_MAX.0, DEADLINE_MAX.0 + 1);
    accepted(&mut world, &format!("1s produce orders m deadline={latest}ms"));
    refused(&mut world, &format!("1s produce orders m deadline={later}ms"), "envelope.deadline");
    accepted(&mut world, "1s join a orders/biller");
    world.play("2s nack orders/biller 0:0.1 delay=1h");
    world.check();
}

#[test]
fn a_prefetch_is_1_to_10000_messages() {
    let mut world = with_topic();
    refused(&mut world, "1s join a orders/biller credit=0", "credit");
    accepted(&mut world, &format!("1s join a orders/biller credit={CREDIT_MAX}"));
    refused(&mut world, &format!("1s join b orders/biller credit={}", CREDIT_MAX + 1), "credit");
}

#[test]
fn settings_outside_their_range_are_rejected() {
    let year = 365 * 24 * 3_600_u64;
    let mut at = 0;
    let mut world = world();
    for (setting, fits) in [
        ("max_in_flight=0", false),
        ("max_in_flight=1", true),
        ("max_in_flight=100000 max_open=100000", true),
        ("max_in_flight=100001 max_open=100001", false),
        ("max_in_flight=2 max_open=1", false),
        ("max_in_flight=2 max_open=2", true),
        ("max_open=1000000", true),
        ("max_open=1000001", false),
        ("max_messages=0", false),
        ("max_messages=1", true),
        ("max_bytes=0", false),
        ("max_bytes=1", true),
        ("retention=0s", true),
        (&format!("retention={year}s"), true),
        (&format!("retention={}ms", year * 1000 + 1), false),
        ("retention_bytes=0", true),
        ("dlq_retention=59999ms", false),
        ("dlq_retention=60s", true),
        (&format!("dlq_retention={}s", year * 10), true),
        (&format!("dlq_retention={}ms", year * 10_000 + 1), false),
        ("dedupe=59999ms", false),
        ("dedupe=60s", true),
        (&format!("dedupe={year}s"), true),
        (&format!("dedupe={}ms", year * 1000 + 1), false),
        ("dedupe=2h effect=2h", true),
        ("dedupe=2h effect=7200001ms", false),
        ("dedupe=2h effect=59s", false),
        ("idle=59999ms", false),
        ("idle=60s", true),
        (&format!("idle={year}s"), true),
        (&format!("idle={}ms", year * 1000 + 1), false),
    ] {
        at += 1;
        let said = world.ask(&format!("1s topic t{at} 1 {setting}"));
        let expected = if fits { "created" } else { "refused" };
        assert!(said.starts_with(expected), "{setting}: {said}");
    }
}

#[test]
fn a_page_has_up_to_1024_messages() {
    for (messages, pages) in [(PAGE_MESSAGES_MAX, 1), (PAGE_MESSAGES_MAX + 1, 2)] {
        let mut world = with_topic();
        world.play(&format!("1s {}", vec!["produce orders m"; messages].join(" + ")));
        assert_eq!(world.rows("page"), pages, "{messages} messages");
        world.play("2s crash");
        let shown = world.play("3s join a orders/biller credit=2000");
        let delivered = shown.iter().filter(|line| line.contains("gets")).count();
        assert_eq!(delivered, messages.min(1_000), "limited by max_in_flight");
        world.check();
    }
}

#[test]
fn a_page_has_up_to_1_mebibyte_unless_a_message_is_larger() {
    let half = PAGE_BYTES_MAX / 2;
    for (sizes, pages) in [
        // A message counts 64 bytes more than its key and value.
        ([half - 64, half - 64], 1),
        ([half - 64, half - 63], 2),
        ([PAGE_BYTES_MAX, 1], 2),
        ([1, PAGE_BYTES_MAX], 2),
    ] {
        let mut world = with_topic();
        let [first, second] = sizes;
        world.play(&format!("1s produce orders {first}bytes + produce orders {second}bytes"));
        assert_eq!(world.rows("page"), pages, "{sizes:?}");
        world.play("2s crash");
        let shown = world.play("3s join a orders/biller bytes=9000000");
        assert_eq!(shown.iter().filter(|line| line.contains("gets")).count(), 2, "{sizes:?}");
    }
}

#[test]
fn a_block_has_the_open_messages_of_128_offsets() {
    for (messages, blocks) in [(BLOCK_OFFSETS, 1), (BLOCK_OFFSETS + 1, 2)] {
        let mut world = with_topic();
        world.play(&format!("1s {}", vec!["produce orders m"; messages as usize].join(" + ")));
        world.play("1s join a orders/biller credit=1000");
        assert_eq!(world.rows("block"), blocks, "{messages} messages");
        world.check();
    }
}

#[test]
fn a_commit_forgets_64_unused_names() {
    let mut world = with_topic();
    let names: Vec<String> = (0..=OWNERS_FORGOTTEN_MAX).map(|at| format!("w{at}")).collect();
    for name in &names {
        world.play(&format!("1s join {name} orders/biller"));
    }
    assert_eq!(world.rows("owner"), OWNERS_FORGOTTEN_MAX + 1);
    world.play_partly("2s crash", 1);
    assert_eq!(world.rows("owner"), 1, "one commit forgets at most 64 names");
    world.play("3s view orders");
    assert_eq!(world.rows("owner"), 0, "the next commit forgets the rest");
    world.check();
}

/// A world whose shard allows `open_max` open messages. One group alone may use half of them.
fn with_room_for(open_max: u64, partitions: u32) -> World {
    let mut world = World::new(ShardConfig { open_max, ..ShardConfig::default() });
    world.play(&format!("1s topic orders {partitions} retry=5,1d,1d"));
    world
}

#[test]
fn a_settle_in_one_partition_frees_capacity_for_the_others_of_its_group() {
    let mut world = with_room_for(8, 3);
    world.play("1s join a orders/biller credit=100");
    for _ in 0..4 {
        world.play("1s produce orders early p=0");
    }
    world.play("1s produce orders late p=1");
    world.play("1s produce orders later p=2");
    assert_eq!(world.shard().open_entries(), 4);
    let view = world.ask("1s view orders/biller");
    assert_eq!(view.matches("open_limit").count(), 2, "{view}");
    let lines = world.play("2s ack orders/biller 0:0.1");
    assert!(lines.iter().any(|line| line.contains("gets orders/biller 1:0.1")), "{lines:?}");
    let lines = world.play("2s ack orders/biller 0:1.1");
    assert!(lines.iter().any(|line| line.contains("gets orders/biller 2:0.1")), "{lines:?}");
    world.check();
}

#[test]
fn a_settle_an_expiry_or_a_seek_frees_capacity_for_other_groups() {
    for end in [
        "ack orders/one 0:0.1 + ack orders/one 0:1.1",
        "delete orders/one",
        "seek orders/one latest",
    ] {
        let mut world = with_room_for(6, 2);
        for _ in 0..3 {
            world.play("1s produce orders m p=0");
        }
        world.play("1s join a orders/one credit=100");
        world.play("1s join b orders/two credit=100");
        // Half of 6 for the first, half of the other 3 for the second.
        assert_eq!(world.shard().open_entries(), 4, "{end}");
        world.play("2s leave a");
        let lines = world.play(&format!("2s {end}"));
        assert!(
            lines.iter().any(|line| line.contains("gets orders/two 0:1.1")),
            "{end}: {lines:?}"
        );
        world.check();
    }
}

#[test]
fn a_shard_has_100_000_topics_and_2_000_000_cursors() {
    let config = ShardConfig::default();
    assert_eq!((config.topics_max, config.cursors_max), (100_000, 2_000_000));
}

#[test]
fn a_topic_beyond_the_limit_is_rejected_until_another_is_deleted() {
    let mut world = World::new(ShardConfig { topics_max: 2, ..ShardConfig::default() });
    world.play("1s topic one 1 retry=1,1s,1s");
    world.play("1s topic two 1");
    assert_eq!(world.ask("1s topic three 1"), "full: 2 topics");
    assert_eq!(world.ask("1s topic two 1"), "exists");
    // Dead-letter topics do not count: a message can always be dead-lettered.
    world.play("2s produce one m");
    world.play("2s join a one/g");
    world.play("2s nack one/g 0:0.1 reason=x");
    assert!(world.ask("3s view dlq.one").starts_with("dlq.one (dead letters) 0..1"));
    assert_eq!(world.ask("3s topic three 1"), "full: 2 topics");
    world.play("4s delete one");
    assert_eq!(world.ask("5s topic three 1"), "created");
    assert_eq!(world.ask("5s topic four 1"), "full: 2 topics");
    world.check();
}

#[test]
fn a_group_beyond_the_cursor_limit_is_rejected_until_one_is_deleted() {
    let mut world = World::new(ShardConfig { cursors_max: 5, ..ShardConfig::default() });
    world.play("1s topic wide 3");
    world.play("1s topic narrow 1");
    assert_eq!(world.ask("1s group wide/one"), "created");
    assert_eq!(world.ask("1s group wide/two"), "full: 5 cursors");
    assert_eq!(world.ask("1s join a wide/two"), "full: 5 cursors");
    assert_eq!(world.ask("1s join a wide/one"), "joined");
    assert_eq!(world.ask("1s group narrow/one"), "created");
    assert_eq!(world.ask("1s group narrow/two"), "created");
    assert_eq!(world.ask("1s group narrow/three"), "full: 5 cursors");
    world.play("2s delete wide/one");
    assert_eq!(world.ask("3s group wide/two"), "created");
    assert_eq!(world.ask("3s group wide/three"), "full: 5 cursors");
    world.check();
}

#[test]
fn existing_topics_and_groups_load_beyond_the_limits() {
    let mut world = world();
    for topic in ["one", "two", "three"] {
        world.play(&format!("1s topic {topic} 2"));
        world.play(&format!("1s group {topic}/g"));
        world.play(&format!("1s produce {topic} m p=1"));
    }
    (world.config.topics_max, world.config.cursors_max) = (1, 3);
    world.play("2s crash");
    for topic in ["one", "two", "three"] {
        let lines = world.play(&format!("3s join w{topic} {topic}/g"));
        assert!(lines.iter().any(|line| line.contains("gets")), "{topic}: {lines:?}");
    }
    assert_eq!(world.ask("4s topic four 1"), "full: 1 topics");
    assert_eq!(world.ask("4s group one/other"), "full: 3 cursors");
    world.play("5s delete two");
    assert_eq!(world.ask("6s topic four 1"), "full: 1 topics");
    world.check();
}
