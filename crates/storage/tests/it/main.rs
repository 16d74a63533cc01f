//! Every engine keeps every promise.

driftq_storage::conformance!(memory, driftq_storage::Memory::new(|| driftq_core::Timestamp(0)));
