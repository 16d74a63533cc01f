//! Encodes and decodes like two nodes. The decoded value must equal the encoded one in every field.

use std::fmt::Debug;

use driftq_core::change::Delivery;
use driftq_core::node_codec::{
    NODE_CODEC_VERSION, open_answer, open_call, open_deliveries, pack_answer, pack_call,
    pack_deliveries,
};
use driftq_core::{Command, CommandResult};

pub(crate) fn call(command: &Command) -> Command {
    same(command, open_call(&pack_call(command)).expect("a command can be read"))
}

pub(crate) fn answer(answered: &CommandResult) -> CommandResult {
    same(answered, open_answer(&pack_answer(answered)).expect("an answer can be read"))
}

pub(crate) fn deliveries(given: &[Box<Delivery>]) {
    let packed = pack_deliveries(given, NODE_CODEC_VERSION).expect("this release reads them");
    let arrived = open_deliveries(&packed).expect("deliveries can be read");
    assert_eq!(format!("{arrived:?}"), format!("{given:?}"));
}

fn same<T: Debug>(sent: &T, arrived: T) -> T {
    assert_eq!(format!("{arrived:?}"), format!("{sent:?}"));
    arrived
}
