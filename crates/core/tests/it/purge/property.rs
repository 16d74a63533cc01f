//! Any order of deaths, purges, deliveries and crashes.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use crate::transcript::World;

/// The steps around a hole.
#[derive(Debug, Clone)]
enum Step {
    Bury,
    Purge(usize),
    Read { credit: u32 },
    Ack(usize),
    Nack(usize),
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => Just(Step::Bury),
        3 => (0..12_usize).prop_map(Step::Purge),
        2 => (1..4_u32).prop_map(|credit| Step::Read { credit }),
        2 => (0..12_usize).prop_map(Step::Ack),
        1 => (0..12_usize).prop_map(Step::Nack),
        1 => Just(Step::Crash),
    ];
    prop::collection::vec(step, 1..40)
}

/// Dead letters that are created, read and purged, and their deliveries.
struct Graveyard {
    world: World,
    second: u64,
    buried: usize,
    purged: BTreeSet<usize>,
    /// The last delivered attempt of each.
    given: BTreeMap<usize, u32>,
}

impl Graveyard {
    fn play(&mut self, line: &str) {
        self.second += 1;
        let said = self.world.play(&format!("{}s {line}", self.second));
        for line in said.iter().filter(|line| line.contains(" gets dlq.orders/undertaker 0:")) {
            let place = line.split("undertaker 0:").nth(1).and_then(|rest| rest.split(' ').next());
            let (offset, attempt) = place.and_then(|place| place.split_once('.')).expect("a place");
            let offset = offset.parse().expect("an offset");
            assert!(!self.purged.contains(&offset), "{offset} was purged, and then {line}");
            self.given.insert(offset, attempt.parse().expect("an attempt"));
        }
        self.world.check();
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Bury => {
                let offset = self.buried;
                self.play("produce orders m");
                self.play(&format!("bury orders/biller 0:{offset}.1"));
                self.buried += 1;
            }
            Step::Purge(offset) if *offset < self.buried => {
                self.purged.insert(*offset);
                self.play(&format!("purge orders 0:{offset}"));
            }
            Step::Read { credit } => {
                let name = format!("u{}", self.second);
                self.play(&format!("join {name} dlq.orders/undertaker lease=12h credit={credit}"));
            }
            Step::Ack(offset) => self.settle("ack", *offset),
            Step::Nack(offset) => self.settle("nack", *offset),
            Step::Crash => {
                self.play("crash");
                self.play("join a orders/biller lease=12h credit=1000");
            }
            Step::Purge(_) => {}
        }
    }

    fn settle(&mut self, verb: &str, offset: usize) {
        if let Some(attempt) = self.given.get(&offset) {
            let line = format!("{verb} dlq.orders/undertaker 0:{offset}.{attempt} reason=no");
            self.play(&line);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_reader_gets_every_dead_letter_that_is_not_purged_and_none_that_is(steps in steps()) {
        let world = World::new(Default::default());
        let (purged, given) = Default::default();
        let mut yard = Graveyard { world, second: 100, buried: 0, purged, given };
        yard.play("topic orders 1");
        yard.play("join a orders/biller lease=12h credit=1000");
        yard.step(&Step::Bury);
        yard.play("group dlq.orders/undertaker");
        steps.iter().for_each(|step| yard.step(step));
        yard.play("join last dlq.orders/undertaker lease=12h credit=1000");
        for offset in 0..yard.buried {
            let is_known = yard.given.contains_key(&offset) || yard.purged.contains(&offset);
            prop_assert!(is_known, "{offset} was never delivered");
        }
    }
}
